# SPDX-License-Identifier: BSD-2-Clause
"""The parts of a live target that need no network: what is told between the two ends, files of QPs, and time."""

from __future__ import annotations

import inspect
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from mrc.conformance import setup as setups
from mrc.conformance.bench import Bench
from mrc.conformance.case import Case
from mrc.conformance.control import TWIN
from mrc.conformance.live.by_hand import fits
from mrc.conformance.live.messages import pack, unpack
from mrc.conformance.live.outer import OuterAddresses
from mrc.conformance.live.qp_file import (
    HandPlane,
    HandQp,
    QpFile,
    QpFileError,
    qp_file_text,
    read_qp_file,
    schema,
)
from mrc.conformance.live.session import LiveQp, LiveSession
from mrc.conformance.runner import run, run_case
from mrc.conformance.setup import Plane, Setup, TargetQpTerms
from mrc.conformance.target import Frame, Session, Target, TargetCompletion, TargetLost, TargetQp, Unsupported
from mrc.conformance.targets.in_process import InProcess
from mrc.conformance.times import ms, us
from mrc.errors import PeerError
from mrc.fabric.host_view import Fabric, FabricPort
from mrc.net.negotiation import NodeDescription, PortDescription
from mrc.wire.profile import WireProfile

# ---------------------------------------------------------------------- messages

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.binary(max_size=300),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.integers() | st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_what_is_told_arrives_as_it_was(value: object) -> None:
    assert unpack(pack(value)) == value


@pytest.mark.parametrize(
    "value",
    [
        Setup(mode="udp", agreed=frozenset({"TRIM_NACK"}), options={"timeout": 12, "controller": "nscc"}),
        setups.TesterQp(0x2B0200, 1000, 8, 32, frozenset()),
        TargetQpTerms(7, 0, 1024, 0, 65536, 9, 8, 32, frozenset({"SVC_TIME"})),
        TargetCompletion(3, "RECEIVE", "SUCCESS", 40, immediate=None),
        Plane(1, "fd00::1", "fd00::2", (1, 2), (3,)),
        WireProfile(eeth_op_shift=4),
    ],
)
def test_what_the_two_ends_speak_of_arrives_as_it_was(value: object) -> None:
    assert unpack(pack(value)) == value


@pytest.mark.parametrize(
    "document",
    [
        {"Setup": {"mood": "srv6"}},
        {"Setup": 3},
        {"Popen": {"args": "true"}},
        {"bytes": "not base64"},
        {"bytes": "AAAA"},
        {"mapping": [[1]]},
        {"bytes": "", "set": []},
    ],
)
def test_anything_else_is_refused(document: object) -> None:
    with pytest.raises(PeerError, match="same mrc release"):
        unpack(document)


def test_bytes_that_inflate_without_end_are_refused() -> None:
    with pytest.raises(PeerError):
        unpack(pack(bytes((1 << 26) + 1)))


def test_everything_a_case_may_ask_is_asked_of_a_live_target_too() -> None:
    """Whoever adds a method to what targets offer finds it missing here."""
    for ours, theirs in ((LiveSession, Session), (LiveQp, TargetQp)):
        offered = {name for name, each in vars(theirs).items() if inspect.isfunction(each) and not name.startswith("_")}
        assert offered <= vars(ours).keys() | {"settle"}, offered - vars(ours).keys()


# ---------------------------------------------------------------------- the outer header


def test_outer_addresses_are_those_of_the_usid_plan() -> None:
    """From leaf 0 to host 1 on leaf 1, as wire.md section 11 has it: leaf, spine, leaf, port towards the host."""
    fabric = Fabric("f", 0, 4400, (FabricPort(0, "p0", "fd00::1", 0, 4), FabricPort(1, "p1", "fd01::1", 0, 4)))
    target = NodeDescription(1, (PortDescription(0, "fd00::2", 1), PortDescription(1, "fd01::2", 1)))
    planes = [Plane(0, "fd00::1", "fd00::2", (0, 1), (0, 1)), Plane(1, "fd01::1", "fd01::2", (1 << 24,), ())]
    outer = OuterAddresses(fabric, target, planes)
    assert outer.of(3)[1] == 0x5F000000_1000_2003_1001_4001 << 32
    assert outer.of(1 << 24 | 2)[1] == 0x5F000000_1100_2102_1101_4101 << 32
    # A packet that says plane 0 and leaves by plane 1 leads to the target all the same.
    source, destination = outer.of(0)
    packet = bytes(8) + source.to_bytes(16, "big") + destination.to_bytes(16, "big") + b"rest"
    changed = outer.for_plane(Frame(1, packet))
    assert (changed[8:24], changed[40:]) == (bytes.fromhex("fd01" + 27 * "0" + "1"), b"rest")
    assert changed[24:30].hex() == "5f0000001100"
    assert outer.for_plane(Frame(0, packet)) == packet


# ---------------------------------------------------------------------- files of QPs


