# SPDX-License-Identifier: BSD-2-Clause
"""The suite for plain RC: this project's endpoint, the kernel's own packets, the command."""

from __future__ import annotations

import ast
import json
import subprocess
from collections import Counter
from functools import cache
from pathlib import Path

import programs
import pytest
from scapy.utils import RawPcapReader

import mrc.rc.conformance.cases
from mrc.cli.conformance_suites import TRANSPORTS, suite
from mrc.conformance.case import Case
from mrc.conformance.codec import rc as codec
from mrc.conformance.codec.carriage import read_carriage
from mrc.conformance.codec.icrc import icrc
from mrc.conformance.codec.rc import RC, RC_OPCODES
from mrc.conformance.codec.transport import read_transport, write_transport
from mrc.conformance.packets import Crafted
from mrc.conformance.requirements import GROUPS, ids_in
from mrc.conformance.results import Run
from mrc.conformance.runner import run, run_case
from mrc.errors import CallerError
from mrc.rc.conformance.bench import RcBench
from mrc.rc.conformance.case import RC_OPTIONS, rc_case, rc_requirements
from mrc.rc.conformance.catalogue import RC_CONTROL, RC_REASONS, RC_TWIN, rc_catalogue, rc_missing
from mrc.rc.conformance.in_process import target
from mrc.wire.profile import WireProfile

ROOT = Path(__file__).resolve().parents[2]
SOFTROCE = ROOT / "pcaps" / "softroce-rc-ipv4-ipv6.pcap"
ETHERNET = 14


@cache
def whole_run() -> Run:
    return run(rc_catalogue(), target(), control=RC_CONTROL, twin=RC_TWIN, strict=True)


@pytest.mark.parametrize("each", rc_catalogue(), ids=lambda each: each.id)
def test_our_endpoint_passes(each: Case) -> None:
    result = next(result for result in whole_run().results if result.case is each)
    assert result.verdict == "passed", f"expected {result.expected}; {result.actual}\n" + "\n".join(
        result.log.story(30)
    )
    assert not result.unchecked


def test_the_run_is_not_void() -> None:
    assert whole_run().void == ""
    assert whole_run().transport == "RC"


def test_every_requirement_has_a_case_or_a_reason() -> None:
    assert [each.requirement.id for each in rc_missing() if not each.reason] == []
    assert {each for ids in RC_REASONS for each in ids_in(ids)} == {each.requirement.id for each in rc_missing()}


def test_requirements_are_those_of_the_document() -> None:
    """There is one copy: the package's is a link to it."""
    document = ROOT / "docs" / "contributing" / "requirements-rc.md"
    assert (ROOT / "mrc" / "rc" / "conformance" / "requirements.md").resolve() == document
    rows = [line for line in document.read_text().splitlines() if line.startswith("| RC-")]
    known = rc_requirements().values()
    assert [f"| {each.id} | {each.text} | {each.grade} | {each.level} | {each.source} |" for each in known] == rows
    assert {each.grade for each in known} == {"A", "B", "C"}
    assert {each.level for each in known} <= {"must", "should", "may"}
    assert {each.group for each in known} <= set(GROUPS)
    # What the page says of its grades.
    for each in known:
        seen = any(where in each.source for where in ("capture", "interop", "held"))
        assert each.grade == ("C" if each.source == "this project" else "A" if seen else "B"), each.id


@pytest.mark.parametrize("each", rc_catalogue(), ids=lambda each: each.id)
def test_a_case_can_be_read_without_the_code(each: Case) -> None:
    assert each.about.endswith(".")
    assert len(each.look_at) > 10
    assert set(each.setup.options) <= set(RC_OPTIONS)
    assert f'"{each.id}"' in each.source


def scripts_and_codec() -> list[Path]:
    cases = Path(mrc.rc.conformance.cases.__path__[0])
    return [*sorted(cases.rglob("*.py")), cases.parent / "bench.py", Path(codec.__file__)]


