# SPDX-License-Identifier: BSD-2-Clause
"""Collective operations of many processes over MRC, on `mrc.verbs` and numpy (docs/collectives.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mrc.collectives.config import DEFAULT_GROUP_CONFIG, GroupConfig
from mrc.collectives.errors import CallMismatch, GroupError, OperationTimeout, RankLost, RankUnreachable
from mrc.collectives.group import Group
from mrc.collectives.reduction import ReduceOp
from mrc.collectives.stores import FileStore, MemoryStore, Store
from mrc.collectives.work import Work
from mrc.lazy import lazy_names

if TYPE_CHECKING:
    from mrc.collectives.stores.ticket import TicketServer, TicketStore

__all__ = [
    "DEFAULT_GROUP_CONFIG",
    "CallMismatch",
    "FileStore",
    "Group",
    "GroupConfig",
    "GroupError",
    "MemoryStore",
    "OperationTimeout",
    "RankLost",
    "RankUnreachable",
    "ReduceOp",
    "Store",
    "TicketServer",
    "TicketStore",
    "Work",
]

# These bring the exchange with them, which few ranks need.
__getattr__ = lazy_names(__name__, {"stores.ticket": ("TicketServer", "TicketStore")})
