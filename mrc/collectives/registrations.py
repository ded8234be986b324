"""Arrays registered where they lie, and kept registered for the next operation on the same memory."""

from __future__ import annotations

import ctypes
from collections import Counter, OrderedDict

from mrc.collectives.arrays import Bytes
from mrc.verbs import MR, PD, AccessFlag, VerbsError

_ALL = AccessFlag.LOCAL_WRITE | AccessFlag.REMOTE_WRITE
_NONE = AccessFlag(0)
_Key = tuple[int, int, bool]

__all__ = ["Memory", "Registrations"]


class Registrations:
    """Regions by the memory they name. At most `most` are kept that no operation uses, those used last.

    None of them keeps memory alive: the operation does, while it runs. One that outlives its array is of no harm: it is
    used again only for an array that lies at the same place, and no peer writes where no operation of its own runs.
    """

    def __init__(self, pd: PD, most: int) -> None:
        self._pd = pd
        self._most = most
        self._known: OrderedDict[_Key, MR] = OrderedDict()
        self._users: Counter[_Key] = Counter()
        self.hits = 0
        self.misses = 0

    def __len__(self) -> int:
        return len(self._known)

    def take(self, view: Bytes) -> tuple[_Key, MR]:
        """The region of these bytes, at least one of them, until it is given back."""
        address, writable = view.ctypes.data, bool(view.flags.writeable)
        key = (address, view.nbytes, writable)
        found = self._known.get(key)
        if found is None:
            self.misses += 1
            buffer = (ctypes.c_char * view.nbytes).from_address(address)
            found = self._known[key] = self._pd.mr(buffer, _ALL if writable else _NONE)
        else:
            self.hits += 1
            self._known.move_to_end(key)
        self._users[key] += 1
        return key, found

    def give_back(self, key: _Key) -> None:
        self._users[key] -= 1
        if not self._users[key]:
            del self._users[key]
        unused = len(self._known) - len(self._users)
        if unused > self._most:
            self._let_go(unused - self._most)

    def _let_go(self, count: int) -> None:
        for key in [key for key in self._known if key not in self._users][:count]:
            try:
                self._known[key].close()
            except VerbsError:
                # A write that has not completed reads from it: the next time.
                continue
            del self._known[key]

    def close(self) -> None:
        """Let go of all of them: no QP uses any."""
        for mr in self._known.values():
            mr.close()
        self._known.clear()
        self._users.clear()


class Memory:
    """Bytes of an operation: as an array, and as a region once it is needed. `mr`: they are registered for good."""

    __slots__ = ("_key", "_mr", "_registrations", "view")

    def __init__(self, view: Bytes, registrations: Registrations, mr: MR | None = None) -> None:
        self.view = view
        self._registrations = registrations
        self._key: _Key | None = None
        self._mr = mr

    @property
    def mr(self) -> MR:
        if self._mr is None:
            self._key, self._mr = self._registrations.take(self.view)
        return self._mr

    def release(self) -> None:
        if self._key is not None:
            self._registrations.give_back(self._key)
            self._key = self._mr = None
