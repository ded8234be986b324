# SPDX-License-Identifier: BSD-2-Clause
"""The processes of an application in a lab: started, connected to each other, and asked what they saw."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from applications.end import Plan
from mrc.child import START_TIMEOUT_S, Child
from mrc.errors import PeerError
from mrc.lab import Lab
from mrc.lab.children import start_on
from mrc.net.transfer.report import spurious_retransmissions

HERE = Path(__file__).resolve().parents[2]
_PROGRAM = Path(__file__).with_name("end.py")
_END_S = 20.0


def _started(lab: Lab, tree: Path, host: str, plan: Plan) -> Child:
    argv = ["env", f"PYTHONPATH={tree}", sys.executable, "-P", str(_PROGRAM), json.dumps(asdict(plan))]
    return start_on(lab, host, f"the process on {host}", argv, talks=True, cwd=tree)


def run_ends(
    lab: Lab, tree: Path, plans: Sequence[tuple[str, Plan]], links: Sequence[tuple[int, int]], patience_s: float
) -> list[dict[str, Any]]:
    """Run one process a (host, plan), with `mrc` of `tree`; what each of them saw, in this order.

    `links` are pairs of their places: who sends to whom. Raises PeerError when a process fails or takes longer than
    `patience_s`, and when not all that was written lies where it was written to.
    """
    with ExitStack() as stack:
        ends = [stack.enter_context(_started(lab, tree, host, plan)) for host, plan in plans]
        described = [end.hear(START_TIMEOUT_S) for end in ends]
        theirs: list[dict[str, Any]] = [{} for _ in ends]
        for sender, receiver in links:
            theirs[sender] |= {"out": described[receiver]["in"], "memory": described[receiver]["memory"]}
            theirs[receiver]["in"] = described[sender]["out"]
        for end, peers in zip(ends, theirs, strict=True):
            end.say(peers)
        for end in ends:
            end.hear(START_TIMEOUT_S)
        for end in ends:
            end.say({})
        saw: list[dict[str, Any]] = [{} for _ in ends]
        # Who only receives is asked when those who send have done so.
        for place in sorted(range(len(ends)), key=lambda place: not plans[place][1].sends):
            if not plans[place][1].sends:
                ends[place].say({})
            saw[place] = ends[place].hear(patience_s)
        for end in ends:
            end.hang_up()
            end.rest(_END_S)
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
