# SPDX-License-Identifier: BSD-2-Clause
"""Impairments changed, read by others, cut and healed, and taken away: what stays, and that nothing is left."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator

import programs
import pytest
from bpf_frames import NO_TRIM
from bpf_traffic import Traffic, direction, disciplines, filters
from lab_wire import run
from patience import PATIENCE_S, eventually
from programs import MRC

from mrc.errors import CallerError, SystemRefused
from mrc.fabric import Clos, Impairment
from mrc.lab import Lab
from mrc.lab.bpf import LinkProgram

pytestmark = pytest.mark.root

MEGABIT = 1_000_000
LINK, LOWER, UPPER = "p0l0-p0s0", "p0l0", "p0s0"
OURS = ["bfifo", "bfifo", "clsact", "htb", "tbf"]


@pytest.fixture(scope="module")
def lab(lab_name: Callable[[str], str], need_root: None) -> Iterator[Lab]:
    with Lab.up(lab_name("bpf-changes"), Clos(planes=1, leaves=2, spines=1)) as built:
        yield built


@pytest.fixture(autouse=True)
def _cleared(lab: Lab) -> Iterator[None]:
    yield
    for link in lab.topology.links:
        lab.heal(link.name)
        lab.clear(link.name)


def program_number(lab: Lab, node: str = LOWER, interface: str = UPPER) -> int:
    """The number of the eBPF program that `tc` finds at the egress of an interface; 0 for none."""
    said = json.loads(run(lab, node, "tc", "-j", "filter", "show", "dev", interface, "egress") or "[]")
    return next((each["options"]["prog"]["id"] for each in said if "prog" in each.get("options", {})), 0)


def is_loaded(number: int) -> bool:
    try:
        LinkProgram.by_id(number).close()
    except SystemRefused:
        return False
    return True


def eventually_gone(number: int) -> bool:
    """The kernel lets go of a program after its filter, when it has the time."""
    return bool(eventually(lambda: not is_loaded(number), 2 * PATIENCE_S))


class TestChanging:
    def test_what_is_given_changes_and_what_is_not_stays(self, lab: Lab) -> None:
        steps = [
            ({"rate_bps": 100 * MEGABIT}, Impairment(rate_bps=100 * MEGABIT)),
            ({"ecn_at_bytes": 20_000}, Impairment(rate_bps=100 * MEGABIT, ecn_at_bytes=20_000)),
            ({"loss": 0.25}, Impairment(rate_bps=100 * MEGABIT, ecn_at_bytes=20_000, loss=0.25)),
            (
                {"trim_at_bytes": 30_000, "queue_bytes": 40_000, "ecn_at_bytes": 0},
                Impairment(rate_bps=100 * MEGABIT, queue_bytes=40_000, trim_at_bytes=30_000, loss=0.25),
            ),
            ({"duplicate": 0.5, "corrupt": 0.125, "rate_bps": 0}, Impairment(duplicate=0.5, corrupt=0.125, loss=0.25)),
            ({"loss": 0.0, "corrupt": 0}, Impairment(duplicate=0.5)),
            ({"duplicate": 0}, Impairment()),
        ]
        for changes, expected in steps:
            lab.impair(LINK, toward=UPPER, **changes)  # type: ignore[arg-type]
            assert lab.impairment(LINK, UPPER) == expected
            assert direction(lab, LINK, UPPER).impairment == expected
            assert lab.impairment(LINK, LOWER) == Impairment()

    def test_both_ways_from_where_each_is(self, lab: Lab) -> None:
        lab.impair(LINK, toward=LOWER, rate_bps=50 * MEGABIT)
        lab.impair(LINK, rate_bps=200 * MEGABIT, duplicate=0.25)
        lab.impair(LINK, toward=UPPER, queue_bytes=99_000)
        lab.impair(LINK, ecn_at_bytes=10_000)
        common = {"rate_bps": 200 * MEGABIT, "duplicate": 0.25, "ecn_at_bytes": 10_000}
        assert lab.impairment(LINK, LOWER) == Impairment(**common)  # type: ignore[arg-type]
        assert lab.impairment(LINK, UPPER) == Impairment(**common, queue_bytes=99_000)  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        ("changes", "says"),
        [
            ({"ecn_at_bytes": 10_000}, "needs a rate_bps"),
            ({"trim_at_bytes": 10_000, "duplicate": 0.5}, "needs a rate_bps"),
            ({"rate_bps": 99}, "rate_bps must be"),
            ({"rate_bps": MEGABIT, "queue_bytes": 20_000, "trim_at_bytes": 20_000}, "must be below queue_bytes"),
            ({"corrupt": 1.5}, "corrupt must be"),
            ({}, "nothing to change"),
        ],
    )
    def test_what_makes_no_sense_changes_nothing(self, lab: Lab, changes: dict[str, float], says: str) -> None:
        lab.impair(LINK, toward=LOWER, rate_bps=50 * MEGABIT)
        with pytest.raises(CallerError, match=says):
            # Toward the lower end some of it would do.
            lab.impair(LINK, **changes)  # type: ignore[arg-type]
        assert lab.impairment(LINK, LOWER) == Impairment(rate_bps=50 * MEGABIT)
        assert lab.impairment(LINK, UPPER) == Impairment()

    def test_counters_and_what_waits_outlive_a_change_of_rate(self, lab: Lab) -> None:
        # So slow that the queue is full, whatever this process waits for while it sends.
        lab.impair(LINK, toward=UPPER, rate_bps=MEGABIT // 10, queue_bytes=100_000)
        traffic = Traffic(lab)
        try:
            inner = traffic.packet(bytes(4096))
            for _ in range(40):
                traffic.send(inner, NO_TRIM)
            before = direction(lab, LINK, UPPER)
            lab.impair(LINK, toward=UPPER, rate_bps=100 * MEGABIT)
            arrived = len(traffic.arrived())
        finally:
            traffic.close()
        assert before.queue_dropped_packets > 0
        assert direction(lab, LINK, UPPER).queue_dropped_packets == before.queue_dropped_packets
        assert arrived == 40 - before.queue_dropped_packets

    @pytest.mark.parametrize(
        "broken",
        [
            ("tc", "qdisc", "del", "dev", UPPER, "root"),
            ("tc", "qdisc", "del", "dev", UPPER, "clsact"),
        ],
    )
    def test_the_same_again_mends_what_is_half_there(self, lab: Lab, broken: tuple[str, ...]) -> None:
        lab.impair(LINK, toward=UPPER, rate_bps=50 * MEGABIT)
        run(lab, LOWER, *broken)
        assert disciplines(lab, "tc", LOWER, UPPER) != OURS
        lab.impair(LINK, toward=UPPER, rate_bps=50 * MEGABIT)
        assert disciplines(lab, "tc", LOWER, UPPER) == OURS
        assert filters(lab, "tc", LOWER, UPPER) == ["mrc-link"]
        assert lab.impairment(LINK, UPPER) == Impairment(rate_bps=50 * MEGABIT)

    def test_many_changes_at_once_are_all_done(self, lab: Lab) -> None:
        script = (
            "import sys; from mrc.lab import Lab; lab = Lab.open(sys.argv[1])\n"
            "for step in range(1, 11): lab.impair('p0l0-p0s0', toward='p0s0', **{sys.argv[2]: step / 1000})"
        )
        fields = ("loss", "duplicate", "corrupt")
        processes = [subprocess.Popen([sys.executable, "-c", script, lab.name, field]) for field in fields]

        def rates() -> None:
            for step in range(1, 11):
                lab.impair(LINK, toward=UPPER, rate_bps=step * MEGABIT)

        threads = [threading.Thread(target=rates) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [process.wait(5 * PATIENCE_S) for process in processes] == [0, 0, 0]
        assert lab.impairment(LINK, UPPER) == Impairment(0.01, 0.01, 0.01, 10 * MEGABIT)
        assert filters(lab, "tc", LOWER, UPPER) == ["mrc-link"]


class TestStaying:
    def test_another_process_finds_and_changes_it(self, lab: Lab) -> None:
        lab.impair(LINK, toward=UPPER, rate_bps=50 * MEGABIT, trim_at_bytes=30_000)
        number = program_number(lab)
        argv = [*MRC, "lab", "impair", "--name", lab.name, LINK, "--ecn-at", "10KB"]
        done = programs.run([*argv, "--toward", UPPER, "--json"], capture_output=True, text=True, check=True)
        found = json.loads(done.stdout)["impairments"][UPPER]
        assert (found["rate_bps"], found["ecn_at_bytes"], found["trim_at_bytes"]) == (50 * MEGABIT, 10_000, 30_000)
        assert lab.impairment(LINK, UPPER) == Impairment(
            rate_bps=50 * MEGABIT, ecn_at_bytes=10_000, trim_at_bytes=30_000
        )
        assert program_number(lab) == number

    def test_a_cut_and_a_heal_leave_it_as_it_was(self, lab: Lab) -> None:
        lab.impair(LINK, rate_bps=50 * MEGABIT, queue_bytes=40_000, ecn_at_bytes=10_000, loss=0.5, corrupt=0.25)
        before = [lab.impairment(LINK, node) for node in (LOWER, UPPER)]
        installed = [disciplines(lab, "tc", LOWER, UPPER), disciplines(lab, "tc", UPPER, LOWER)]
        numbers = [program_number(lab), program_number(lab, UPPER, LOWER)]
        for target in (LINK, UPPER, LOWER):
            lab.cut(target)
            assert [lab.impairment(LINK, node) for node in (LOWER, UPPER)] == before
            lab.heal(target)
        run(lab, LOWER, "ip", "link", "set", UPPER, "down")
        lab.heal(LINK)
        assert [lab.impairment(LINK, node) for node in (LOWER, UPPER)] == before
        assert [disciplines(lab, "tc", LOWER, UPPER), disciplines(lab, "tc", UPPER, LOWER)] == installed
        assert [program_number(lab), program_number(lab, UPPER, LOWER)] == numbers

    def test_what_is_changed_while_a_cable_is_cut_holds_when_it_is_mended(self, lab: Lab) -> None:
        lab.cut(LINK)
        lab.impair(LINK, rate_bps=50 * MEGABIT, corrupt=0.25, loss=0.5)
        lab.impair(LINK, toward=UPPER, rate_bps=20 * MEGABIT)
        lab.heal(LINK)
        assert lab.impairment(LINK, UPPER) == Impairment(0.5, 0.0, 0.25, 20 * MEGABIT)
        assert lab.impairment(LINK, LOWER) == Impairment(0.5, 0.0, 0.25, 50 * MEGABIT)
        assert disciplines(lab, "tc", LOWER, UPPER) == disciplines(lab, "tc", UPPER, LOWER) == OURS

    def test_after_a_heal_the_rate_still_holds(self, lab: Lab) -> None:
        lab.impair(LINK, toward=UPPER, rate_bps=MEGABIT // 2, queue_bytes=50_000)
        lab.cut(LINK)
        lab.heal(LINK)
        traffic = Traffic(lab)
        try:
            inner = traffic.packet(bytes(4096))
            for _ in range(100):
                traffic.send(inner, NO_TRIM)
            arrived = len(traffic.arrived())
        finally:
            traffic.close()
        assert arrived + direction(lab, LINK, UPPER).queue_dropped_packets == 100
        # In 50,000 bytes are 11 packets; another leaves every 68 ms.
        assert arrived < 100


class TestLeavingNothing:
    def test_clear_takes_everything_away(self, lab: Lab) -> None:
        before = disciplines(lab, "tc", LOWER, UPPER)
        assert before == ["noqueue"]
        lab.impair(LINK, rate_bps=50 * MEGABIT, duplicate=0.5, loss=0.5)
        assert disciplines(lab, "tc", LOWER, UPPER) == OURS
        assert filters(lab, "tc", LOWER, UPPER) == ["mrc-link"]
        number = program_number(lab)
        assert is_loaded(number)
        lab.clear(LINK)
        assert disciplines(lab, "tc", LOWER, UPPER) == before
        assert disciplines(lab, "tc", UPPER, LOWER) == before
        assert eventually_gone(number)

    def test_so_does_turning_each_thing_off(self, lab: Lab) -> None:
        lab.impair(LINK, rate_bps=50 * MEGABIT, duplicate=0.5, loss=0.5)
        number = program_number(lab)
        lab.impair(LINK, rate_bps=0)
        assert disciplines(lab, "tc", LOWER, UPPER) == ["clsact", "noqueue"]
        lab.impair(LINK, duplicate=0)
        assert disciplines(lab, "tc", LOWER, UPPER) == ["noqueue"]
        assert eventually_gone(number)
        assert lab.impairment(LINK, UPPER) == Impairment(loss=0.5)

    def test_a_lab_that_goes_down_takes_its_programs_along(self, lab_name: Callable[[str], str]) -> None:
        with Lab.up(lab_name("bpf-gone"), Clos(planes=1, leaves=2, spines=1)) as short:
            for link in short.topology.links:
                short.impair(link.name, rate_bps=50 * MEGABIT)
            numbers = [program_number(short), program_number(short, UPPER, LOWER), program_number(short, "h0", "p0")]
            assert all(is_loaded(number) for number in numbers)
        assert all(eventually_gone(number) for number in numbers)

    def test_what_somebody_else_hung_there_stays(self, lab: Lab) -> None:
        run(lab, LOWER, "tc", "qdisc", "add", "dev", UPPER, "clsact")
        run(
            lab, LOWER, "tc", "filter", "add", "dev", UPPER, "egress", "u32", "match", "u32", "0", "0", "classid", "1:1"
        )
        try:
            lab.impair(LINK, toward=UPPER, duplicate=0.5)
            assert program_number(lab)
            lab.clear(LINK)
            assert not program_number(lab)
            assert "u32" in run(lab, LOWER, "tc", "filter", "show", "dev", UPPER, "egress")
        finally:
            run(lab, LOWER, "tc", "qdisc", "del", "dev", UPPER, "clsact")

    def test_somebody_elses_queue_is_not_replaced(self, lab: Lab) -> None:
        run(lab, LOWER, "tc", "qdisc", "add", "dev", UPPER, "root", "handle", "1:", "htb")
        try:
            with pytest.raises(SystemRefused, match=r"another queue.*tc qdisc del"):
                lab.impair(LINK, toward=UPPER, rate_bps=50 * MEGABIT, loss=0.5)
            assert disciplines(lab, "tc", LOWER, UPPER) == ["htb"]
            assert lab.impairment(LINK, UPPER) == Impairment()
            # What needs no queue of ours works beside it.
            lab.impair(LINK, toward=UPPER, duplicate=0.5)
            assert disciplines(lab, "tc", LOWER, UPPER) == ["clsact", "htb"]
            lab.clear(LINK)
            assert disciplines(lab, "tc", LOWER, UPPER) == ["htb"]
        finally:
            run(lab, LOWER, "tc", "qdisc", "del", "dev", UPPER, "root")


# In a user namespace the kernel gives nobody eBPF, root or not.
INSIDE = """
import json, subprocess
from mrc.cli.isolation import isolate
from mrc.errors import SystemRefused
from mrc.lab import Lab
from mrc.fabric import Clos, Impairment