TESTER = setups.TesterQp(0x2B0200, 1000, 8, 32, frozenset({"TRIM_NACK"}))
TERMS = TargetQpTerms(0x77, 5, 1024, 1 << 40, 4096, 0xAB, 4, 16, frozenset({"TRIM_NACK"}), TESTER)
FILE = QpFile(
    "qps.yaml",
    "srv6",
    1024,
    (HandPlane(Plane(0, "fd00::1", "fd00::2", (0, 1), (0, 1)), (1 << 120, 2 << 120), 3),),
    (HandQp(TESTER, TERMS, {"timestamps": 1}),),
    2,
)


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "qps.yaml"
    path.write_text(qp_file_text(FILE, ["MRC-SACK-09"]))
    assert read_qp_file(path) == replace(FILE, name=str(path))
    assert "# MRC-SACK-09" in path.read_text()


def test_the_schema_is_one_and_files_are_of_it() -> None:
    Draft202012Validator.check_schema(schema())
    assert not list(Draft202012Validator(schema()).iter_errors(yaml.safe_load(qp_file_text(FILE))))


@pytest.mark.parametrize(
    ("wrong", "right", "said"),
    [
        ("path_mtu: 1024", "path_mtu: 1000", "3:11: path_mtu: must be one of 256, 512, 1024, 2048, 4096, got 1000"),
        ("mode: srv6", "mood: srv6", "2:1: mood: unknown key, did you mean mode?"),
        ("qpn: 0x77", "qpn: 0x1000000", "17:19: qps[0].target.qpn: must be a whole number from 3 to 16777215"),
        ('target: "fd00::2"', 'target: "10.0.0.2"', "9:13: planes[0].target: must be of the same IP version"),
        ('target: "fd00::2"', 'target: "h1"', "9:13: planes[0].target: must be an IP address"),
        (", 0x00000001]\n    target_evs", "]\n    target_evs", "10:10: planes[0].evs: has 1 EVs and destinations 2"),
        ("first_psn: 0x5, ", "", "17:13: qps[0].target: lacks first_psn"),
        ("[TRIM_NACK]", "[TRIM]", "14:14: qps[0].agreed[0]: must be one of TRIM_NACK, DYNAMIC_MPR, SVC_TIME, got TRIM"),
        ("version: 1", "version: [", "not YAML"),
    ],
)
def test_errors_name_line_and_key(tmp_path: Path, wrong: str, right: str, said: str) -> None:
    text = qp_file_text(FILE)
    assert wrong in text, text
    path = tmp_path / "qps.yaml"
    path.write_text(text.replace(wrong, right))
    with pytest.raises(QpFileError) as raised:
        read_qp_file(path)
    assert said in str(raised.value), str(raised.value)


def test_a_qp_is_not_given_twice(tmp_path: Path) -> None:
    path = tmp_path / "qps.yaml"
    path.write_text(qp_file_text(replace(FILE, qps=FILE.qps * 2)))
    with pytest.raises(QpFileError, match=r"qps\[1\]\.target\.qpn: is that of qps\[0\] already"):
        read_qp_file(path)


@pytest.mark.parametrize(
    ("setup", "fitting"),
    [
        (Setup(options={"timestamps": 1}), True),
        (Setup(options={"timestamps": 1}, agreed=frozenset({"TRIM_NACK"})), True),
        (Setup(options={"timestamps": 1}, path_mtu=1024, first_psn=1000, target_first_psn=5), True),
        (Setup(), False),
        (Setup(options={"timestamps": 1}, agreed=frozenset({"SVC_TIME"})), False),
        (Setup(options={"timestamps": 1}, without=frozenset({"TRIM_NACK"})), False),
        (Setup(options={"timestamps": 1}, path_mtu=4096), False),
        (Setup(options={"timestamps": 1}, first_psn=1), False),
        (Setup(options={"timestamps": 1}, target_first_psn=6), False),
        (Setup(options={"timestamps": 1}, mpr=1), False),
    ],
)
def test_which_qp_a_case_may_have(setup: Setup, fitting: bool) -> None:
    assert fits(FILE.qps[0], setup, 1024) is fitting


# ---------------------------------------------------------------------- time, and a target that is lost


class Slow(Target):
    """Our endpoint, whose session says that it is live with a tolerance of 40 ms."""

    name = "slow"

    def __init__(self, disturbed: str = "") -> None:
        self.opened = 0
        self._disturbed = disturbed

    def open(self, setup: Setup, wire: WireProfile, seed: int) -> Session:
        session = InProcess().open(setup, wire, seed)
        self.opened += 1
        changed = type("Changed", (type(session),), {"slack_ns": ms(40), "disturbed": self._disturbed})
        session.__class__ = changed
        return session


def scripted(script: object) -> Case:
    return replace(TWIN, script=script)  # type: ignore[arg-type]


