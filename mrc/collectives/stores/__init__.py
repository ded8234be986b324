# SPDX-License-Identifier: BSD-2-Clause
"""Where the ranks of a group leave what the others need to reach them.

A store is anything with `set` and `get` (`Store`). What lies in it opens memory: a store is read by the ranks alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mrc.collectives.stores.file import FileStore
from mrc.collectives.stores.memory import MemoryStore
from mrc.collectives.stores.store import Store
from mrc.lazy import lazy_names

if TYPE_CHECKING:
    from mrc.collectives.stores.ticket import TicketServer, TicketStore

__all__ = ["FileStore", "MemoryStore", "Store", "TicketServer", "TicketStore"]

# These bring the exchange with them.
__getattr__ = lazy_names(__name__, {"ticket": ("TicketServer", "TicketStore")})
