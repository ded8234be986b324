"""Dataclasses that are quick to make: what a process imports at its start is made of them.

`@record` takes `frozen`, `slots` and `eq` and gives the class that `@dataclass` gives, for `fields`, `replace` and
`asdict` too; each field is a parameter. Nothing is compiled until the first object of a class is made, then
`__init__` alone: `dataclass` writes and compiles up to six functions for each class at once, for sixty classes a
fifth of what a short command costs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass as record
else:
    from dataclasses import MISSING, FrozenInstanceError, dataclass, fields
    from operator import attrgetter

    def record(*, frozen=False, slots=False, eq=True):
        """Decorate a class: see the module. With `frozen` and `eq` its objects can be hashed."""

        def make(cls):
            own = cls.__dict__
            if cls.__doc__ is None:
                # `dataclass` would write the parameters down.
                cls.__doc__ = f"{cls.__name__}({', '.join(own.get('__annotations__', ()))})"
            made = dataclass(cls, init=False, repr=False, eq=False, slots=slots)
            made.__init__ = _Init(made, frozen)
            if "__repr__" not in own:
                made.__repr__ = _repr
            names = [each.name for each in fields(made) if each.compare]
            if eq and "__eq__" not in own:
                made.__eq__ = _equality(attrgetter(*names))
                if "__hash__" not in own or own["__hash__"] is None:
                    made.__hash__ = _hash(attrgetter(*names)) if frozen else None
            if frozen:
                made.__setattr__ = _no_setting
                made.__delattr__ = _no_deleting
            return made

        return make

    class _Init:
        """Stands for `__init__` until somebody asks for it."""

        __slots__ = ("_class", "_frozen")

        def __init__(self, cls, frozen):
            self._class, self._frozen = cls, frozen

        def __get__(self, it, owner=None):
            made = self._class.__init__ = _init(self._class, self._frozen)
            return made if it is None else made.__get__(it, owner)

    def _init(cls, frozen):
        """Takes the fields in their order and ends with `__post_init__`, as that of a dataclass does."""
        parameters, lines = ["self"], []
        known = {"_set": object.__setattr__, "_made": MISSING}
        for each in fields(cls):
            name = value = each.name
            if each.default_factory is not MISSING:
                known[f"_make_{name}"] = each.default_factory
                parameters.append(f"{name}=_made")
                value = f"_make_{name}() if {name} is _made else {name}"
            elif each.default is not MISSING:
                known[f"_default_{name}"] = each.default
                parameters.append(f"{name}=_default_{name}")
            else:
                parameters.append(name)
            lines.append(f"_set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
        if hasattr(cls, "__post_init__"):
            lines.append("self.__post_init__()")
        exec(f"def __init__({', '.join(parameters)}):\n " + "\n ".join(lines or ["pass"]), known)
        made = known["__init__"]
        made.__qualname__ = f"{cls.__qualname__}.__init__"
        made.__annotations__ = {each.name: each.type for each in fields(cls)} | {"return": None}
        return made

    def _repr(self):
        shown = ", ".join(f"{each.name}={getattr(self, each.name)!r}" for each in fields(self) if each.repr)
        return f"{type(self).__qualname__}({shown})"

    def _no_setting(self, name, value):
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def _no_deleting(self, name):
        raise FrozenInstanceError(f"cannot delete field {name!r}")

    def _equality(compared):
        def __eq__(self, other):  # noqa: N807 - the method itself
            return compared(self) == compared(other) if type(other) is type(self) else NotImplemented

        return __eq__

    def _hash(compared):
        def __hash__(self):  # noqa: N807 - the method itself
            return hash(compared(self))

        return __hash__


__all__ = ["record"]
