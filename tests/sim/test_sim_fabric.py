# SPDX-License-Identifier: BSD-2-Clause
"""A whole fabric in virtual time: which way packets go, when they arrive, what a cut does (wire.md section 11)."""

from __future__ import annotations

import ipaddress

import numpy as np
import pytest

from mrc.endpoint.completions import WorkStatus
from mrc.endpoint.config import EndpointConfig, QpConfig
from mrc.errors import CallerError
from mrc.fabric import Clos
from mrc.sim import Egress, LinkModel, SimFabric
from mrc.sim.link import SimPacket
from mrc.wire.profile import WireProfile

GIGABIT = 1_000_000_000
MICROSECOND, MILLISECOND, SECOND = 1_000, 1_000_000, 1_000_000_000
QUEUES = LinkModel(rate_bps=10 * GIGABIT, delay_ns=MICROSECOND)


def _text(address: int) -> str:
    return str(ipaddress.IPv6Address(address))


def _tap(egress: Egress) -> list[tuple[int, str, int]]:
    """(opcode, destination, port of entropy) of each packet that this direction carries from now on."""
    seen: list[tuple[int, str, int]] = []

    def note(packet: SimPacket, number: int) -> bool:
        seen.append((packet.data[48], _text(packet.destination), int.from_bytes(packet.data[40:42], "big")))
        return False

    egress.lose_if = note
    return seen


def test_each_switch_consumes_its_own_usid() -> None:
    """The example of wire.md section 11: plane 1, uplink 3, leaf 0 to host 1 on leaf 1."""
    fabric = SimFabric(Clos(2, 2, 4), QUEUES)
    hops = [
        _tap(fabric.link(name, toward))
        for name, toward in (
            ("h0-p1l0", "p1l0"),
            ("p1l0-p1s3", "p1s3"),
            ("p1l1-p1s3", "p1l1"),
            ("h1-p1l1", "h1"),
        )
    ]
    qp, _ = fabric.connect("h0", "h1")
    transfer = fabric.write(qp, 400_000)
    assert fabric.run(SECOND, lambda: transfer.done)
    expected = (
        "5f00:0:1100:2103:1101:4101::",
        "5f00:0:2103:1101:4101::",
        "5f00:0:1101:4101::",
        "5f00:0:4101::",
    )
    for seen, destination in zip(hops, expected, strict=True):
        of_uplink_3 = {text for opcode, text, port in seen if 0xC6 <= opcode <= 0xCA and port == 3}
        assert of_uplink_3 == {destination}


def test_a_packet_for_another_switch_goes_nowhere_and_is_counted() -> None:
    fabric = SimFabric(Clos(2, 2, 4))
    leaf = fabric.switches["p0l0"]
    for destination in ("5f00:0:1001:4001::", "5f00:0:2000:1001:4001::", "5f00:0:1000:2004:1001:4001::", "2001:db8::1"):
        leaf.receive(SimPacket(bytes(100), 140, int(ipaddress.IPv6Address(destination)), 0, False))
    fabric.run(SECOND)
    assert leaf.no_route == 4
    assert not any(egress.counters.packets for egress in fabric.egresses.values())


def test_one_packet_takes_the_time_of_its_four_links() -> None:
    """A byte: IPv6 40, UDP 8, BTH 12, METH 4, TSETH 4, RETH 16, payload and pad 4, ICRC 4, outer IPv6 40, framing 38.

    170 bytes at 1 Gbit/s: 1360 ns and 1000 ns of cable, four times. Its SACK (SETH and CC_STATE 36 instead of the
    28 of headers and payload) has 178: 1424 ns and 1000 ns, four times.
    """
    fabric = SimFabric(Clos(1, 2, 1), LinkModel(rate_bps=GIGABIT, delay_ns=1000))
    qp, _ = fabric.connect("h0", "h1")
    transfer = fabric.write(qp, 1)
    assert fabric.run(SECOND, lambda: transfer.arrived)
    assert fabric.now == 4 * 2360 == 9440
    assert fabric.run(SECOND, lambda: transfer.done)
    assert transfer.completed_at == 9440 + 4 * 2424


