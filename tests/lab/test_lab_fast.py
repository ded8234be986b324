# SPDX-License-Identifier: BSD-2-Clause
"""A fast fabric does what the kernel's seg6local does: the same frames everywhere, the same cuts and impairments."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from fast_shapes import NONE, Shape, Watched, packet, shapes, tagged
from lab_wire import Wire, deliveries, run, touches, usid_address

from mrc.cli.lab import lab as lab_command
from mrc.errors import CallerError, SystemRefused
from mrc.fabric import Clos, Description, Impairment
from mrc.lab import Lab, fast, lab_names
from mrc.lab.bpf import EbpfRefused, PortsProgram
from mrc.lab.differences import Remedy
from mrc.lab.plan import plan

pytestmark = pytest.mark.root

SHAPE = Clos(planes=2, leaves=2, spines=2, hosts_per_leaf=2)
LINK, TOWARD = "p0l0-p0s0", "p0s0"
# More than a tick of the kernel's clock, for which the programs may keep to a route.
TICK_S = 0.02


@pytest.fixture(scope="module")
def lab(lab_name: Callable[[str], str], need_root: None) -> Iterator[Lab]:
    with Lab.up(lab_name("fast"), SHAPE, fast=True) as built:
        yield built


@pytest.fixture(scope="module")
def oracle(lab_name: Callable[[str], str], need_root: None) -> Iterator[Lab]:
    with Lab.up(lab_name("kernel"), SHAPE) as built:
        yield built


@pytest.fixture
def both(lab: Lab, oracle: Lab) -> Iterator[tuple[Watched, Watched]]:
    opened = Watched(oracle), Watched(lab)
    yield opened
    for each in opened:
        each.close()


def silent(destination: str, number: int, length: int = 64) -> bytes:
    """A packet that no host answers."""
    return packet(destination, tagged(number, length), next_header=NONE)


def port(lab: Lab, link: str, node: str) -> tuple[bool, bool]:
    """Whether the program takes what arrives at a port, and what leaves there."""
    found = fast.port(lab.topology.link(link), node, plan(lab.topology), lab._route)
    return found.arriving, found.leaving


def arrived_at(lab: Lab) -> dict[tuple[str, str], tuple[int, int]]:
    """Packets and bytes so far, of each direction of each link."""
    return {
        (link.name, end): (way.packets, way.bytes) for link in lab.status().links for end, way in link.toward.items()
    }


def test_the_same_frames_arrive_everywhere(both: tuple[Watched, Watched]) -> None:
    """MRC-SRV6-03, MRC-SRV6-08: and what is no plain case, errors included, is as the kernel has it."""
    kernel, ours = both
    frames = 0
    for shape in shapes(SHAPE):
        expected = kernel.seen(shape)
        assert ours.seen(shape) == expected, shape
        frames += len(expected)
    assert frames > 3000


def test_the_kernel_forwards_no_packet_of_a_whole_path(both: tuple[Watched, Watched]) -> None:
    kernel, ours = both
    before = [each.forwarded() for each in both]
    for uplink in range(SHAPE.spines):
        way = silent(usid_address(SHAPE, 0, 2, 0, uplink), uplink)
        assert len(kernel.seen(Shape("h0", "p0", way))) == len(ours.seen(Shape("h0", "p0", way))) == 4
    after = [each.forwarded() for each in both]
    differences = [{node: now[node] - then[node] for node in then if now[node] != then[node]} for then, now in
                   zip(before, after, strict=True)]  # fmt: skip
    assert differences == [{"p0l0": 2, "p0s0": 1, "p0s1": 1, "p0l1": 2}, {}]


def test_every_link_counts_the_same(both: tuple[Watched, Watched]) -> None:
    counted = []
    for each in both:
        before = arrived_at(each.lab)
        for number in range(20):
            way = usid_address(SHAPE, 1, 3, 1, number % 2)
            each.seen(Shape("h1", "p1", silent(way, number, 400)))
        after = arrived_at(each.lab)
        # The kernel says something of its own now and then, to multicast groups.
        counted.append({
            where: (packets - before[where][0], length - before[where][1])
            for where, (packets, length) in after.items()
            if packets - before[where][0] >= 10
        })  # fmt: skip
    assert counted[0] == counted[1]
    assert len(counted[0]) == 6


def test_an_mtu_changed_by_hand_is_the_kernels_to_answer(both: tuple[Watched, Watched]) -> None:
    way = usid_address(SHAPE, 0, 2, 0, 1)
    seen = []
    for each in both:
        run(each.lab, "p0l0", "ip", "link", "set", "p0s1", "mtu", "1500")
        time.sleep(TICK_S)
        seen.append([each.seen(Shape("h0", "p0", silent(way, length, length))) for length in (1460, 1461, 3000)])
        run(each.lab, "p0l0", "ip", "link", "set", "p0s1", "mtu", str(SHAPE.mtu))
    assert seen[0] == seen[1]
    assert [len(frames) for frames in seen[1]] == [4, 2, 2]


@pytest.mark.parametrize("target", ["h0-p0l0", "p1l1-p1s0", "p0l0-p0s1", "p1s1", "p0l1", "plane:1"])
def test_a_cut_is_at_once_and_a_heal_brings_all_back(lab: Lab, make_wire: Callable[[Lab], Wire], target: str) -> None:
    wire = make_wire(lab)
    for source, destination in ((0, 2), (2, 0)):
        # What the programs know of routes is as new as can be.
        assert all(deliveries(wire, source, destination).values())
        lab.cut(target)
        outcome = deliveries(wire, source, destination)
        lab.heal(target)
        # touches() knows of h1 on leaf 1.
        assert outcome == {way: not touches(target.replace("h2", "h1"), *way) for way in outcome}
        assert all(deliveries(wire, source, destination).values())


@pytest.mark.parametrize(("node", "interface"), [("p0l0", "p0s1"), ("p0s1", "p0l0"), ("p0l1", "p0s1"), ("p0l0", "h0")])
def test_a_port_set_down_by_hand(lab: Lab, make_wire: Callable[[Lab], Wire], node: str, interface: str) -> None:
    wire = make_wire(lab)
    run(lab, node, "ip", "link", "set", interface, "down")
    time.sleep(TICK_S)
    outcomes = [deliveries(wire, *ends) for ends in ((0, 2), (2, 0))]
    link = f"{interface}-{node}" if interface == "h0" else "-".join(sorted((node, interface)))
    lab.heal(link)
    for outcome in outcomes:
        assert outcome == {way: not touches(link, *way) for way in outcome}
    assert all(deliveries(wire, 0, 2).values())


def test_loss_takes_the_packets_of_a_link_and_gives_them_back(lab: Lab, make_wire: Callable[[Lab], Wire]) -> None:
    wire = make_wire(lab)
    lab.impair(LINK, loss=1.0, toward=TOWARD)
    assert (port(lab, LINK, "p0s0"), port(lab, LINK, "p0l0")) == ((False, True), (True, True))
    assert [way for way, came in deliveries(wire, 0, 2).items() if not came] == [(0, 0)]
    assert all(deliveries(wire, 2, 0).values())
    link = next(each for each in lab.status().links if each.name == LINK)
    assert link.toward[TOWARD].dropped_packets == 1
    lab.clear(LINK)
    assert (port(lab, LINK, "p0s0"), port(lab, LINK, "p0l0")) == ((True, True), (True, True))
    assert all(deliveries(wire, 0, 2).values())


@pytest.mark.parametrize(
    "change", [{"rate_bps": 10**9}, {"duplicate": 0.5}, {"rate_bps": 10**9, "trim_at_bytes": 10**5}]
)
def test_what_leaves_by_an_impaired_port_is_the_kernels(lab: Lab, change: dict[str, float]) -> None:
    lab.impair(LINK, toward=TOWARD, **change)  # type: ignore[arg-type]
    assert (port(lab, LINK, "p0s0"), port(lab, LINK, "p0l0")) == ((True, True), (True, False))
    lab.cut(LINK)
    lab.heal(LINK)
    assert port(lab, LINK, "p0l0") == (True, False)
    lab.impair(LINK, toward=TOWARD, **dict.fromkeys(change, 0))  # type: ignore[arg-type]
    assert port(lab, LINK, "p0l0") == (True, True)


def test_duplicates_and_a_last_hop(lab: Lab, both: tuple[Watched, Watched]) -> None:
    _, ours = both
    lab.impair("h2-p0l1", toward="h2", duplicate=1.0)
    shape = Shape("h0", "p0", silent(usid_address(SHAPE, 0, 2, 0, 0), 1))
    seen = [node for node, _, _ in ours.seen(shape)]
    counted = next(each for each in lab.status().links if each.name == "h2-p0l1").toward["h2"].duplicated_packets
    lab.clear("h2-p0l1")
    assert seen == ["h2", "h2", "p0l0", "p0l1", "p0s0"]
    assert counted == 1
    assert [node for node, _, _ in ours.seen(shape)] == ["h2", "p0l0", "p0l1", "p0s0"]


def test_somebody_elses_queue_is_seen_with_the_next_change(lab: Lab) -> None:
    run(lab, "p0l0", "tc", "qdisc", "add", "dev", "p0s0", "root", "pfifo", "limit", "100")
    lab.impair(LINK, loss=0.1, toward="p0l0")
    assert port(lab, LINK, "p0l0") == (False, False)
    run(lab, "p0l0", "tc", "qdisc", "del", "dev", "p0s0", "root")
    lab.clear(LINK)
    assert port(lab, LINK, "p0l0") == (True, True)


def test_whoever_is_stopped_in_a_change_leaves_the_link_to_the_kernel(
    lab: Lab, make_wire: Callable[[Lab], Wire], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object, **__: object) -> None:
        assert (port(lab, LINK, "p0s0"), port(lab, LINK, "p0l0")) == ((False, False), (False, False))
        assert all(deliveries(make_wire(lab), 0, 2).values())
        raise KeyboardInterrupt

    monkeypatch.setattr("mrc.lab.impairment.change", stop)
    with pytest.raises(KeyboardInterrupt):
        lab.impair(LINK, loss=0.1)
    assert port(lab, LINK, "p0l0") == (True, True)


def test_a_described_impairment_is_told_to_the_programs(lab_name: Callable[[str], str]) -> None:
    described = Description(Clos(planes=1, leaves=2, spines=1), {(LINK, TOWARD): Impairment(rate_bps=10**9)})
    with Lab.up(lab_name("fast-described"), described, fast=True) as built:
        assert port(built, LINK, "p0l0") == (True, False)
        assert port(built, "p0l1-p0s0", "p0l1") == (True, True)


def test_it_is_known_to_be_fast(lab: Lab, oracle: Lab) -> None:
    with Lab.open(lab.name) as opened:
        assert opened.fast
        assert opened.status().fabric == "fast"
        assert opened.differences() == ()
    assert (oracle.fast, oracle.status().fabric) == (False, "kernel")
    assert Lab.up(lab.name, SHAPE, exist_ok=True, fast=True).created is False
    with pytest.raises(CallerError, match="its fabric is fast, not kernel"):
        Lab.up(lab.name, SHAPE, exist_ok=True)
    shown = CliRunner().invoke(lab_command, ["status", "--name", lab.name])
    assert "fabric: fast" in " ".join(shown.output.split())


def test_a_program_that_was_taken_off_is_missed(
    lab_name: Callable[[str], str], make_wire: Callable[[Lab], Wire]
) -> None:
    with Lab.up(lab_name("fast-less"), Clos(planes=1, leaves=2, spines=1), fast=True) as built:
        for node, interface in (("p0l0", "h0"), ("p0s0", "p0l1")):
            run(built, node, "tc", "qdisc", "del", "dev", interface, "clsact")
        (leaf, spine) = built.differences()
        assert (leaf.where, leaf.what, leaf.remedy) == ("p0l0", "has no program of a fast fabric at h0", Remedy.REBUILD)
        assert (spine.where, spine.what) == ("p0s0", "has no program of a fast fabric at p0l1")
        assert all(deliveries(make_wire(built)).values())
        run(built, "p0l0", "tc", "qdisc", "del", "dev", "p0s0", "clsact")
        run(built, "p0s0", "tc", "qdisc", "del", "dev", "p0l0", "clsact")
        built.impair(LINK, loss=0.1)
        built.cut(LINK)


def test_another_mode_has_no_usids() -> None:
    with pytest.raises(CallerError, match="--fast is for the modes srv6 and srv6-srh, and this fabric's is ecmp"):
        Lab.up("never", Clos(mode="ecmp"), fast=True)


@pytest.mark.parametrize("release", ["6.6.12-generic", "5.15.0", "strange"])
def test_a_kernel_that_is_too_old(monkeypatch: pytest.MonkeyPatch, release: str) -> None:
    monkeypatch.setattr(platform, "release", lambda: release)
    with pytest.raises(SystemRefused, match=r"--fast needs Linux 6\.7 or newer.*leave out --fast"):
        Lab.up("never", fast=True)


def test_without_ebpf_nothing_stays_behind(lab_name: Callable[[str], str], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> PortsProgram:
        raise EbpfRefused("cannot load an eBPF program: no")

    monkeypatch.setattr(PortsProgram, "load", refuse)
    with pytest.raises(EbpfRefused, match="--fast: cannot load an eBPF program: no: leave out --fast"):
        Lab.up(lab_name("fast-refused"), fast=True)
    assert lab_name("fast-refused") not in lab_names()


def test_the_command_builds_one(lab_name: Callable[[str], str], tmp_path: Path) -> None:
    name = lab_name("fast-command")
    shown = CliRunner().invoke(
        lab_command, ["up", "--name", name, "--planes", "1", "--spines", "1", "--fast", "--json"]
    )
    try:
        assert json.loads(shown.output)["fast"] is True
        refused = CliRunner().invoke(lab_command, ["up", "--name", name, "--planes", "1", "--spines", "1"])
        assert refused.exit_code != 0
    finally:
        Lab.remove(name)


def test_segment_routing_headers_pass_the_same_way(
    lab_name: Callable[[str], str], make_wire: Callable[[Lab], Wire]
) -> None:
    from lab_modes import Host

    with Lab.up(lab_name("fast-srh"), Clos(mode="srv6-srh"), fast=True) as built:
        wire = make_wire(built)
        sender, receiver = Host(wire, "h0"), Host(wire, "h1")
        payloads = [b"%d %d" % (plane, spine) for plane in range(2) for spine in range(4)]
        for payload in payloads:
            plane, spine = map(int, payload.split())
            sender.send(receiver, plane, spine, payload)
        assert sorted(receiver.received()) == payloads
