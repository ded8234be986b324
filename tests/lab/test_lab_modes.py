# SPDX-License-Identifier: BSD-2-Clause
"""The forwarding modes in the kernel: which spine a packet takes, what a cut looks like, what a heal brings back."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from lab_modes import Host, SpineTaps, arrivals, icmp_errors
from lab_wire import Wire, configuration, paths, touches
from patience import PATIENCE_S

from mrc.fabric import Clos
from mrc.lab import Lab

pytestmark = pytest.mark.root

CHOSEN = ("srv6", "srv6-srh", "stev")  # where the sender names the spine
# The kernel's hash is keyed anew at every start of the machine. Beyond this, with three degrees of freedom, lies one
# key in a million.
CHI_SQUARE_BOUND = 30.7


@pytest.fixture(scope="module")
def labs(lab_name: Callable[[str], str]) -> Iterator[Callable[[str], Lab]]:
    """A whole lab of each mode; tests leave it whole."""
    built: dict[str, Lab] = {}

    def of(mode: str) -> Lab:
        if mode not in built:
            built[mode] = Lab.up(lab_name(f"mode-{mode}"), Clos(mode=mode))
        return built[mode]

    yield of
    for lab in built.values():
        lab.down()


def payload(way: tuple[int, int]) -> bytes:
    return b"along plane %d spine %d" % way


@pytest.mark.parametrize("mode", CHOSEN)
@pytest.mark.parametrize(("source", "destination"), [(0, 1), (1, 0)])
def test_a_packet_passes_the_spine_its_sender_chose_and_no_other(
    labs: Callable[[str], Lab], make_wire: Callable[[Lab], Wire], mode: str, source: int, destination: int
) -> None:
    """MRC-EV-06, MRC-EV-08."""
    wire = make_wire(labs(mode))
    sender, receiver = Host(wire, f"h{source}"), Host(wire, f"h{destination}")
    spines = SpineTaps(wire, leaf=source)
    ways = paths(wire.lab.topology)
    for way in ways:
        sender.send(receiver, *way, payload(way))
    assert sorted(receiver.received()) == sorted(map(payload, ways))
    assert spines.seen(map(payload, ways)) == {payload(way): [way] for way in ways}


@pytest.mark.parametrize("mode", CHOSEN)
def test_hosts_of_one_leaf_meet_there(
    lab_name: Callable[[str], str], make_wire: Callable[[Lab], Wire], mode: str
) -> None:
    with Lab.up(lab_name("pair"), Clos(planes=1, leaves=2, spines=2, hosts_per_leaf=2, mode=mode)) as small:
        wire = make_wire(small)
        spines = SpineTaps(wire)
        Host(wire, "h0").send(neighbour := Host(wire, "h1"), 0, 1, b"next door")
        assert neighbour.received() == [b"next door"]
        assert spines.seen([b"next door"]) == {b"next door": []}


def test_an_ev_that_names_no_spine_is_dropped_in_silence(
    labs: Callable[[str], Lab], make_wire: Callable[[Lab], Wire]
) -> None:
    wire = make_wire(labs("stev"))
    sender, receiver = Host(wire, "h0"), Host(wire, "h1")
    spines = SpineTaps(wire)
    before = icmp_errors(wire.lab)
    payloads = [b"to spine %d" % spine for spine in (4, 5, 0x80, 0xFF)]
    for spine, text in zip((4, 5, 0x80, 0xFF), payloads, strict=True):
        sender.send_ev(receiver, 0, spine << 24, text)
    assert receiver.received() == []
    assert spines.seen(payloads) == {text: [] for text in payloads}
    assert icmp_errors(wire.lab) == before


def test_no_switch_reads_beyond_its_field(labs: Callable[[str], Lab], make_wire: Callable[[Lab], Wire]) -> None:
    """Whatever the lower 24 bits are: the first 8 decide."""
    wire = make_wire(labs("stev"))
    sender, receiver = Host(wire, "h0"), Host(wire, "h1")
    spines = SpineTaps(wire)
    evs = {b"EV %08x" % ev: ev for low in (1, 0xFFFF, 0x10000, 0xFFFFFF) for ev in (low, 3 << 24 | low)}
    for text, ev in evs.items():
        sender.send_ev(receiver, 1, ev, text)
    assert len(receiver.received()) == len(evs)
    assert spines.seen(evs) == {text: [(1, ev >> 24)] for text, ev in evs.items()}


@pytest.mark.parametrize("what", ["source ports", "flow labels"])
def test_ecmp_spreads_evenly_over_the_spines(
    labs: Callable[[str], Lab], make_wire: Callable[[Lab], Wire], what: str
) -> None:
    """By the kernel's own counters at the spines, from all the source ports EVs are drawn from."""
    wire = make_wire(labs("ecmp"))
    lab = wire.lab
    sender, receiver = Host(wire, "h0"), Host(wire, "h1")
    before = arrivals(lab)
    count = 4096
    for number in range(count):
        ev = 0xC000 + 4 * number if what == "source ports" else number << 16 | 0xC000
        sender.send_ev(receiver, 0, ev, b"x")
        if number % 100 == 99:
            # No CPU has room for as many as it is given while it does something else.
            wire.fence.wait()
    wire.fence.wait()
    after = arrivals(lab)
    spread = [after[f"p0l0-p0s{spine}"] - before[f"p0l0-p0s{spine}"] for spine in range(4)]
    assert count <= sum(spread) <= count + 16
    assert sum((each - count / 4) ** 2 / (count / 4) for each in spread) < CHI_SQUARE_BOUND, spread