def test_every_path_carries_its_share() -> None:
    fabric = SimFabric(Clos(2, 2, 4), QUEUES)
    qp, _ = fabric.connect("h0", "h1")
    transfer = fabric.write(qp, 2_000 * 4096)
    assert fabric.run(SECOND, lambda: transfer.done)
    assert transfer.arrived
    shares = [fabric.uplink(plane, 0, spine).counters.packets for plane in (0, 1) for spine in range(4)]
    assert sum(shares) >= 2000
    assert max(shares) - min(shares) <= 0.02 * sum(shares)
    assert not any(switch.no_route for switch in fabric.switches.values())


def test_a_write_runs_at_the_rate_of_the_hosts_ports() -> None:
    """4096 of 4258 bytes on the cable are payload: 96.2 % of 2 x 10 Gbit/s, and one round trip for the start."""
    fabric = SimFabric(Clos(2, 2, 4), QUEUES, coalesce_ns=2 * MICROSECOND)
    qp, _ = fabric.connect("h0", "h1")
    transfer = fabric.write(qp, 8_000_000)
    assert fabric.run(SECOND, lambda: transfer.done)
    assert transfer.completed_at is not None
    gbps = 8 * 8_000_000 / transfer.completed_at
    assert 0.98 * 19.24 < gbps < 19.24


def test_a_window_is_not_dumped_into_the_hosts_own_queue() -> None:
    """The NIC pulls as its ports have room: a window of 384 packets of 4220 bytes waits in the application."""
    fabric = SimFabric(Clos(2, 2, 4), QUEUES)
    qp, _ = fabric.connect("h0", "h1")
    transfer = fabric.write(qp, 4_000_000)
    assert fabric.run(SECOND, lambda: transfer.done)
    for plane in (0, 1):
        assert fabric.link(f"h0-p{plane}l0", f"p{plane}l0").counters.queue_high_water_bytes <= 8 * 4220


def test_hosts_under_one_leaf_use_no_spine() -> None:
    fabric = SimFabric(Clos(2, 2, 4, hosts_per_leaf=2), QUEUES)
    first = _tap(fabric.link("h2-p0l1", "p0l1"))
    last = _tap(fabric.link("h3-p0l1", "h3"))
    qp, _ = fabric.connect("h2", "h3")
    transfer = fabric.write(qp, 100_000)
    assert fabric.run(SECOND, lambda: transfer.done)
    assert transfer.arrived
    assert {text for _, text, _ in first} == {"5f00:0:1001:4003::"}
    assert {text for _, text, _ in last} == {"5f00:0:4003::"}
    assert not any(fabric.uplink(plane, 1, spine).counters.packets for plane in (0, 1) for spine in range(4))


def test_seven_to_one_fills_the_last_hop_and_all_arrive() -> None:
    """7 x 1 MB through two ports of 10 Gbit/s that carry 19.24 Gbit/s of payload: 2.91 ms at the least."""
    fabric = SimFabric(Clos(2, 8, 4), QUEUES, seed=1, coalesce_ns=MICROSECOND)
    transfers = [fabric.write(fabric.connect(f"h{host}", "h7")[0], 1_000_000) for host in range(7)]
    assert fabric.run(SECOND, lambda: all(each.done for each in transfers))
    assert all(each.arrived for each in transfers)
    assert 2_910_000 < fabric.now < 3_200_000
    finished = [each.completed_at or 0 for each in transfers]
    assert min(finished) > 0.7 * max(finished)


def test_the_last_hop_trims_with_its_own_codepoint_and_does_not_mark() -> None:
    """Two hosts send at twice the rate of the third's port: its leaf trims with DSCP 16, the uplinks need not.

    MRC-ECN-04, MRC-ECN-08.
    """
    link = LinkModel(rate_bps=10 * GIGABIT, ecn_at_bytes=20_000, trim_at_bytes=40_000)
    fabric = SimFabric(Clos(1, 3, 4), link, seed=2)
    seen: set[int] = set()

    def note(packet: SimPacket, number: int) -> bool:
        if 0xC6 <= packet.data[48] <= 0xCA and len(packet.data) == 68:
            seen.add(packet.traffic_class)
        return False

    last_hop = fabric.link("h2-p0l2", "h2")
    last_hop.lose_if = note
    streams = [fabric.stream(fabric.connect(f"h{host}", "h2")[0]) for host in (0, 1)]
    fabric.run(500 * MICROSECOND)
    assert last_hop.counters.trimmed > 10
    assert last_hop.counters.marked == 0
    assert seen == {16 << 2 | 0b10}
    assert all(stream.delivered_bytes > 0 for stream in streams)
    assert all(fabric.uplink(0, leaf, spine).counters.trimmed == 0 for leaf in (0, 1) for spine in range(4))