def test_lower_bounds_stay_live() -> None:
    """The tolerance is 40 ms, a packet 20 ms late is in time; one that was to wait 25 ms may come at 20, and not
    at 19."""

    def late(bench: Bench) -> None:
        bench.network.at(bench.now + ms(20), lambda: bench.send(bench.make.request(0, ackreq=1)))
        bench.expect("SACK", ack_psn=0, within=us(10))

    def waits(after: int) -> object:
        def script(bench: Bench) -> None:
            bench.network.at(bench.now + ms(20), lambda: bench.send(bench.make.request(0, ackreq=1)))
            bench.expect("SACK", ack_psn=0, after=after, within=ms(50))

        return script

    assert run_case(scripted(late), Slow()).verdict == "passed"
    assert run_case(scripted(late), InProcess()).verdict == "failed"
    assert run_case(scripted(waits(ms(25))), Slow()).verdict == "passed"
    assert run_case(scripted(waits(ms(25.1))), Slow()).verdict == "failed"


def test_who_waits_live_waits_until_what_is_under_way_has_come() -> None:
    def script(bench: Bench) -> None:
        bench.network.at(bench.now + ms(39), lambda: bench.send(bench.make.request(0, ackreq=1)))
        bench.wait(us(10))
        bench.check(len(bench.read("SACK")) == 1, "one SACK", "another number")

    assert run_case(scripted(script), Slow()).verdict == "passed"
    assert run_case(scripted(script), InProcess()).verdict == "failed"


def fails(bench: Bench) -> None:
    bench.check(False, "something", "something else")


def test_a_failed_case_is_run_again_only_when_time_was_disturbed(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("mrc.conformance.runner.time.sleep", pauses.append)
    quiet, disturbed = Slow(), Slow("the host slept")
    assert (run_case(scripted(fails), quiet).verdict, quiet.opened) == ("failed", 1)
    found = run_case(scripted(fails), disturbed)
    assert (found.verdict, found.repeated, disturbed.opened) == ("failed", "the host slept", 8)
    assert pauses == [0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    passing = Slow("the host slept")
    assert run_case(TWIN, passing).verdict == "passed"
    assert passing.opened == 1


@pytest.mark.parametrize(
    ("then", "verdict", "lost"),
    [
        (Unsupported("the file has no further QP"), "failed", ""),
        (IndexError(), "failed", ""),
        (TargetLost("it is gone"), "failed", "it is gone"),
        (None, "passed", ""),
    ],
    ids=["no QP is left", "an error", "the target is lost", "it passes"],
)
def test_a_repeat_confirms_or_withdraws_a_failure_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, then: Exception | None, verdict: str, lost: str
) -> None:
    """QPs agreed on by hand are used up: a repeat that finds none left says nothing of the target."""
    monkeypatch.setattr("mrc.conformance.runner.time.sleep", lambda pause: None)

    class FewQps(Slow):
        def open(self, setup: Setup, wire: WireProfile, seed: int) -> Session:
            if self.opened == 2 and then is not None:
                raise then
            return super().open(setup, wire, seed)

    tries: list[int] = []

    def script(bench: Bench) -> None:
        tries.append(1)
        bench.check(len(tries) > 2, "something", "something else")

    found = run_case(scripted(script), FewQps("the host slept"))
    assert (found.verdict, found.lost) == (verdict, lost)
    if verdict == "failed":
        assert (found.expected, found.actual) == ("something", "something else")
        assert found.repeated == "the host slept"


def test_a_lost_target_leaves_the_rest_untested_and_voids_the_run() -> None:
    class Dying(InProcess):
        left = 3

        def open(self, setup: Setup, wire: WireProfile, seed: int) -> Session:
            if not self.left:
                raise TargetLost("it is gone")
            self.left -= 1
            return super().open(setup, wire, seed)

    cases = [replace(TWIN, id=f"CASE-{number}") for number in range(3)]
    found = run(cases, Dying())
    assert [result.verdict for result in found.results] == ["passed", "error", "error"]
    assert [result.lost for result in found.results] == ["", "it is gone", "it is gone"]
    assert found.void == "the target was lost in CASE-1: it is gone"
    assert not found.good


def test_a_live_case_that_needs_virtual_time_is_unsupported() -> None:
    def script(bench: Bench) -> None:
        bench.needs_virtual_time("one nanosecond from another")

    found = run_case(scripted(script), Slow())
    assert (found.verdict, found.actual) == (
        "unsupported",
        "on a live network nobody can tell one nanosecond from another",
    )
    assert run_case(scripted(script), InProcess()).verdict == "passed"


@pytest.mark.parametrize(("kept", "verdict"), [(0, "failed"), (1, "passed")])
def test_what_never_came_to_the_target_need_not_be_counted(kept: int, verdict: str) -> None:
    def script(bench: Bench) -> None:
        bench.mark_counters()
        bench.network.session.never_came += kept
        bench.expect_counted(1)

    found = run_case(scripted(script), InProcess())
    assert found.verdict == verdict
    assert bool(found.unchecked) == bool(kept)
