# SPDX-License-Identifier: BSD-2-Clause
"""What a group has of its device, made with its first link."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mrc.collectives.arrays import Bytes
from mrc.collectives.config import GroupConfig
from mrc.collectives.registrations import Memory, Registrations
from mrc.verbs import CQ, MR, PD, WC, Context
from mrc.verbs.device import Device


class Resources:
    """A context with a protection domain, a completion queue and scratch memory. `note` takes all completions."""

    def __init__(self, device: Device, config: GroupConfig, note: Callable[[WC], None]) -> None:
        self.context = Context(device, tuning=config.tuning)
        try:
            self.pd: PD = self.context.pd()
            self.registrations = Registrations(self.pd, config.registrations)
            memory: Bytes = np.zeros(config.window * config.chunk_bytes, np.uint8)
            self.scratch_mr: MR = self.pd.mr(memory)
            self.scratch = Memory(memory, self.registrations, self.scratch_mr)
            # The handler takes all completions; the queue stays empty.
            self.cq: CQ = self.context.cq(1, handler=note)
        except BaseException:
            self.context.close()
            raise

    def close(self) -> None:
        """Release everything. All QPs are closed."""
        self.registrations.close()
        self.scratch_mr.close()
        self.cq.close()
        self.context.close()