def test_a_slow_spine_marks_and_trims_inside_the_fabric() -> None:
    """One spine link at a tenth of the rate: marked from 20 kB on, trimmed with DSCP 12 from 40 kB on.

    MRC-ECN-04, MRC-ECN-08.
    """
    link = LinkModel(rate_bps=10 * GIGABIT, ecn_at_bytes=20_000, trim_at_bytes=40_000)
    fabric = SimFabric(Clos(1, 2, 2), link, seed=3)
    slow = fabric.uplink(0, 0, 1)
    slow.set(rate_bps=GIGABIT)
    seen: set[int] = set()

    def note(packet: SimPacket, number: int) -> bool:
        if len(packet.data) == 68 and packet.data[48] <= 0xCA:
            seen.add(packet.traffic_class)
        return False

    slow.lose_if = note
    fabric.stream(fabric.connect("h0", "h1")[0])
    fabric.run(500 * MICROSECOND)
    assert slow.counters.marked > 0
    assert slow.counters.trimmed > 0
    assert seen == {12 << 2 | 0b10}
    assert 40_000 - 4220 < slow.counters.queue_high_water_bytes <= 40_000 + 10 * 108
    assert fabric.uplink(0, 0, 0).counters.trimmed == 0


@pytest.mark.parametrize("kept", [108, 128, 256, 1010, 4095])
def test_whatever_a_switch_keeps_every_trim_is_answered_and_the_write_arrives(kept: int) -> None:
    """A spine link at a tenth of the rate, with switches of the field: all lengths in a trimmed packet are old ones.

    MRC-TRIM-04, MRC-TRIM-05.
    """
    link = LinkModel(rate_bps=10 * GIGABIT, trim_at_bytes=40_000, trim_to_bytes=kept)
    wire = WireProfile(dscp_trimmed=48, dscp_trimmed_lasthop=50)
    fabric = SimFabric(Clos(1, 2, 2), link, seed=3, config=EndpointConfig(wire=wire))
    slow = fabric.uplink(0, 0, 1)
    slow.set(rate_bps=GIGABIT)
    transfer = fabric.write(fabric.connect("h0", "h1")[0], 4_000_000)
    fabric.run(20 * MILLISECOND)
    assert transfer.completed_at is not None
    sender, receiver = (fabric.endpoints[host].total_counters() for host in ("h0", "h1"))
    trimmed = sum(egress.counters.trimmed for egress in fabric.egresses.values())
    assert slow.counters.trimmed > 10
    assert receiver.trimmed_received == trimmed
    assert receiver.nacks_sent == receiver.trimmed_received
    assert sender.losses_by_nack > 10
    assert receiver.bad_icrc == receiver.bad_length == receiver.too_short == 0


def test_a_host_sees_its_own_link_go_and_others_only_silence() -> None:
    fabric = SimFabric(Clos(2, 2, 4), QUEUES, seed=4)
    fabric.at(10, lambda: fabric.cut("h0-p1l0"))
    fabric.at(20, lambda: fabric.cut("p0s2", "p0l0-p0s1"))
    fabric.at(30, lambda: fabric.heal("p1l0-h0"))
    fabric.run(SECOND)
    seen = [(event.at_ns, *event.values) for event in fabric.endpoints["h0"].events]
    assert seen == [(10, "local", 1, False), (30, "local", 1, True)]
    assert not fabric.endpoints["h1"].events


def test_a_leaf_that_goes_takes_the_ports_of_its_hosts() -> None:
    fabric = SimFabric(Clos(2, 2, 4, hosts_per_leaf=2), QUEUES, seed=5)
    fabric.cut("p1l1")
    fabric.cut("h2-p1l1")
    fabric.heal("p1l1")
    assert [event.values for event in fabric.endpoints["h2"].events] == [("local", 1, False)]
    assert [event["up"] for event in fabric.endpoints["h3"].events] == [False, True]
    assert not fabric.endpoints["h0"].events


