# SPDX-License-Identifier: BSD-2-Clause
"""Dataclasses that are quick to make: what a process imports at its start is made of them.

`@record` takes `frozen`, `slots` and `eq` and gives the class that `@dataclass` gives, for `fields`, `replace` and
`asdict` too; each field is a parameter. `dataclass` writes and compiles up to six functions for each class at once,
for sixty classes a fifth of what a short command costs. Here only `__init__` is compiled, and that when several
objects of a class were made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as record

    def compile_all() -> None: ...
    def values(it: Any) -> dict[str, Any]: ...
else:
    from dataclasses import MISSING, FrozenInstanceError, dataclass, fields
    from functools import partial
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
                if slots and "__getstate__" not in own:
                    # What copies and pickles would set the fields of an object that is there.
                    made.__getstate__, made.__setstate__ = _getstate, _setstate
            return made

        return make

    # Of most classes a short command makes few objects: to set them field by field costs less than to compile.
    _SET_ONE_BY_ONE = 16
    # All stand-ins, those that have been replaced too.
    _waiting = []

    def compile_all():
        """Compile the `__init__` of every record class now. Without it, each is compiled when its objects are made.

        For processes that create and free many objects: a function compiled between them keeps the memory around it.
        """
        while _waiting:
            each = _waiting.pop()
            if each.stands_in():
                each.compile()

    def values(it):
        """Return the fields of a record by name, as they are. `asdict` copies what they hold, to any depth."""
        return {each.name: getattr(it, each.name) for each in fields(it)}

    class _Init:
        """Stands for `__init__` until it is worth to compile one, or somebody looks at it."""

        __slots__ = ("_class", "_fields", "_frozen", "_made")

        def __init__(self, cls, frozen):
            self._class, self._frozen = cls, frozen
            self._fields = None
            self._made = 0
            _waiting.append(self)

        def __get__(self, it, owner=None):
            self._made += 1
            if it is not None and self._made <= _SET_ONE_BY_ONE:
                return partial(self._set, it)
            made = self.compile()
            return made if it is None else made.__get__(it, owner)

        def stands_in(self):
            return self._class.__dict__.get("__init__") is self

        def compile(self):
            made = self._class.__init__ = _init(self._class, self._frozen)
            return made

        def _set(self, it, *args, **kwargs):
            if self._fields is None:
                self._fields = fields(self._class)
            values = {each.name: value for each, value in zip(self._fields, args, strict=False)} | kwargs
            fits = len(values) == len(args) + len(kwargs)
            for each in self._fields:
                if each.name in values:
                    continue
                if each.default_factory is not MISSING:
                    values[each.name] = each.default_factory()
                elif each.default is not MISSING:
                    values[each.name] = each.default
            if not fits or len(values) != len(self._fields):
                # It says what is wrong.
                _init(self._class, self._frozen)(it, *args, **kwargs)
            for each in self._fields:
                object.__setattr__(it, each.name, values[each.name])
            if hasattr(it, "__post_init__"):
                it.__post_init__()

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

    def _getstate(self):
        return [getattr(self, each.name) for each in fields(self)]

    def _setstate(self, state):
        for each, value in zip(fields(self), state, strict=True):
            object.__setattr__(self, each.name, value)

    def _equality(compared):
        def __eq__(self, other):  # noqa: N807 - the method itself
            return compared(self) == compared(other) if type(other) is type(self) else NotImplemented

        return __eq__

    def _hash(compared):
        def __hash__(self):  # noqa: N807 - the method itself
            return hash(compared(self))

        return __hash__


__all__ = ["record", "values"]
