# SPDX-License-Identifier: BSD-2-Clause
"""`mrc analyze` of a plane that is cut and healed under way, and of two senders to one receiver."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from operator import attrgetter
from typing import Any

import pytest
from live_captures import (
    Passed,
    analyzed,
    check_receiver,
    check_sender,
    heaviest,
    kinds_of,
    merged,
    record,
    stop,
)
from live_planes import Sending, until_all_goes_by
from live_run import MIB, Transfers
from patience import undisturbed
from test_live_analyze_impaired import LATE, LOSSES, MEASURES, UNSETTLED

from mrc.fabric import Clos
from mrc.lab import Lab

pytestmark = pytest.mark.root

# More where it was over before all of it had gone by one plane, and by both again.
SIZES_MIB = (32, 160)
CABLE, PLANE = "h1-p0l1", 0
LINK, TOWARD, EV = "p0l0-p0s1", "p0s1", 1


@pytest.fixture(scope="module")
def lab(need_root: None) -> Iterator[Lab]:
    """Two planes, and a leaf in each for each of three hosts."""
    with Lab.up(f"live-{os.getpid()}-analyze-flows", Clos(leaves=3)) as built:
        yield built


def of_plane(passed: Passed, plane: int) -> set[int]:
    return {path["ev"] for path in passed.sent["paths"] if path["plane"] == plane}


def cut_and_healed(transfers: Transfers, lab: Lab, mib: int) -> Passed:
    """A transfer from h0 to h1 that loses a plane and gets it back."""
    lab.heal(CABLE)
    transfers.forget()
    recordings = [record(transfers, host) for host in ("h0", "h1")]
    sending = Sending.of(transfers, mib)
    lab.cut(CABLE)
    until_all_goes_by(lab, {1 - PLANE}, sending.sender)
    lab.heal(CABLE)
    until_all_goes_by(lab, {0, 1}, sending.sender)
    sent = sending.sender.end().succeeded().document
    received = sending.receiver.end().succeeded().document
    complete = [stop(running) for running, _ in recordings]
    return Passed([file for _, file in recordings], all(complete), sent, received)


def test_a_plane_that_was_cut_and_healed_is_named_and_no_other(transfers: Transfers, lab: Lab) -> None:
    passed = undisturbed(
        lambda: transfers.in_time(lambda mib: cut_and_healed(transfers, lab, mib), *SIZES_MIB),
        attrgetter("disturbed_or_late"),
        3,
    )
    assert passed.complete
    at_sender, at_receiver = (analyzed(file) for file in passed.files)
    at_both = analyzed(merged(passed.files, transfers.scratch / "merged.pcap"))
    cut_off = of_plane(passed, PLANE)
    lost = sum(passed.lost_on[ev] for ev in cut_off)
    for place, found in (("sender", at_sender), ("both", at_both)):
        (direction,) = heaviest(found)
        check_sender(direction, passed, place)
        texts = [each["text"] for each in found["findings"]]
        allowed = MEASURES | LOSSES | {"lossy-plane", "port-down"}
        assert kinds_of(found) <= allowed | (LATE | UNSETTLED if passed.disturbed_or_late else set()), texts
        for each in found["findings"]:
            if each["kind"] in ("lossy-plane", "lossy-path", "dead-path", "path-out"):
                assert {*each["evs"], *([] if each["ev"] is None else [each["ev"]])} <= cut_off, texts
        for each in found["findings"]:
            if each["kind"] == "lossy-plane":
                # All paths of the plane take the sender's cable and the receiver's; the receiver's was cut.
                assert each["links"] == [">p0l0", "p0l1>p0h1"], texts
        if lost >= 16:
            assert kinds_of(found) & {"lossy-plane", "lossy-path"}, (texts, lost)
        # It came back, and was used again.
        states = {path["ev"]: path["state"] for path in direction["paths"]}
        assert all(states[ev] == "GOOD" for ev in cut_off), states
        # A receiver whose own port goes down says so.
        assert "port-down" in kinds_of(found), texts
    there = heaviest(at_receiver)[0]
    check_receiver(there, passed)
    assert "port-down" in kinds_of(at_receiver)
    planes = {plane["plane"]: plane["packets"] for plane in there["planes"]}
    came = Counter(PLANE if ev in cut_off else 1 - PLANE for ev, _ in passed.came.elements())
    assert planes == came


def two_senders(transfers: Transfers, lab: Lab) -> list[Passed]:
    """Transfers from h0 and h2 to h1 at the same time; the way of the first is lossy."""
    transfers.forget()
    lab.impair(LINK, 0.08, TOWARD)
    try:
        recordings = {host: record(transfers, host) for host in ("h0", "h1", "h2")}
        receiver = transfers.recv("--json", "--overwrite")
        senders = {
            host: transfers.send(receiver, [transfers.file(f"of {host}", 8 * MIB)], "--json", node=host)
            for host in ("h0", "h2")
        }
        sent = {host: sender.end().succeeded().document for host, sender in senders.items()}
        received = receiver.stop().interrupted().document
        complete = {host: stop(running) for host, (running, _) in recordings.items()}
    finally:
        lab.clear(LINK, TOWARD)
    passed = []
    for host in ("h0", "h2"):
        files = [recordings[host][1], recordings["h1"][1]]
        passed.append(Passed(files, all(complete.values()), sent[host], received))
    return passed


def of_sender(found: dict[str, Any], passed: Passed) -> dict[str, Any]:
    """The direction of one of two senders."""
    qpns = {qpn for _, (qpn, _) in passed.left}
    (direction,) = [each for each in heaviest(found, 2) if each["responder_qpn"] in qpns]
    return direction


def beside_each_other(both: list[Passed]) -> float:
    """About how many packets the other one sent over the spine of the lossy path while that one was in use."""
    (begin, end, _), (other_begin, other_end, packets) = (
        (path["first_use_ns"], path["last_use_ns"], path["packets"])
        for each in both
        for path in each.sent["paths"]
        if path["ev"] == EV
    )
    return packets * max(0, min(end, other_end) - max(begin, other_begin)) / max(1, other_end - other_begin)


def test_two_senders_to_one_receiver_are_kept_apart(transfers: Transfers, lab: Lab) -> None:
    both = undisturbed(
        lambda: two_senders(transfers, lab), lambda both: any(each.disturbed_or_late for each in both), 3
    )
    assert all(each.complete for each in both)
    files = [both[0].files[0], both[1].files[0], both[0].files[1]]
    at_receiver, at_all = analyzed(files[2]), analyzed(merged(files, transfers.scratch / "merged.pcap"))
    late = any(each.disturbed_or_late for each in both)
    allowed = MEASURES | LOSSES | (LATE | UNSETTLED if late else set())
    for passed in both:
        alone = analyzed(passed.files[0])
        for place, found in (("sender", alone), ("both", at_all)):
            check_sender(of_sender(found, passed), passed, place)
        there = of_sender(at_receiver, passed)
        assert there["capture_point"] == "receiver"
        assert there["goodput_bytes"] == passed.sent["bytes"]
        assert there["packets"] == sum(passed.came.values())
        # Of two flows at one place each has its own answers.
        assert of_sender(at_all, passed)["sacks"] == there["sacks"] == of_sender(alone, passed)["sacks"]
    for found in (at_receiver, at_all):
        assert kinds_of(found) <= allowed, [each["text"] for each in found["findings"]]
    # What is lost of the one is not said of the other.
    lossy, clean = both
    name = f"QP 0x{of_sender(at_all, clean)['responder_qpn']:06x}"
    said = [each for found in (at_receiver, at_all) for each in found["findings"] if (each["qp"] or "").endswith(name)]
    assert {each["kind"] for each in said} <= MEASURES | (LATE | UNSETTLED if late else set()), said
    if lossy.lost_on[EV] >= 8:
        named = [each for each in at_all["findings"] if each["kind"] == "lossy-path"]
        assert [(each["ev"], each["qp"]) for each in named] == [(EV, of_sender_name(at_all, lossy))]
        # From the spine on both flows take the same links, and the other one came through: few packets do by chance.
        # Of those beside each other some left before the first was lost, or after the last.
        assert named[0]["links"] in (["p0l0>p0s1"], ["p0l0>p0s1", "p0s1>p0l1"])
        sent = sum(count for (ev, _), count in lossy.left.items() if ev == EV)
        if (sent / (sent + beside_each_other(both) / 2)) ** lossy.lost_on[EV] < 1e-4:
            assert named[0]["links"] == ["p0l0>p0s1"]
        of_one = [each["links"] for each in analyzed(lossy.files[0])["findings"] if each["kind"] == "lossy-path"]
        assert of_one == [["p0l0>p0s1", "p0s1>p0l1"]]
        assert "loss-before-capture" in kinds_of(at_receiver)


def of_sender_name(found: dict[str, Any], passed: Passed) -> str:
    direction = of_sender(found, passed)
    return f"{direction['source'][0]} > {direction['destination'][0]} QP 0x{direction['responder_qpn']:06x}"
