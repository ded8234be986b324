# SPDX-License-Identifier: BSD-2-Clause
"""Cables cut under a transfer: one plane costs nothing but packets, both end it, cleanly and soon."""

from __future__ import annotations

import os
import time

import pytest
from live_planes import Passed, Sending, until_all_goes_by
from live_run import MIB, Running, Transfers, sha256

from mrc.lab import Lab

pytestmark = pytest.mark.root

# So long that this process may be kept waiting between one step and the next.
SIZES_MIB = (10, 40, 160)


@pytest.fixture(scope="module")
def lab(steady_lab: Lab) -> Lab:
    return steady_lab


@pytest.mark.parametrize("cable", ["h0-p0l0", "h1-p0l1"])
def test_a_host_loses_a_plane_under_way(transfers: Transfers, lab: Lab, cable: str) -> None:
    """h0 sees its own cable go; of h1's it learns only that nothing comes through."""

    def lost(mib: int) -> tuple[Sending, Passed]:
        lab.heal(cable)
        sending = Sending.of(transfers, mib)
        lab.cut(cable)
        return sending, until_all_goes_by(lab, {1}, sending.sender)

    # More where it was over before all of it went by the other plane.
    sending, passed = transfers.in_time(lost, *SIZES_MIB)
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
    def lost(mib: int) -> tuple[Running, Running]:
        lab.heal("h0")
        transfers.forget()
        file, stats = transfers.file("file", mib * MIB), transfers.scratch / f"stats of {mib} MiB"
        receiver = transfers.recv("--once", "--idle-timeout", "3s")
        sender = transfers.send(receiver, [file], "--stats", stats)
        transfers.when_acked(stats, 0.1, sender)
        lab.cut("h0")
        assert sender.process.poll() is None, "the transfer was over before its planes were cut"
        return receiver, sender

    receiver, sender = transfers.in_time(lost, *SIZES_MIB)
    received = receiver.end().failed()
    sent = sender.end().failed()
    assert "retry" in sent.one_line
    assert "nothing arrived" in received.one_line
    assert "--idle-timeout" in received.one_line
    # A machine that looked late has cut when the first part was whole.
    kept = "; kept for the next attempt: " in received.one_line
    assert os.listdir(transfers.directory) == ([".file.mrc-part"] if kept else [])


def test_both_planes_cut_and_mended_a_second_later(transfers: Transfers, lab: Lab) -> None:
    def lost(mib: int) -> tuple[Sending, int]:
        """And when it began to come back."""
        lab.heal("h1")
        transfers.forget()
        sending = Sending.of(transfers, mib)
        lab.cut("h1")
        assert sending.sender.process.poll() is None, "the transfer was over before its planes were cut"
        time.sleep(1)
        mended_at_ns = time.monotonic_ns()
        lab.heal("h1")
        return sending, mended_at_ns

    sending, mended_at_ns = transfers.in_time(lost, *SIZES_MIB)
    sent = sending.arrives()
    # The mended paths carry data again, of both planes.
    assert sent["seconds"] > 1
    for plane in (0, 1):
        last_use_ns = max(path["last_use_ns"] or 0 for path in sent["paths"] if path["plane"] == plane)
        assert last_use_ns > mended_at_ns
