"""Collective operations of many processes over MRC, on `mrc.verbs` and numpy (docs/collectives.md)."""

from mrc.collectives.config import DEFAULT_GROUP_CONFIG, GroupConfig
from mrc.collectives.errors import CallMismatch, GroupError, OperationTimeout, RankLost, RankUnreachable
from mrc.collectives.group import Group
from mrc.collectives.reduction import ReduceOp
from mrc.collectives.stores import FileStore, MemoryStore, Store
from mrc.collectives.work import Work

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
    "Work",
]
