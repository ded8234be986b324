# SPDX-License-Identifier: BSD-2-Clause
"""Cables cut under a transfer: one plane costs nothing but packets, both end it, cleanly and soon."""

from __future__ import annotations

import os
import time

import pytest
from live_planes import Passed, Sending, until_all_goes_by
from live_run import MIB, Transfers, sha256

from mrc.lab import Lab

pytestmark = pytest.mark.root

# So long that this process may be kept waiting between one step and the next.
SIZE = 64 * MIB
# Small packets make a transfer long enough to be cut in the middle.
SLOW = ("--mtu", "1024")


@pytest.mark.parametrize("cable", ["h0-p0l0", "h1-p0l1"])
def test_a_host_loses_a_plane_under_way(transfers: Transfers, lab: Lab, cable: str) -> None:
    """h0 sees its own cable go; of h1's it learns only that nothing comes through."""

    def lost(mib: int) -> tuple[Sending, Passed]:
        lab.heal(cable)
        sending = Sending.of(transfers, mib, *SLOW)
        lab.cut(cable)
        return sending, until_all_goes_by(lab, {1}, sending.sender)

    # More where it was over before all of it went by the other plane.
    sending, passed = transfers.in_time(lost, SIZE // MIB, 4 * SIZE // MIB)
    sent = sending.arrives()
    # Not used on, to the end.
    assert passed.planes() == {1}
    last_use = [max(path["last_use_ns"] for path in sent["paths"] if path["plane"] == plane) for plane in (0, 1)]
    assert last_use[1] > last_use[0]


def test_a_receiver_without_a_plane_takes_the_next_sender_all_the_same(transfers: Transfers, lab: Lab) -> None:
    receiver = transfers.recv()
    lab.cut("h1-p0l1")
    time.sleep(0.05)
    file = transfers.file("file", 8 * MIB)
    transfers.send(receiver, [file]).end().succeeded()
    assert transfers.received() == {"file": sha256(file)}


def test_a_sender_without_a_plane_uses_the_other(transfers: Transfers, lab: Lab) -> None:
    receiver = transfers.recv("--once")
    lab.cut("h0-p0l0")
    file = transfers.file("file", 8 * MIB)
    sent = transfers.send(receiver, [file], "--json").end().succeeded().document
    receiver.end().succeeded()
    assert transfers.received() == {"file": sha256(file)}
    # behaviour.md, Ports: a local port that is down takes its plane's EVs out at once.
    assert sum(path["packets"] for path in sent["paths"] if path["plane"] == 0) == 0


def test_both_planes_cut_ends_both_sides_with_a_reason(transfers: Transfers, lab: Lab) -> None:
    file, stats = transfers.file("file", SIZE), transfers.scratch / "stats"
    receiver = transfers.recv("--once", "--idle-timeout", "3s")
    sender = transfers.send(receiver, [file], "--stats", stats, *SLOW)
    transfers.when_acked(stats, 0.1, sender)
    lab.cut("h0")
    received = receiver.end().failed()
    sent = sender.end().failed()
    assert "retry" in sent.one_line
    assert "nothing arrived" in received.one_line
    assert "--idle-timeout" in received.one_line
    # A machine that looked late has cut when the first part was whole.
    kept = "; kept for the next attempt: " in received.one_line
    assert os.listdir(transfers.directory) == ([".file.mrc-part"] if kept else [])


def test_both_planes_cut_and_mended_a_second_later(transfers: Transfers, lab: Lab) -> None:
    file, stats = transfers.file("file", SIZE), transfers.scratch / "stats"
    receiver = transfers.recv("--once", "--json")
    sender = transfers.send(receiver, [file], "--json", "--stats", stats, *SLOW)
    before = transfers.when_acked(stats, 0.1, sender)
    lab.cut("h1")
    time.sleep(1)
    lab.heal("h1")
    sent = sender.end().succeeded().document
    receiver.end().succeeded()
    assert transfers.received() == {"file": sha256(file)}
    # The mended paths carry data again, of both planes.
    assert before["bytes_total"] == SIZE
    assert sent["seconds"] > 1
    for plane in (0, 1):
        assert max(path["last_use_ns"] or 0 for path in sent["paths"] if path["plane"] == plane) > (
            before["monotonic_ns"] + 1_000_000_000
        )
