# SPDX-License-Identifier: BSD-2-Clause
"""torch's store as the one by which the ranks of a group find each other."""

from __future__ import annotations

import time

import torch.distributed as dist

from mrc.errors import PeerError

_FIRST_LOOK_S, _LONGEST_LOOK_S = 0.001, 0.05


class TorchStore:
    """A torch.distributed Store as `mrc.collectives.Store`.

    What lies in it opens memory of the ranks, and torch's TCPStore sends it in clear text: it is for a network that
    only the job's hosts are on, as it is with any backend of torch.
    """

    # Groups of other prefixes come and go in the same store.
    overwrites = True

    def __init__(self, store: dist.Store) -> None:
        self._store = store

    def set(self, key: str, value: bytes) -> None:
        try:
            self._store.set(key, value)
        except dist.DistError as error:
            raise _lost(error) from None

    def get(self, key: str, timeout: float) -> bytes:
        # Store.wait would do, but torch's TCPStore writes two warnings of each that comes to its end.
        deadline = time.monotonic() + timeout
        pause = _FIRST_LOOK_S
        try:
            while not self._store.check([key]):
                left = deadline - time.monotonic()
                if left <= 0:
                    raise TimeoutError(f"nobody has set {key!r} within {timeout:g} s")
                time.sleep(min(pause, left))
                pause = min(2 * pause, _LONGEST_LOOK_S)
            value: bytes = self._store.get(key)
        except dist.DistError as error:
            raise _lost(error) from None
        return value


def _lost(error: Exception) -> PeerError:
    why = str(error).partition("\n")[0]
    return PeerError(f"the store of torch.distributed does not answer, is rank 0 or torchrun gone? {why}")
