"""Dataclasses that are quick to make: what a process imports at its start is made of them.

`@record` takes `frozen`, `slots` and `eq` and gives the class that `@dataclass` gives, for `fields`, `replace` and
`asdict` too. Only `__init__` is compiled: `dataclass` writes and compiles up to six functions for each class, for sixty
classes a fifth of what a short command costs. A frozen field is set once, by `__init__`; after that it raises
FrozenInstanceError.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass as record
else:
    from dataclasses import FrozenInstanceError, dataclass, fields
    from operator import attrgetter

    def record(*, frozen=False, slots=False, eq=True):
        """Decorate a class: see the module. With `frozen` and `eq` its objects can be hashed."""

        def make(cls):
            own = cls.__dict__
            made = dataclass(cls, repr=False, eq=False, slots=slots)
            if "__repr__" not in own:
                made.__repr__ = _repr
            names = [each.name for each in fields(made) if each.compare]
            if eq and "__eq__" not in own:
                made.__eq__ = _equality(attrgetter(*names))
                if "__hash__" not in own or own["__hash__"] is None:
                    made.__hash__ = _hash(attrgetter(*names)) if frozen else None
            if frozen:
                made.__setattr__ = _setting_once(frozenset(each.name for each in fields(made)))
                made.__delattr__ = _no_deleting
            return made

        return make

    def _repr(self):
        shown = ", ".join(f"{each.name}={getattr(self, each.name)!r}" for each in fields(self) if each.repr)
        return f"{type(self).__qualname__}({shown})"

    def _setting_once(names):
        def __setattr__(self, name, value):  # noqa: N807 - the method itself
            if name not in names or (name in vars(self) if hasattr(self, "__dict__") else hasattr(self, name)):
                raise FrozenInstanceError(f"cannot assign to field {name!r}")
            object.__setattr__(self, name, value)

        return __setattr__

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
