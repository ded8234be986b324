# SPDX-License-Identifier: BSD-2-Clause
"""Device and port queries, and endpoint operations in batches that wait (api.md, Controller)."""

from __future__ import annotations

import errno
from typing import Any

import pytest
from control_pair import MILLISECOND, ControlPair, refused, spine_ev

from mrc.control import ControlCap, EvOp, EvOpKind, EvProbe, PortAdmin, PortStatusUpdate
from mrc.control.attributes import EvFormatMask, EvModeMask
from mrc.endpoint.paths.states import EvState

ALL = {spine_ev(plane, spine) for plane in (0, 1) for spine in range(4)}


def test_the_device_tells_what_it_can_do() -> None:
    """MRC-CTL-01."""
    attr = ControlPair().controller.query_device()
    assert min(attr.max_ev_format_profiles, attr.max_ev_profiles, attr.max_cc_profiles) == 64
    # 128 to 256 EVs on hardware; an equal number for each of two planes.
    assert attr.max_ev_count >= 256
    assert (attr.ev_count_alignment, attr.max_width, attr.port_mask) == (2, 128, 0b110)
    assert attr.ev_format_mask == EvFormatMask.SRV6
    assert attr.ev_mode_mask == EvModeMask.AUTO | EvModeMask.EXPLICIT | EvModeMask.GENERATED
    assert "uet-1.0-nscc" in attr.cc_algorithms
    assert (
        attr.caps
        == ControlCap.EV_PROFILE_MODIFY_ONLINE
        | ControlCap.EV_EVENT
        | ControlCap.EV_EVENT_PRECISE_DROP_CNT
        | ControlCap.EP_OP_EV_PROBE
    )
    assert "max_ev_count" in str(attr)


def test_a_port_set_down_empties_its_plane_at_both_ends() -> None:
    """Under a write; what is under way arrives, and nothing is sent twice. MRC-CTL-02."""
    pair = ControlPair(rate_bps=1_000_000_000)
    left, _ = pair.connect()
    pair.post(left)
    pair.run(1 * MILLISECOND)
    assert {ev >> 24 for ev in pair.sent()["h0"]} == {0, 1}
    pair.controller.modify_port(2, PortAdmin.DOWN)
    assert {ev >> 24 for ev in pair.sent()["h0"]} <= {0}
    attr = pair.controller.query_port(2)
    assert (attr.admin, attr.link_up, attr.up, attr.plane) == (PortAdmin.DOWN, True, False, 1)
    pair.run(1 * MILLISECOND)
    pair.sent()
    pair.run(2 * MILLISECOND)
    sent = pair.sent()
    assert {ev >> 24 for ev in sent["h0"]} == {ev >> 24 for ev in sent["h1"]} == {0}
    assert left.figures.counters.retransmitted_packets == 0
    pair.controller.modify_port(2, PortAdmin.UP)
    assert pair.controller.query_port(2).up
    pair.run(2 * MILLISECOND)
    sent = pair.sent()
    assert {ev >> 24 for ev in sent["h0"]} == {ev >> 24 for ev in sent["h1"]} == {0, 1}
    pair.finish()


def test_a_port_is_up_only_if_link_and_controller_say_so() -> None:
    """MRC-CTL-02."""
    pair = ControlPair()
    pair.connect()
    endpoint, controller = pair.left.endpoint, pair.controller
    for link, admin in ((False, PortAdmin.DOWN), (True, PortAdmin.DOWN), (False, PortAdmin.UP), (True, PortAdmin.UP)):
        endpoint.set_port(0, link, pair.fabric.now)
        controller.modify_port(1, admin)
        controller.modify_port(1, admin)
        port = controller.query_port(1)
        assert (port.link_up, port.admin) == (link, admin)
        assert endpoint.port_is_up(0) == port.up == (link and admin == PortAdmin.UP)


@pytest.mark.parametrize("number", [0, 3, -1, "1"])
def test_there_is_no_other_port(number: Any) -> None:
    """MRC-CTL-27, MRC-CTL-25."""
    controller = ControlPair().controller
    with refused(errno.ENOENT, "no port"):
        controller.query_port(number)
    with refused(errno.ENOENT, "no port"):
        controller.modify_port(number, PortAdmin.DOWN)
    with refused(errno.EINVAL, "UP or DOWN"):
        controller.modify_port(1, 0)  # type: ignore[arg-type]
    assert controller.query_port(1).admin == PortAdmin.UP


