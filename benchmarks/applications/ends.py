# SPDX-License-Identifier: BSD-2-Clause
"""The processes of an application in a lab: started, connected to each other, and asked what they saw."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from applications.end import Plan
from mrc.bench.processes import START_TIMEOUT_S, running
from mrc.errors import PeerError
from mrc.lab import Lab
from mrc.net.transfer.report import spurious_retransmissions
from mrc.untrusted import own_json

HERE = Path(__file__).resolve().parents[2]
_PROGRAM = Path(__file__).with_name("end.py")
_END_S = 20.0


class Talking:
    """A process that reads and prints lines of JSON."""

    def __init__(self, process: subprocess.Popen[str], host: str) -> None:
        self._process = process
        self._host = host
        self._seen = b""

    def send(self, document: dict[str, Any]) -> None:
        """Raises PeerError when it has ended."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(document) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._ended() from None

    def hear(self, timeout_s: float = START_TIMEOUT_S) -> dict[str, Any]:
        """Its next line. Raises PeerError when none comes in time, or it ends."""
        assert self._process.stdout is not None
        deadline = time.monotonic() + timeout_s
        # Past the stream's own buffer, which select knows nothing of.
        descriptor = self._process.stdout.fileno()
        while b"\n" not in self._seen:
            readable, _, _ = select.select([descriptor], (), (), max(0.0, deadline - time.monotonic()))
            if not readable:
                raise PeerError(f"the process on {self._host} said nothing for {timeout_s:.0f} s")
            data = os.read(descriptor, 1 << 16)
            if not data:
                raise self._ended()
            self._seen += data
        line, _, self._seen = self._seen.partition(b"\n")
        return dict(own_json(line))

    def end(self) -> None:
        """Let it go, and wait until it has."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            raise PeerError(f"the process on {self._host} did not end within {_END_S:.0f} s") from None

    def _ended(self) -> PeerError:
        assert self._process.stderr is not None
        self._process.wait(_END_S)
        said = self._process.stderr.read().strip().splitlines() or [f"exit status {self._process.returncode}"]
        return PeerError(f"the process on {self._host} ended: {said[-1]}")


@contextmanager
def _started(lab: Lab, tree: Path, host: str, plan: Plan) -> Iterator[Talking]:
    argv = ["env", f"PYTHONPATH={tree}", sys.executable, "-P", str(_PROGRAM), json.dumps(asdict(plan))]
    with running(lab, host, argv, stdin=subprocess.PIPE, cwd=tree) as process:
        yield Talking(process, host)


def run_ends(
    lab: Lab, tree: Path, plans: Sequence[tuple[str, Plan]], links: Sequence[tuple[int, int]], patience_s: float
) -> list[dict[str, Any]]:
    """Run one process a (host, plan), with `mrc` of `tree`; what each of them saw, in this order.

    `links` are pairs of their places: who sends to whom. Raises PeerError when a process fails or takes longer than
    `patience_s`, and when not all that was written lies where it was written to.
    """
    with ExitStack() as stack:
        ends = [stack.enter_context(_started(lab, tree, host, plan)) for host, plan in plans]
        described = [end.hear() for end in ends]
        theirs: list[dict[str, Any]] = [{} for _ in ends]
        for sender, receiver in links:
            theirs[sender] |= {"out": described[receiver]["in"], "memory": described[receiver]["memory"]}
            theirs[receiver]["in"] = described[sender]["out"]
        for end, peers in zip(ends, theirs, strict=True):
            end.send(peers)
        for end in ends:
            end.hear()
        for end in ends:
            end.send({})
        saw: list[dict[str, Any]] = [{} for _ in ends]
        # Who only receives is asked when those who send have done so.
        for place in sorted(range(len(ends)), key=lambda place: not plans[place][1].sends):
            if not plans[place][1].sends:
                ends[place].send({})
            saw[place] = ends[place].hear(patience_s)
        for end in ends:
            end.end()
    for sender, receiver in links:
        if not lost(saw) and saw[sender]["sent_sha256"] != saw[receiver]["received_sha256"]:
            raise PeerError(f"what lies in the memory of end {receiver} is not what end {sender} wrote there")
    return saw


def lost(saw: Sequence[dict[str, Any]]) -> list[str]:
    """Why QPs were lost."""
    return [each["lost"] for each in saw if each["lost"]]


def resent(saw: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What all ends together sent again, and how much of it in vain, as a share of all packets sent."""
    sent, again, noticed, duplicates = (
        sum(each[key] for each in saw)
        for key in ("packets_sent", "retransmitted_packets", "noticed_spurious", "duplicates")
    )
    spurious = spurious_retransmissions(again, noticed, duplicates)
    return {
        "packets_sent": sent,
        "retransmitted_packets": again,
        "spurious_retransmissions": spurious,
        "spurious_share": round(spurious / sent, 5) if sent else 0.0,
    }