@pytest.mark.parametrize("name", ["p0l0-p0s1", "p1s3", "h0-p1l0", "h1-p0l1", "p0l1"])
def test_a_cut_and_a_heal_in_the_middle_of_a_transfer(name: str) -> None:
    """A link, a spine, either host's own link, a leaf: everything arrives, and what is down carries nothing."""
    fabric = SimFabric(Clos(2, 2, 4), QUEUES, seed=6, coalesce_ns=MICROSECOND)
    transfer = fabric.write(fabric.connect("h0", "h1")[0], 6_000_000)
    cut = [egress for egress in fabric.egresses.values() if name in (egress.name, *egress.name.split("-"))]
    assert cut
    fabric.at(MILLISECOND, lambda: fabric.cut(name))
    fabric.run(MILLISECOND)
    carried = sum(egress.counters.packets for egress in cut)
    assert carried > 100
    fabric.run(3 * MILLISECOND)
    assert sum(egress.counters.packets for egress in cut) == carried
    fabric.heal(name)
    assert fabric.run(SECOND, lambda: transfer.done)
    assert transfer.status == WorkStatus.SUCCESS
    assert transfer.arrived


def _trace(seed: int) -> list[tuple[int, str, bytes]]:
    rough = LinkModel(
        rate_bps=GIGABIT, queue_bytes=100_000, ecn_at_bytes=30_000, loss=0.02, reorder=0.1, jitter_ns=20_000
    )
    fabric = SimFabric(Clos(2, 3, 2), rough, seed=seed)
    seen: list[tuple[int, str, bytes]] = []
    fabric.observers.append(lambda now, host, packet: seen.append((now, host, packet)))
    pairs = [("h0", "h2"), ("h1", "h2"), ("h2", "h0")]
    transfers = [fabric.write(fabric.connect(*pair, QpConfig(path_mtu=1024))[0], 60_000) for pair in pairs]
    fabric.at(200 * MICROSECOND, lambda: fabric.cut("p0s1"))
    assert fabric.run(SECOND, lambda: all(each.done for each in transfers))
    assert all(each.arrived for each in transfers)
    return seen


def test_the_same_seed_is_the_same_run() -> None:
    first = _trace(1)
    assert len(first) > 200
    assert _trace(1) == first
    assert _trace(2) != first


def test_packets_of_one_instant_arrive_as_one_batch_and_a_coalescing_time_widens_it() -> None:
    """64 small packets leave at once over links without a rate; or over links that space them by 136 ns."""

    def batches(link: LinkModel, coalesce_ns: int) -> int:
        fabric = SimFabric(Clos(1, 2, 1), link, coalesce_ns=coalesce_ns)
        transfers = [fabric.write(qp, 1) for qp in [fabric.connect("h0", "h1")[0]] for _ in range(64)]
        count, receive = 0, fabric.endpoints["h1"].receive

        def counted(*arguments: object) -> None:
            nonlocal count
            count += 1
            receive(*arguments)  # type: ignore[arg-type]

        fabric.hosts["h1"].agent.receive = counted  # type: ignore[method-assign]
        assert fabric.run(SECOND, lambda: all(each.arrived for each in transfers))
        return count

    assert batches(LinkModel(), 0) == 1
    assert batches(QUEUES, 0) == 64
    assert batches(QUEUES, 64 * 136) == 1


def test_what_is_not_there_is_named() -> None:
    fabric = SimFabric(Clos(1, 2, 1))
    with pytest.raises(CallerError, match="p0l0-p0s7"):
        fabric.cut("p0l0-p0s7")
    with pytest.raises(CallerError, match="p0l1"):
        fabric.link("p0l0-p0s0", "p0l1")
    with pytest.raises(CallerError, match="h5"):
        fabric.connect("h0", "h5")


def test_made_up_data_differs_from_run_to_run_and_not_from_zero_alone() -> None:
    fabric = SimFabric(Clos(1, 2, 1), seed=9)
    qp, _ = fabric.connect("h0", "h1")
    first, second = fabric.write(qp, 5000), fabric.write(qp, 5000)
    assert fabric.run(SECOND, lambda: second.done)
    assert first.arrived
    assert second.arrived
    assert first.data != second.data
    assert len(np.unique(np.frombuffer(first.data, np.uint8))) > 200