isolate()
said = {}
with Lab.up("inside", Clos(planes=1, leaves=2, spines=1)) as lab:
    for field, value in (("ecn_at_bytes", 20_000), ("trim_at_bytes", 20_000), ("duplicate", 0.5), ("corrupt", 0.5)):
        try:
            lab.impair("p0l0-p0s0", loss=0.5, rate_bps=10**7, **{field: value})
        except SystemRefused as error:
            said[field] = str(error)
    said["untouched"] = lab.impairment("p0l0-p0s0", "p0s0") == Impairment()
    lab.impair("p0l0-p0s0", toward="p0s0", loss=0.25, rate_bps=10**7)
    lab.impair("p0l0-p0s0", toward="p0s0", queue_bytes=50_000)
    lab.impair("p0l0-p0s0", toward="p0s0", rate_bps=2 * 10**7)
    way = lab.status().links[-2].toward["p0s0"]
    said["now"] = [way.loss_percent, way.rate_bps, way.queue_bytes, way.queue_limit_bytes, way.queue_high_water_bytes]
    shown = lab.popen("p0l0", ["tc", "-j", "qdisc", "show", "dev", "p0s0"], stdout=subprocess.PIPE, text=True)
    said["tc"] = json.loads(shown.communicate()[0])
    lab.clear("p0l0-p0s0")
    said["cleared"] = lab.impairment("p0l0-p0s0", "p0s0") == Impairment()
print(json.dumps(said))
"""


def test_in_a_user_namespace_loss_and_rate_work_and_the_rest_says_what_it_needs() -> None:
    argv = ["unshare", "--user", "--map-root-user", "--net", "--mount", sys.executable, "-c", INSIDE]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    for field in ("ecn_at_bytes", "trim_at_bytes", "duplicate", "corrupt"):
        assert "needs eBPF, and so root outside any user namespace" in said[field]
    assert said["untouched"]
    assert said["now"] == [25.0, 2 * 10**7, 50_000, 50_000, None]
    (tbf,) = said["tc"]
    assert (tbf["kind"], tbf["options"]["rate"]) == ("tbf", 2 * 10**7 // 8)
    assert said["cleared"]
