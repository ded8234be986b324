# SPDX-License-Identifier: BSD-2-Clause
"""What torch calls things: the backend, and what differs between its versions in a process group written in Python.

torch 2.13 renamed five operations. Older ones call them by the names on the right; who asks a newer one for these gets
the new ones.
"""

from __future__ import annotations

from typing import Any, TypeVar

Class = TypeVar("Class", bound=type[Any])

BACKEND = "mrc"
OLDER_NAMES = {
    "all_gather_single": "_allgather_base",
    "all_gather_single_coalesced": "allgather_into_tensor_coalesced",
    "all_to_all_single": "alltoall_base",
    "reduce_scatter_single": "_reduce_scatter_base",
    "reduce_scatter_single_coalesced": "reduce_scatter_tensor_coalesced",
}


def under_all_names(process_group: Class) -> Class:
    """Offer a process group's operations by the names that older versions of torch use, too."""
    for name, older in OLDER_NAMES.items():
        setattr(process_group, older, getattr(process_group, name))
    return process_group
