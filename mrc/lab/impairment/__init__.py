# SPDX-License-Identifier: BSD-2-Clause
"""What can be wrong with a link: rate and queue, marks, trims, loss, duplicates, corruption, in each direction."""

from mrc.lab.bpf import EbpfRefused, LinkCounters
from mrc.lab.impairment.delay import NO_DELAY, DelayFound
from mrc.lab.impairment.direction import (
    Direction,
    Sending,
    SendingFigures,
    change,
    clear,
    delays,
    figures,
    found_losses,
    leaves_freely,
    program_of,
    read,
    sending_ends,
)
from mrc.lab.impairment.loss import Loss
from mrc.lab.impairment.loss import installed as losses
from mrc.lab.impairment.turns import turn

__all__ = [
    "NO_DELAY",
    "DelayFound",
    "Direction",
    "EbpfRefused",
    "LinkCounters",
    "Loss",
    "Sending",
    "SendingFigures",
    "change",
    "clear",
    "delays",
    "figures",
    "found_losses",
    "leaves_freely",
    "losses",
    "program_of",
    "read",
    "sending_ends",
    "turn",
]
