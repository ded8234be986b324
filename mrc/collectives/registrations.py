# SPDX-License-Identifier: BSD-2-Clause
"""A cache of memory regions: arrays stay registered for the next operation on the same memory."""

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
    """Regions by address and length. Keeps the `most` recently used ones that no operation uses.

    A region does not keep its memory alive; the operation does while it runs. A region may outlive its array: it is
    used again only for an array at the same address, and peers write only into the arrays of running operations.
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
        """Return the region of these bytes, at least one byte, until `give_back`."""
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
                # A write in flight reads from it: try again next time.
                continue
            del self._known[key]

    def close(self) -> None:
        """Deregister all regions. No QP may use any of them."""
        for mr in self._known.values():
            mr.close()
        self._known.clear()
        self._users.clear()


class Memory:
    """An operation's bytes, registered when `mr` is first read. A given `mr` is not the cache's."""

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
