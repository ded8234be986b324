# SPDX-License-Identifier: BSD-2-Clause
"""A transfer under way, and which planes carry it: counted where its bytes leave, whatever time that takes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from live_run import MIB, Running, Transfers, eventually, sha256

from mrc.lab import Lab

# Control packets of a plane that carries no data are a fraction of what data would be.
CONTROL_SHARE = 0.02


def bytes_sent(lab: Lab, plane: int) -> int:
    """What h0's port has sent so far."""

    def read() -> int:
        lines = Path("/proc/thread-self/net/dev").read_text().splitlines()
        (counts,) = [line.split()[1:] for line in lines if line.split()[0] == f"p{plane}:"]
        return int(counts[8])

    return lab.inside("h0", read)


class Passed:
    """What h0 has sent by each plane from now on."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._before = [bytes_sent(lab, plane) for plane in range(2)]

    def bytes(self) -> list[int]:
        return [bytes_sent(self._lab, plane) - before for plane, before in enumerate(self._before)]

    def planes(self) -> set[int]:
        """Those that carry data."""
        gone_by = self.bytes()
        return {plane for plane, each in enumerate(gone_by) if each > CONTROL_SHARE * sum(gone_by)}


def until_all_goes_by(lab: Lab, planes: set[int], sender: Running) -> Passed:
    """Until these planes, and no others, carry data for a while. What has passed since that while began."""

    def look() -> Passed | None:
        passed = Passed(lab)
        assert sender.process.poll() is None, sender.process.communicate()
        eventually(lambda: sum(passed.bytes()) > MIB or sender.process.poll() is not None)
        return passed if passed.planes() == planes else None

    return eventually(look)


@dataclass(frozen=True)
class Sending:
    """A file on its way, a tenth of it acknowledged."""

    transfers: Transfers
    file: Path
    receiver: Running
    sender: Running

    @classmethod
    def of(cls, transfers: Transfers, mib: int, *options: str) -> Sending:
        file, stats = transfers.file(f"{mib} MiB", mib * MIB), transfers.scratch / f"stats of {mib} MiB"
        receiver = transfers.recv("--once", "--json")
        sender = transfers.send(receiver, [file], "--json", "--stats", stats, *options)
        transfers.when_acked(stats, 0.1, sender)
        return cls(transfers, file, receiver, sender)

    def arrives(self) -> dict[str, Any]:
        """Whole. What the sender says of it."""
        sent, received = self.sender.end().succeeded().document, self.receiver.end().succeeded().document
        assert sent["sums_agree"] is received["sums_agree"] is True
        assert self.transfers.received()[self.file.name] == sha256(self.file)
        return sent