def test_a_batch_of_probes_waits_for_all_its_answers() -> None:
    """The round trip of an idle network: four links of 1 us each way. MRC-CTL-21, MRC-CTL-22, MRC-CTL-24."""
    pair = ControlPair()
    pair.connect()
    pair.run(100 * MILLISECOND)
    source, destination = pair.left.ports()[1].address, pair.right.ports()[0].address
    batch = [EvProbe(100 + place, "h1", ev) for place, ev in enumerate(sorted(ALL))]
    batch.append(EvProbe(0xFFFF, destination, spine_ev(1, 0), source=source, port_num=2, format_id=0))
    pair.sent()
    results = pair.controller.operate(batch)
    assert pair.sent()["h0"] == dict.fromkeys(ALL, 1) | {spine_ev(1, 0): 2}
    assert [result.req_id for result in results] == [*range(100, 108), 0xFFFF]
    for probe, result in zip(batch, results, strict=True):
        assert (result.errno, result.left_by_port_num) == (0, (probe.ev >> 24) + 1)
        assert result.rtt_ns is not None
        # Eight links of 1 us, and some 100 ns for the bits of each of the two packets on each link.
        assert 8_000 <= result.rtt_ns <= 25_000
        assert result.service_time_taken_off


def test_a_probe_goes_wherever_it_is_told() -> None:
    """On an EV that is DENIED, and on one of no profile: only the controller's own. MRC-CTL-34, MRC-CTL-21."""
    pair = ControlPair()
    pair.connect()
    victim = spine_ev(0, 1)
    pair.controller.ev_operations(0, [EvOp(EvOpKind.MODIFY_STATE, ev=victim, state=EvState.DENIED)])
    pair.run(100 * MILLISECOND)
    pair.sent()
    (result,) = pair.controller.operate([EvProbe(1, "h1", victim)])
    assert (result.errno, result.left_by_port_num) == (0, 1)
    assert pair.sent()["h0"] == {victim: 1}


def test_the_port_of_a_response_is_the_one_it_was_received_on() -> None:
    """Probes of both planes, whose answers the peer sends over plane 1 alone. MRC-CTL-22, MRC-CTL-23."""
    pair = ControlPair()
    pair.connect()
    pair.far_controller.modify_port(1, PortAdmin.DOWN)
    pair.run(100 * MILLISECOND)
    results = pair.controller.operate([EvProbe(plane, "h1", spine_ev(plane, 0)) for plane in (0, 1)])
    assert [result.left_by_port_num for result in results] == [1, 2]
    assert [result.port_num for result in results] == [2, 2]
    (update,) = pair.controller.operate([PortStatusUpdate(7, "h1", 0b11)])
    assert (update.errno, update.port_num) == (0, 2)
    pair.fabric.cut("p0s1")
    (lost,) = pair.controller.operate([EvProbe(3, "h1", spine_ev(0, 1))])
    assert (lost.errno, lost.port_num, lost.left_by_port_num) == (errno.ETIMEDOUT, None, 1)


def test_a_port_status_update_travels_on_the_ev_and_in_the_class_it_names() -> None:
    """Also on one that is DENIED. MRC-CTL-23, MRC-CTL-34."""
    pair = ControlPair()
    pair.connect()
    pair.run(100 * MILLISECOND)
    classes: list[int] = []
    pair.fabric.observers.append(
        lambda now, host, data: classes.append(data[0] << 4 & 0xF0 | data[1] >> 4) if host == "h0" else None
    )
    victim = spine_ev(1, 2)
    pair.controller.ev_operations(0, [EvOp(EvOpKind.MODIFY_STATE, ev=victim, state=EvState.DENIED)])
    pair.sent()
    (result,) = pair.controller.operate([PortStatusUpdate(1, "h1", 0b11, ev=victim, port_num=2, dscp=10)])
    assert result.errno == 0
    assert pair.sent()["h0"] == {victim: 1}
    assert classes == [10 << 2]
    results = pair.controller.operate(
        [
            PortStatusUpdate(2, "h1", 0b11, ev=victim, port_num=1),
            PortStatusUpdate(3, "h1", 0b11, ev=spine_ev(0, 4)),
            PortStatusUpdate(4, "h1", 0b11, port_num=1),
            PortStatusUpdate(5, "h1", 0b11, dscp=64),
        ]
    )
    assert [result.errno for result in results] == [errno.EINVAL, errno.ENOENT, errno.EINVAL, errno.EINVAL]
    assert not any(pair.sent().values())


