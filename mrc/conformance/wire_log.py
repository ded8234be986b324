# SPDX-License-Identifier: BSD-2-Clause
"""Everything that passed between tester and target during a case, in order: for stories and for pcap files."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

from mrc.conformance.packets import Crafted, Heard
from mrc.conformance.times import time_text
from mrc.whole_files import write_whole

_PCAP_NANOSECONDS = 0xA1B23C4D
_LINKTYPE_RAW = 101
_SNAPLEN = 262_144


@dataclass(frozen=True, slots=True)
class Passed:
    """A packet at `at` ns after the case began: one of the tester's, or one of the target's."""

    at: int
    packet: Crafted | Heard
    frame: bytes

    @property
    def from_target(self) -> bool:
        return isinstance(self.packet, Heard)

    def __str__(self) -> str:
        return f"{time_text(self.at):>10} {'target' if self.from_target else 'tester'}: {self.packet}"


class WireLog(list[Passed]):
    """What passed, oldest first."""

    def story(self, most: int) -> list[str]:
        """A line each for the last `most` packets."""
        lines = [str(each) for each in self[-most:]]
        left = len(self) - len(lines)
        return [f"({left} packets before)", *lines] if left else lines

    def write_pcap(self, path: Path) -> None:
        """Raises SystemRefused when the file cannot be written."""
        parts = [struct.pack("<IHHiIII", _PCAP_NANOSECONDS, 2, 4, 0, 0, _SNAPLEN, _LINKTYPE_RAW)]
        for each in self:
            whole, rest = divmod(each.at, 1_000_000_000)
            parts += [struct.pack("<IIII", whole, rest, len(each.frame), len(each.frame)), each.frame]
        write_whole(path, b"".join(parts))
