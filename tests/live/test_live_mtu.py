# SPDX-License-Identifier: BSD-2-Clause
"""The MTU of a host's port falls under a transfer: one plane costs nothing but packets, both end it with a reason."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator

import pytest
from live_planes import Sending, until_all_goes_by
from live_run import MIB, Running, Transfers
from programs import MRC

from mrc.lab import Lab

pytestmark = pytest.mark.root

# A path MTU of 4096, so that there is enough of it to be changed in the middle; more where that was too quick.
SIZES_MIB = (10, 40, 160)
WHOLE, NARROW = 4400, 1500


@pytest.fixture(scope="module")
def lab(steady_lab: Lab) -> Lab:
    return steady_lab


@pytest.fixture(autouse=True)
def whole_again(lab: Lab) -> Iterator[None]:
    yield
    for host in ("h0", "h1"):
        for plane in range(2):
            set_mtu(lab, host, plane, WHOLE)


def set_mtu(lab: Lab, host: str, plane: int, mtu: int) -> None:
    name = lab.namespace_path(host).name
    subprocess.run(["ip", "-n", name, "link", "set", "dev", f"p{plane}", "mtu", str(mtu)], check=True)


@pytest.mark.parametrize("host", ["h0", "h1"])
def test_a_plane_whose_mtu_falls_under_way_is_left_and_used_again(transfers: Transfers, lab: Lab, host: str) -> None:
    """At the sender the kernel refuses full packets, at the receiver it drops them; short ones pass at both."""

    def fallen_and_risen(mib: int) -> Sending:
        set_mtu(lab, host, 0, WHOLE)
        sending = Sending.of(transfers, mib)
        set_mtu(lab, host, 0, NARROW)
        until_all_goes_by(lab, {1}, sending.sender)
        set_mtu(lab, host, 0, WHOLE)
        until_all_goes_by(lab, {0, 1}, sending.sender)
        return sending

    transfers.in_time(fallen_and_risen, *SIZES_MIB).arrives()


def test_a_plane_whose_mtu_stays_too_small_is_left(transfers: Transfers, lab: Lab) -> None:
    def fallen(mib: int) -> Sending:
        set_mtu(lab, "h0", 1, WHOLE)
        sending = Sending.of(transfers, mib)
        set_mtu(lab, "h0", 1, NARROW)
        until_all_goes_by(lab, {0}, sending.sender)
        return sending

    transfers.in_time(fallen, *SIZES_MIB).arrives()


def test_an_mtu_that_still_has_room_for_the_packets_changes_nothing(transfers: Transfers, lab: Lab) -> None:
    def fallen_far_enough(mib: int) -> Sending:
        sending = Sending.of(transfers, mib, "--mtu", "1024")
        for host in ("h0", "h1"):
            set_mtu(lab, host, 0, NARROW)
        until_all_goes_by(lab, {0, 1}, sending.sender)
        return sending

    transfers.in_time(fallen_far_enough, *SIZES_MIB).arrives()


def test_no_port_with_room_ends_the_transfer_and_says_which_interfaces(transfers: Transfers, lab: Lab) -> None:
    def fallen(mib: int) -> tuple[Running, Running]:
        for plane in range(2):
            set_mtu(lab, "h0", plane, WHOLE)
        transfers.forget()
        file, stats = transfers.file("file", mib * MIB), transfers.scratch / f"stats of {mib} MiB"
        receiver = transfers.recv("--once", "--no-partial", "--idle-timeout", "3s")
        sender = transfers.send(receiver, [file], "--stats", stats)
        transfers.when_acked(stats, 0.1, sender)
        set_mtu(lab, "h0", 0, NARROW)
        set_mtu(lab, "h0", 1, 2000)
        assert sender.process.poll() is None, "the transfer was over before its ports had no room"
        return receiver, sender

    receiver, sender = transfers.in_time(fallen, *SIZES_MIB)
    sent = sender.end().failed()
    receiver.end().failed()
    assert "interface p0 has MTU 1500, interface p1 has MTU 2000: raise the interface's MTU" in sent.one_line
    assert "--mtu 1024" in sent.one_line
    assert os.listdir(transfers.directory) == []


@pytest.mark.parametrize("command", ["send", "recv"])
def test_an_mtu_too_small_at_the_start_is_refused_by_name(transfers: Transfers, lab: Lab, command: str) -> None:
    receiver = transfers.recv()
    host = {"send": "h0", "recv": "h1"}[command]
    set_mtu(lab, host, 1, NARROW)
    if command == "send":
        ended = transfers.send(receiver, [transfers.file("file", 1000)]).end().failed()
    else:
        ended = transfers.start(host, [*MRC, "recv", "--dir", transfers.scratch]).end().failed()
    assert "interface p1 has MTU 1500" in ended.one_line
    assert "raise the interface's MTU, or use --mtu 1024" in ended.one_line