def test_what_is_wrong_with_a_probe() -> None:
    """Each entry alone. MRC-CTL-24, MRC-CTL-25, MRC-CTL-27, MRC-CTL-30, MRC-CTL-31."""
    pair = ControlPair()
    pair.connect()
    pair.fabric.cut("p0s1")
    pair.controller.modify_port(2, PortAdmin.DOWN)
    results = pair.controller.operate(
        [
            EvProbe(1, "h1", spine_ev(0, 0)),
            EvProbe(2, "h1", spine_ev(0, 1)),
            EvProbe(3, "h1", spine_ev(1, 0)),
            EvProbe(4, "h2", spine_ev(0, 0)),
            EvProbe(5, "h1", spine_ev(0, 4)),
            EvProbe(6, "h1", spine_ev(0, 0), port_num=2),
            EvProbe(7, "h1", spine_ev(0, 0), source="fd00::1"),
            EvProbe(8, "h1", spine_ev(0, 0), format_id=3),
            EvProbe(9, "h1", spine_ev(0, 0), dscp=64),
        ]
    )
    codes = [0, errno.ETIMEDOUT, errno.EIO, errno.ENOENT, errno.ENOENT]
    codes += [errno.EINVAL, errno.EINVAL, errno.ENOENT, errno.EINVAL]
    assert [result.errno for result in results] == codes
    assert [result.req_id for result in results] == list(range(1, 10))
    assert all(result.reason for result in results[1:])


def test_a_batch_that_cannot_be_sent() -> None:
    """MRC-CTL-21, MRC-CTL-26, MRC-CTL-25."""
    pair = ControlPair()
    pair.connect()
    with refused(errno.EINVAL, "16 bits"):
        pair.controller.operate([EvProbe(1 << 16, "h1", 0)])
    with refused(errno.E2BIG) as caught:
        pair.controller.operate([EvProbe(0, "h1", 0)] * 1025)
    assert caught.value.needed == 1025
    assert pair.controller.operate([]) == []


def test_a_port_status_update_tells_a_mask() -> None:
    """The peer leaves the plane that the mask leaves out, and comes back. MRC-CTL-23, MRC-CTL-24."""
    pair = ControlPair(rate_bps=1_000_000_000)
    left, right = pair.connect()
    (result,) = pair.controller.operate([PortStatusUpdate(5, "h1", 0b01)])
    assert (result.req_id, result.errno) == (5, 0)
    assert right.figures.peer_ports_down == {1}
    pair.write(left)
    pair.run(10 * MILLISECOND)
    pair.sent()
    pair.write(left)
    assert {ev >> 24 for ev in pair.sent()["h1"]} == {0}
    (result,) = pair.controller.operate([PortStatusUpdate(6, "h1")])
    assert result.errno == 0
    assert not right.figures.peer_ports_down


def test_a_batch_is_of_one_kind() -> None:
    pair = ControlPair()
    pair.connect()
    pair.sent()
    with refused(errno.EINVAL, "a batch is of EV probes, or of port status updates"):
        pair.controller.operate([EvProbe(1, "h1", 0), PortStatusUpdate(2, "h1")])
    assert not any(pair.sent().values())


def test_a_port_status_update_that_nobody_answers() -> None:
    """MRC-CTL-31, MRC-CTL-25."""
    pair = ControlPair()
    pair.connect()
    pair.fabric.cut("h1-p0l1", "h1-p1l1")
    began = pair.fabric.now
    lost, wrong = pair.controller.operate([PortStatusUpdate(5, "h1"), PortStatusUpdate(6, "h1", 1 << 32)], timeout=0.2)
    assert (lost.errno, wrong.errno) == (errno.ETIMEDOUT, errno.EINVAL)
    assert 200 * MILLISECOND <= pair.fabric.now - began <= 201 * MILLISECOND


@pytest.mark.parametrize("timeout_ms", [3, 400])
def test_a_batch_of_probes_waits_as_long_as_it_is_told(timeout_ms: int) -> None:
    """What ends before the endpoint itself would have given up is not held against the EV. MRC-CTL-24, MRC-CTL-31."""
    pair = ControlPair()
    pair.connect()
    pair.run(100 * MILLISECOND)
    pair.fabric.cut("p0s1")
    (node,) = pair.left.endpoint.peer_nodes.values()
    began, losses = pair.fabric.now, node.reverse.losses
    batch = [EvProbe(1, "h1", spine_ev(0, 1)), EvProbe(2, "h1", spine_ev(1, 0))]
    lost, answered = pair.controller.operate(batch, timeout=timeout_ms / 1e3)
    assert (lost.errno, answered.errno) == (errno.ETIMEDOUT, 0)
    assert timeout_ms * MILLISECOND <= pair.fabric.now - began <= (timeout_ms + 1) * MILLISECOND
    assert (node.reverse.losses > losses) == (timeout_ms > 100)