@pytest.mark.parametrize("path", scripts_and_codec(), ids=lambda path: path.name)
def test_scripts_and_codec_know_nothing_of_the_endpoint(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
        for name in names:
            mine = (
                name.startswith(("mrc.conformance.", "mrc.rc.conformance."))
                and "in_process" not in name
                and "wrong_endpoints" not in name
            )
            assert mine or name.partition(".")[0] not in ("mrc", "mutants"), name


def test_a_case_of_no_requirement_is_refused() -> None:
    for taken in ("RC-NONE-01", "MRC-SACK-04"):
        with pytest.raises(CallerError, match="no such requirement"):
            rc_case(taken, look_at="nothing")
    with pytest.raises(CallerError, match="there twice"):
        rc_case("RC-RESP-01", look_at="nothing")(lambda bench: None)


# ---------------------------------------------------------------------- against Linux


def captured() -> list[bytes]:
    """IP packets of the capture whose opcodes the tester has."""
    found = []
    for frame, _ in RawPcapReader(str(SOFTROCE)):
        packet = frame[ETHERNET:]
        carried = read_carriage(packet)
        if not isinstance(carried, str) and packet[carried.transport_at] in RC_OPCODES:
            # Ethernet pads short frames.
            length = carried.carriage.ip_length or 0
            found.append(packet[: length + (40 if packet[0] >> 4 == 6 else 0)])
    return found


def test_the_tester_reads_what_linux_sent() -> None:
    """Every write, READ request and ACK, without a fault, the ICRC included."""
    seen: Counter[int] = Counter()
    for packet in captured():
        carried = read_carriage(packet)
        assert not isinstance(carried, str)
        read = read_transport(packet[carried.transport_at :], WireProfile(), RC)
        assert read.wrong == ""
        assert read.icrc == icrc(packet[carried.inner_at : -4])
        seen[read.layers["bth"]["opcode"]] += 1
    # 6 sizes and directions of writes over each IP version, pcaps/README.md.
    assert seen == {0x06: 12, 0x07: 36, 0x08: 12, 0x0A: 20, 0x0C: 10, 0x11: 42}


def test_the_tester_writes_what_linux_sent() -> None:
    """What was read from a packet gives the same bytes again; Linux pads with zeros."""
    for packet in captured():
        carried = read_carriage(packet)
        assert not isinstance(carried, str)
        transport = packet[carried.transport_at :]
        read = read_transport(transport, WireProfile(), RC)
        layers = list(read.layers.items())
        assert write_transport(layers, read.payload, None, WireProfile()) == transport[:-4]


def test_the_testers_packets_are_rcs() -> None:
    """By hand: an Only of three bytes, a message of three packets with immediate, an ACK, a NAK."""
    found: list[bytes] = []

    def transport(packet: Crafted) -> bytes:
        frame = packet.frame()
        return frame[48:-4]

    def script(bench: RcBench) -> None:
        mtu, make = bench.mtu, bench.make
        qpn, rkey = bench.target.qpn.to_bytes(4, "big"), bench.target.rkey.to_bytes(4, "big")
        va = bench.target.region_va.to_bytes(8, "big")
        # The tester's first PSN is 1000, 0x3e8.
        only = make.request(0, b"abc", ackreq=1)
        assert transport(only) == (
            bytes.fromhex("0a10ffff") + qpn + bytes.fromhex("800003e8") + va + rkey + bytes.fromhex("00000003 61626300")
        )
        first, middle, last = make.message(1, bytes(2 * mtu + 2), immediate=0xABCD)
        length = (2 * mtu + 2).to_bytes(4, "big")
        assert transport(first) == (
            bytes.fromhex("0600ffff") + qpn + bytes.fromhex("000003e9") + va + rkey + length + bytes(mtu)
        )
        assert transport(middle) == bytes.fromhex("0700ffff") + qpn + bytes.fromhex("000003ea") + bytes(mtu)
        assert transport(last) == (bytes.fromhex("0920ffff") + qpn + bytes.fromhex("000003eb 0000abcd 0000 0000"))
        psn = (bench.target.first_psn + 5 & 0xFFFFFF).to_bytes(4, "big")
        assert transport(make.ack(5, msn=7)) == bytes.fromhex("1100ffff") + qpn + psn + bytes.fromhex("1f000007")
        assert transport(make.aeth(5, 0x2C, 7)) == bytes.fromhex("1100ffff") + qpn + psn + bytes.fromhex("2c000007")
        assert (only.traffic_class, only.carriage.dport) == (0, 4791)
        found.append(transport(only))

    case = Case("X", rc_requirements()["RC-WIRE-01"], "wire", RC_CONTROL.setup, script, "", "", RcBench)  # type: ignore[arg-type]
    result = run_case(case, target())
    assert (result.verdict, len(found)) == ("passed", 1), result.actual


def test_times_behind_rnr_codes_are_those_of_the_kernel() -> None:
    """The table of drivers/infiniband/sw/rxe/rxe_comp.c of Linux (rnrnak_usec), copied by hand: us."""
    usec = (
        *(655360, 10, 20, 30, 40, 60, 80, 120, 160, 240, 320, 480, 640, 960, 1280, 1920),
        *(2560, 3840, 5120, 7680, 10240, 15360, 20480, 30720, 40960, 61440, 81920, 122880, 163840, 245760, 327680),
        491520,
    )
    assert tuple(10 * each for each in codec.RNR_HUNDREDTHS_OF_MS) == usec


# ---------------------------------------------------------------------- the command


def mrc_conformance(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [*programs.MRC, "conformance", *arguments]
    return programs.run(command, capture_output=True, text=True, check=False, timeout=120)


def test_a_run_with_everything(tmp_path: Path) -> None:
    files = ["--junit", tmp_path / "r.xml", "--html", tmp_path / "r.html", "--pcap-dir", tmp_path / "pcaps"]
    done = mrc_conformance("run", "--transport", "rc", "--strict", "--json", "--id", "RC-RESP", *files)
    document = json.loads(done.stdout)
    assert (done.returncode, document["transport"], document["void"]) == (0, "rc", None)
    assert {each["id"].split("-")[1] for each in document["cases"]} == {"RESP"}
    assert (document["passed"], document["failed"], document["unsupported"]) == (len(document["cases"]), 0, 0)
    assert "RC conformance of self" in (tmp_path / "r.html").read_text()
    assert 'name="RC conformance of self"' in (tmp_path / "r.xml").read_text()
    assert len(list((tmp_path / "pcaps").iterdir())) == len(document["cases"])


def test_a_mutant_fails_and_the_status_is_1() -> None:
    name = "mutant:gaps_are_silent"
    done = mrc_conformance("run", "--transport", "rc", "--id", "RC-RESP-06", "--target", name)
    assert done.returncode == 1
    assert "FAILED  RC-RESP-06  must, grade A, vol1 9.7.5; interop" in done.stdout
    assert "the control case failed, as it must" in done.stdout


def test_an_endpoint_of_mrc_makes_the_run_void() -> None:
    name = "mrc.conformance.targets.in_process:target"
    done = mrc_conformance("run", "--transport", "rc", "--id", "RC-WIRE-13", "--target", name)
    assert done.returncode == 1
    assert "this run is void" in done.stdout


def test_what_is_of_the_other_transport_is_a_usage_error() -> None:
    for arguments, words in (
        (["run", "--transport", "rc", "--id", "MRC-SACK-04"], "mrc conformance list --transport rc"),
        (["run", "--id", "RC-RESP-01"], "mrc conformance list prints"),
        (["run", "--transport", "rc", "--group", "paths"], "no case is left"),
        (["run", "--transport", "tcp"], "'tcp' is not one of"),
        (["list", "--transport", "rc", "--id", "MRC"], "no case matches"),
    ):
        done = mrc_conformance(*arguments)
        assert (done.returncode, done.stdout) == (2, ""), arguments
        assert words in done.stderr, arguments


def test_list_prints_every_case() -> None:
    done = mrc_conformance("list", "--transport", "rc")
    assert [line.split()[0] for line in done.stdout.splitlines()] == [each.id for each in rc_catalogue()]
    document = json.loads(mrc_conformance("list", "--transport", "rc", "--json", "--id", "RC-IMM").stdout)
    assert all(each["script"].startswith("@rc_case(") for each in document["cases"])
    without = json.loads(mrc_conformance("list", "--transport", "rc", "--missing", "--json").stdout)
    assert without == {"missing": []}


def test_a_suite_for_each_transport() -> None:
    assert [suite(each).control.bench.table.transport.lower() for each in TRANSPORTS] == list(TRANSPORTS)
