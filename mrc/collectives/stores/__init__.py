"""Where the ranks of a group leave what the others need to reach them.

A store is anything with `set` and `get` (`Store`). What lies in it opens memory: a store is read by the ranks alone.
"""

from mrc.collectives.stores.file import FileStore
from mrc.collectives.stores.memory import MemoryStore
from mrc.collectives.stores.store import Store

__all__ = ["FileStore", "MemoryStore", "Store"]
