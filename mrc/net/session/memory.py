# SPDX-License-Identifier: BSD-2-Clause
"""Memory that is free in this process, and not yet the system's again."""

from __future__ import annotations

import ctypes
import gc
import sys

from mrc.records import compile_all


def settle() -> None:
    """Create the objects that last as long as the process, before it creates thousands of QPs.

    Python's allocator returns memory in arenas of 1 MiB, and only empty ones. One lasting object that is created
    between the objects of QPs keeps its arena after the QPs are gone.
    """
    import concurrent.futures._base  # noqa: F401 - `Driver.call` imports it when a thread first waits for the loop

    compile_all()


def give_back_memory() -> None:
    """Give the system back what was freed: after many QPs at once, which take 50 KB each.

    The allocator of C keeps what lies below anything that is in use, until it is told otherwise. It takes milliseconds.
    """
    gc.collect()
    # The attribute cache refers to strings that C code created for one lookup: each keeps an arena.
    if _clear is not None:
        _clear()
    if _trim is not None:
        _trim(0)


# Python 3.13 renamed the first; other C libraries than glibc lack the second.
_clear = getattr(sys, "_clear_internal_caches", None) or getattr(sys, "_clear_type_cache", None)
_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
