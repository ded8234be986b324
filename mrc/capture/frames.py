# SPDX-License-Identifier: BSD-2-Clause
"""A run of captured packets: their bytes where they were read, and where each one lies, as arrays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

U8 = npt.NDArray[np.uint8]
I64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

# No run has more packets than this, nor begins in a buffer of more bytes (but for one packet larger than that).
RUN_PACKETS = 8192
RUN_BYTES = 8 << 20
# The most bytes of a packet that a file may keep.
HIGHEST_SNAPLEN = 1 << 24
# So many bytes of `Frames.data` may be read beyond any packet's end. The longest header (SLL, two IPv6 headers, a
# segment list, UDP, a SACK) that is read without a look at its end is shorter.
TAIL = 256
# In place of a time where the file has none, or one that 64 bits of nanoseconds do not hold.
NO_TIME = -(1 << 63)
LATEST_NS = (1 << 63) - 1


class Record(NamedTuple):
    """One captured packet.

    `time_ns` is in nanoseconds since the epoch, None where the file has no time stamp (or one after the year 2262);
    `data` the bytes kept, from the link layer on; `wire_length` how many bytes the packet had; `link_type` a LINKTYPE
    number.
    """

    time_ns: int | None
    data: bytes
    wire_length: int
    link_type: int


class Frames(NamedTuple):
    """`n` packets in file order. `data` holds them and whatever the file has between them, and at least TAIL bytes
    after the last; nobody writes to it again.

    Each of the others is int64 [n]: `start`, offset in `data` of the first byte (of the link layer); `kept`, bytes
    there; `wire_length`, bytes the packet had; `time_ns`, nanoseconds since the epoch or NO_TIME; `link_type`,
    LINKTYPE number. `digits` is how many digits behind the point of a second the file's times have.
    """

    data: U8
    start: I64
    kept: I64
    wire_length: I64
    time_ns: I64
    link_type: I64
    digits: int = 9

    def record(self, row: int) -> Record:
        """One packet, its bytes copied."""
        start, time_ns = int(self.start[row]), int(self.time_ns[row])
        return Record(
            None if time_ns == NO_TIME else time_ns,
            self.data[start : start + int(self.kept[row])].tobytes(),
            int(self.wire_length[row]),
            int(self.link_type[row]),
        )

    def records(self) -> Iterator[Record]:
        """Each packet, its bytes copied."""
        view = self.data.data
        columns = (self.start, self.kept, self.wire_length, self.time_ns, self.link_type)
        for start, kept, wire_length, time_ns, link in zip(*(column.tolist() for column in columns), strict=True):
            data = view[start : start + kept].tobytes()
            yield Record(None if time_ns == NO_TIME else time_ns, data, wire_length, link)


def with_data(frames: Frames, changed: dict[int, bytes]) -> Frames:
    """The frames with other bytes for some rows; `data` is copied."""
    added = b"".join([*changed.values(), bytes(TAIL)])
    start, kept = frames.start.copy(), frames.kept.copy()
    rows = list(changed)
    kept[rows] = [len(data) for data in changed.values()]
    start[rows] = len(frames.data) + np.cumsum(kept[rows]) - kept[rows]
    data = np.concatenate((frames.data, np.frombuffer(added, np.uint8)))
    return frames._replace(data=data, start=start, kept=kept)


def rows_at(data: U8, at: I64, length: int) -> U8:
    """`length` bytes from each offset of `at` on, as rows: uint8 [len(at), length], a copy."""
    windows: npt.NDArray[Any] = np.ndarray((len(data) - length + 1,), f"V{length}", data, 0, (1,))
    return windows[at].view(np.uint8).reshape(len(at), length)