@pytest.mark.parametrize("mode", CHOSEN)
@pytest.mark.parametrize("target", ["p0s1", "p1l0-p1s2", "h1-p0l1", "p1l1"])
def test_a_cut_is_silence_and_heal_brings_everything_back(
    labs: Callable[[str], Lab],
    make_wire: Callable[[Lab], Wire],
    mode: str,
    target: str,
    need_program: Callable[[str], str],
) -> None:
    ip = need_program("ip")
    wire = make_wire(labs(mode))
    lab = wire.lab
    sender, receiver = Host(wire, "h0"), Host(wire, "h1")
    ways = paths(lab.topology)
    whole, errors = configuration(lab, ip), icmp_errors(lab)
    lab.cut(target)
    before = arrivals(lab)
    repeats = 20
    for way in ways:
        for _ in range(repeats):
            sender.send(receiver, *way, payload(way))
    expected = {payload(way): repeats for way in ways if not touches(target, *way)}
    assert Counter(receiver.received()) == expected
    # No answer from anybody, and nothing going round: each leaf's cable up carried what was sent, once.
    after = arrivals(lab)
    assert icmp_errors(lab) == errors
    for leaf in lab.topology.leaf_switches:
        up = sum(count - before[name] for name, count in after.items() if name.startswith(f"{leaf}-"))
        assert up <= (len(ways) // 2 * repeats + 16 if leaf.endswith("l0") else 16), leaf
    lab.heal(target)
    assert configuration(lab, ip) == whole
    for way in ways:
        sender.send(receiver, *way, payload(way))
    assert sorted(receiver.received()) == sorted(map(payload, ways))


@pytest.mark.parametrize("target", ["p0s1", "p0l0-p0s1", "h1-p0l1"])
def test_a_cut_under_ecmp_takes_the_evs_that_hash_there(
    labs: Callable[[str], Lab], make_wire: Callable[[Lab], Wire], target: str, need_program: Callable[[str], str]
) -> None:
    """The fabric is static: those EVs get nowhere, all others go on where they went."""
    ip = need_program("ip")
    wire = make_wire(labs("ecmp"))
    lab = wire.lab
    sender, receiver = Host(wire, "h0"), Host(wire, "h1")
    evs = {b"EV %04x" % ev: ev for ev in range(0xC000, 0xC020)}

    def send() -> list[bytes]:
        for text, ev in evs.items():
            sender.send_ev(receiver, 0, ev, text)
        return sorted(receiver.received())

    spines = SpineTaps(wire)
    assert send() == sorted(evs)
    ways = {text: way for text, (way,) in spines.seen(evs).items()}
    assert len(set(ways.values())) == 4
    whole, errors = configuration(lab, ip), icmp_errors(lab)
    lab.cut(target)
    before = arrivals(lab)
    assert send() == sorted(text for text, way in ways.items() if not touches(target, *way))
    after = arrivals(lab)
    assert sum(after[f"p0l1-p0s{spine}"] - before[f"p0l1-p0s{spine}"] for spine in range(4)) <= 16
    assert icmp_errors(lab) == errors
    lab.heal(target)
    assert configuration(lab, ip) == whole
    spines.seen([])
    assert send() == sorted(evs)
    assert spines.seen(evs) == {text: [way] for text, way in ways.items()}


def test_a_leaf_with_its_own_port_down_does_not_go_another_way(
    labs: Callable[[str], Lab], make_wire: Callable[[Lab], Wire], need_program: Callable[[str], str]
) -> None:
    """In stev mode an EV is its spine, also when the leaf itself has taken the port down."""
    ip = need_program("ip")
    wire = make_wire(labs("stev"))
    lab = wire.lab
    sender, receiver = Host(wire, "h0"), Host(wire, "h1")
    whole = configuration(lab, ip)
    assert lab.popen("p0l0", [ip, "link", "set", "p0s1", "down"]).wait(PATIENCE_S) == 0
    sender.send(receiver, 0, 1, b"down")
    sender.send(receiver, 0, 2, b"up")
    assert receiver.received() == [b"up"]
    lab.heal("p0l0-p0s1")
    assert configuration(lab, ip) == whole
    sender.send(receiver, 0, 1, b"healed")
    assert receiver.received() == [b"healed"]


def test_a_host_takes_no_routing_header_off_by_itself(
    labs: Callable[[str], Lab], make_wire: Callable[[Lab], Wire]
) -> None:
    """Its kernel would hand on what is inside as a packet of its own, and answer that nobody listens."""
    wire = make_wire(labs("srv6-srh"))
    lab = wire.lab
    sender, receiver = Host(wire, "h0"), Host(wire, "h1")
    before, errors = _ipv6_delivered(lab), icmp_errors(lab)
    for _ in range(10):
        sender.send(receiver, 0, 0, b"once")
    assert receiver.received() == [b"once"] * 10
    assert _ipv6_delivered(lab) - before <= 10 + 4
    assert icmp_errors(lab) == errors


def _ipv6_delivered(lab: Lab) -> int:
    """IPv6 packets h1 has taken in so far, what it took out of others counted."""

    def read() -> int:
        with open("/proc/thread-self/net/snmp6") as counters:
            return int(dict(line.split() for line in counters)["Ip6InReceives"])

    return lab.inside("h1", read)


@pytest.mark.parametrize("mode", ["srv6-srh", "stev", "ecmp"])
def test_a_user_namespace_is_enough_for_each_mode(mode: str) -> None:
    if (unshare := shutil.which("unshare")) is None:
        pytest.skip("needs the program unshare")
    script = (
        "import sys\n"
        "from lab_modes import Host\n"
        "from lab_wire import Wire\n"
        "from mrc.lab import Lab\n"
        "from mrc.fabric import Clos\n"
        "with Lab.up('inner', Clos(spines=2, mode=sys.argv[1])) as lab:\n"
        "  wire = Wire(lab)\n"
        "  sender, receiver = Host(wire, 'h0'), Host(wire, 'h1')\n"
        "  lab.cut('p0s0'); lab.heal('p0s0')\n"
        "  for way in ((0, 0), (0, 1), (1, 0), (1, 1)):\n"
        "    (sender.send if sys.argv[1] != 'ecmp' else sender.send_ev)(receiver, *way, b'through')\n"
        "  print(len(receiver.received()))\n"
        "  wire.close()\n"
    )
    argv = [unshare, "--user", "--map-root-user", "--net", "--mount", "sh", "-c"]
    if subprocess.run([*argv, "mount -t tmpfs none /run"], capture_output=True).returncode:
        pytest.skip("user namespaces are not allowed here")
    inner = 'mount -t tmpfs none /run && exec "$@"'
    here = Path(__file__).parent
    ended = subprocess.run(
        [*argv, inner, "sh", sys.executable, "-c", script, mode],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(here), str(here.parent), os.getcwd()))},
    )
    assert ended.stdout.split() == ["4"], ended.stderr
