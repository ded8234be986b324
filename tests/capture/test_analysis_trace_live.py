# SPDX-License-Identifier: BSD-2-Clause
"""A real transfer with loss, captured and traced: what is reported is what the endpoint reports by other ways."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mrc.trace import read_trace
from mrc.trace.vocabulary import EV_TOTALS

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(
        os.geteuid() != 0 and os.environ.get("CI") != "true",
        reason="needs root",
    ),
]


def mrc(*argv: str | Path) -> dict[str, Any]:
    argv = (sys.executable, "-m", "mrc", *argv, "--json")
    done = subprocess.run(list(map(str, argv)), capture_output=True, text=True, check=True, timeout=600)
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


def test_losses_reported_of_each_path_are_the_endpoint_s(tmp_path: Path) -> None:
    capture, trace = tmp_path / "x.pcap", tmp_path / "x.trace"
    sent = mrc("demo", "--size", "4MiB", "--loss", "3%", "--cut-after", "100%", "--pcap", capture, "--trace", trace)
    sender, receiver = (f"{trace}.{end}" for end in ("sender", "receiver"))
    found = mrc("analyze", capture, "--trace", sender, "--trace", receiver)
    with open(sender, "rb") as stream:
        totals = {event["ev"]: event for event in read_trace(stream)[1] if event.kind is EV_TOTALS}
    (direction,) = (each for qp in found["qps"] for each in qp["directions"] if each["packets"])
    reported = direction["reported"]
    # What the endpoint counted as it went, in its report and at the end of its trace.
    assert {path["ev"]: path["reported"]["lost"] for path in direction["paths"]} == {
        path["ev"]: path["lost"] for path in sent["paths"]
    }
    assert {path["ev"]: path["reported"]["lost"] for path in direction["paths"]} == {
        ev: event["lost"] for ev, event in totals.items()
    }
    assert reported["lost"] > 0
    # The report settles on what either end knows: the sender notices few of the packets that the receiver got twice.
    known = max(reported["spurious_retransmissions"], sent["duplicates_received"])
    assert sent["counters"].get("spurious_retransmissions", 0) == min(sent["retransmitted_packets"], known)
    # The responder's trace goes on after the transfer's closing exchange, so what came late is in it alone.
    assert 0 <= sent["duplicates_received"] <= reported["duplicates_received"]
    assert sent["spurious_retransmissions"] >= min(sent["duplicates_received"], sent["retransmitted_packets"])
    # The capture has every packet, so every loss finds its own, and both count the same retransmissions.
    assert direction["not_captured"] == 0
    assert reported["losses_not_captured"] == 0
    assert reported["retransmissions"] == direction["retransmissions"] == sent["retransmitted_packets"]
    # What the responder did not get was lost, and each packet sent again was lost or came twice: so both ends together
    # know, whatever the requestor took for lost.
    lost = direction["packets"] - reported["requests_received"]
    assert reported["lost"] + reported["spurious_retransmissions"] == lost + reported["duplicates_received"]
