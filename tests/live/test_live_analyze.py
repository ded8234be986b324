# SPDX-License-Identifier: BSD-2-Clause
"""`mrc analyze` of what a sending host recorded, held to the link's own drop counter and to a second recording."""

from __future__ import annotations

from collections import Counter
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
from live_captures import analyzed, data_packets, record, stop
from live_run import MIB, Transfers
from patience import undisturbed

from mrc.lab import Lab

pytestmark = pytest.mark.root

LOSSY_LINK, TOWARD, LOSSY_EV = "p0l0-p0s1", "p0s1", 1
LOSS = 0.05


class Recorded:
    """A transfer over the lossy link as both hosts and the link saw it."""

    def __init__(self, sent: dict[str, Any], dropped: int, at_sender: Path, at_receiver: Path, complete: bool) -> None:
        self.sent, self.dropped = sent, dropped
        self.at_sender, self.at_receiver, self.complete = at_sender, at_receiver, complete
        self.left, self.came = data_packets(at_sender), data_packets(at_receiver)
        self.times = Counter(psn for _, psn in self.came)

    @property
    def disturbed(self) -> bool:
        """What a busy machine keeps waiting is sent again although it has come: hard to judge from one side."""
        return not self.complete or sum(self.times[psn] > 1 for _, psn in self.came) >= 20


def test_the_lossy_path_is_found_and_its_loss_is_what_the_link_counts(transfers: Transfers, lab: Lab) -> None:
    def attempt() -> Recorded:
        transfers.forget()
        lab.impair(LOSSY_LINK, LOSS, TOWARD)
        try:
            recordings = [record(transfers, host) for host in ("h0", "h1")]
            receiver = transfers.recv("--once", "--json", "--overwrite")
            sender = transfers.send(receiver, [transfers.file("file", 48 * MIB)], "--json")
            sent = sender.end().succeeded().document
            receiver.end().succeeded()
            complete = [stop(running) for running, _ in recordings]
            link = next(link for link in lab.status().links if link.name == LOSSY_LINK)
            dropped = link.toward[TOWARD].dropped_packets
        finally:
            lab.clear(LOSSY_LINK, TOWARD)
        return Recorded(sent, dropped, recordings[0][1], recordings[1][1], all(complete))

    recorded = undisturbed(attempt, attrgetter("disturbed"))
    assert recorded.complete

    found = analyzed(recorded.at_sender, "--out", transfers.scratch / "out")
    direction = max((each for qp in found["qps"] for each in qp["directions"]), key=lambda each: each["packets"])
    assert direction["capture_point"] == "sender"
    lossy = [each for each in found["findings"] if each["kind"] == "lossy-path"]
    assert [each["ev"] for each in lossy] == [LOSSY_EV], found["findings"]
    # Before it may come only that the path went dead.
    assert found["findings"][0]["ev"] == LOSSY_EV, found["findings"]
    paths = {path["ev"]: path for path in direction["paths"]}
    path = paths[LOSSY_EV]
    sent_here, came_here = (sum(ev == LOSSY_EV for ev, _ in packets) for packets in (recorded.left, recorded.came))
    # The sender's side may take these for lost.
    spurious = sum(ev == LOSSY_EV and recorded.times[psn] > 1 for ev, psn in recorded.came)
    assert path["packets"] == sent_here
    # The counter counts probes too; the capture shows which of them stayed unanswered.
    probes_lost = path["probes"] - path["probes_answered"]
    dropped = recorded.dropped
    assert dropped >= 20, "too few to judge by"
    figures = {"lost": path["lost"], "probes": probes_lost, "dropped": dropped, "spurious": spurious}
    assert 0.9 * dropped <= path["lost"] + probes_lost <= 1.1 * dropped + spurious, figures
    # Data packets alone: what left h0 on this path less what came to h1 on it.
    lost = sent_here - came_here
    assert 0.9 * lost <= path["lost"] <= 1.1 * lost + spurious, (lost, figures)
    assert path["loss_share"] == path["lost"] / path["packets"]
    assert lost / sent_here == pytest.approx(LOSS, rel=0.5)
    assert direction["goodput_bytes"] == recorded.sent["bytes"]
    assert (transfers.scratch / "out" / "report.html").stat().st_size < 10_000_000

    there = analyzed(recorded.at_receiver)
    direction = max((each for qp in there["qps"] for each in qp["directions"]), key=lambda each: each["packets"])
    assert direction["capture_point"] == "receiver"
    assert direction["goodput_bytes"] == recorded.sent["bytes"]
