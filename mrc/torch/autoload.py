# SPDX-License-Identifier: BSD-2-Clause
"""Registers the backend. torch calls this whenever it is imported, so nothing here loads more than torch has."""

from __future__ import annotations

from typing import Any

from mrc.torch.compat import BACKEND


def register() -> None:
    """Make "mrc" a backend of torch.distributed for CPU tensors. Called again it does nothing.

    A torch that was built without torch.distributed stays as it is.
    """
    import torch.distributed as dist

    if not dist.is_available() or hasattr(dist.Backend, BACKEND.upper()):
        return
    dist.Backend.register_backend(BACKEND, _create, extended_api=True, devices=["cpu"])


def _create(wanted: Any, options: Any) -> Any:
    """A process group, as torch asks for one: `wanted` has its store, ranks and timeout; `options` is a GroupConfig."""
    from mrc.torch.process_group import MrcProcessGroup

    return MrcProcessGroup(
        wanted.store, wanted.group_rank, wanted.group_size, wanted.timeout, wanted.global_ranks_in_group, options
    )
