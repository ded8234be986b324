# SPDX-License-Identifier: BSD-2-Clause
"""The conformance suite against live endpoints: `mrc conformance serve` on h1, the tester on h0, a fabric between."""

from __future__ import annotations

import json
import signal
import xml.etree.ElementTree as ElementTree
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml
from live_run import Ended, Running, Transfers, eventually, ticket_of
from programs import MRC

from mrc.conformance.live.target import LiveTarget
from mrc.conformance.setup import Setup
from mrc.fabric import Fabric
from mrc.lab import Lab
from mrc.wire.profile import DEFAULT_WIRE_PROFILE

pytestmark = pytest.mark.root

# Each group of requirements, both roles, and each kind of thing that a tester asks of the target's own side: writes,
# receives, memory, completions, states of EVs, ports, EV probes, counters, errors, steps on the way up.
FROM_EACH_GROUP = (
    "MRC-WIRE-01/no-tseth", "MRC-WIRE-02/received", "MRC-ICRC-02", "MRC-SACK-09", "MRC-SACK-15/one-burst",
    "MRC-SACK-25", "MRC-ACK-06", "MRC-RESP-04/one-burst", "MRC-IMM-03", "MRC-NACK-02", "MRC-NACK-11", "MRC-TRIM-05",
    "MRC-MPR-02", "MRC-REQ-03", "MRC-SEND-02", "MRC-LOSS-01", "MRC-LOSS-11", "MRC-RETRY-09", "MRC-PATH-04",
    "MRC-PATH-28", "MRC-PORT-01", "MRC-ECN-03", "MRC-OP-06", "MRC-OP-10", "MRC-ERR-01/flipped-immediate",
)  # fmt: skip
# Of a target that was set up by hand nobody tells that it stood still: how soon it answers is not asked.
PATIENT = ("--slack", "20s")
RESPONDER_ONLY = ("MRC-SACK-04", "MRC-SACK-09", "MRC-ACK-03", "MRC-RESP-07", "MRC-WIRE-27", "MRC-NACK-12")


def ids(cases: tuple[str, ...]) -> list[str]:
    """Options that take these cases without their variants."""
    return [word for case in cases for word in ("--id", f"={case}")]


def serve(transfers: Transfers, *options: str) -> Running:
    """A live target that has printed its ticket."""
    running = transfers.start("h1", [*MRC, "conformance", "serve", *options])
    assert running.process.stdout is not None
    running.ticket = running.process.stdout.readline().strip()
    assert running.ticket.startswith("mrc1:"), running.process.communicate()
    return running


def start_run(transfers: Transfers, target: str | Path, *options: str | Path) -> Running:
    return transfers.start("h0", [*MRC, "conformance", "run", "--target", target, *options])


def run(transfers: Transfers, target: str | Path, *options: str | Path) -> tuple[Ended, dict[str, Any]]:
    ended = start_run(transfers, target, "--json", *options).end(timeout_s=600).no_traceback()
    return ended, ended.document


def verdicts(document: dict[str, Any]) -> dict[str, tuple[str, str | None]]:
    return {each["id"]: (each["verdict"], each["actual"]) for each in document["cases"]}


def test_our_endpoint_passes_cases_of_every_group_live(transfers: Transfers, tmp_path: Path) -> None:
    target = serve(transfers)
    junit, html, pcaps = tmp_path / "results.xml", tmp_path / "report.html", tmp_path / "pcaps"
    files = ("--junit", junit, "--html", html, "--pcap-dir", pcaps, "--strict")
    ended, document = run(transfers, target.ticket, *ids(FROM_EACH_GROUP), *files)
    assert verdicts(document) == {case: ("passed", None) for case in sorted(verdicts(document))}
    assert set(verdicts(document)) == set(FROM_EACH_GROUP)
    assert ended.code == 0, ended.err
    assert len(ElementTree.parse(junit).findall(".//testcase")) >= len(FROM_EACH_GROUP)
    assert "MRC-SACK-09" in html.read_text()
    assert len(list(pcaps.glob("*.pcap"))) == len(FROM_EACH_GROUP)
    stopped = target.stop(signal.SIGINT)
    assert (stopped.code, stopped.one_line) == (130, "interrupted")


def test_the_same_target_serves_in_udp_and_in_stev_mode(transfers: Transfers) -> None:
    target = serve(transfers)
    _, document = run(transfers, target.ticket, "--id", "MRC-WIRE-03*", "--id", "MRC-ICRC-09/udp")
    assert {case: found[0] for case, found in verdicts(document).items()} == {
        "MRC-WIRE-03": "passed",
        "MRC-WIRE-03/udp": "passed",
        "MRC-WIRE-03/stev": "passed",
        "MRC-ICRC-09/udp": "passed",
    }


def test_a_mutant_fails_live_where_it_must(transfers: Transfers) -> None:
    target = serve(transfers, "--mutant", "bitmap_base_off_by_one")
    ended, document = run(transfers, target.ticket, *ids(("MRC-SACK-04", "MRC-SACK-09")))
    found = verdicts(document)
    assert found["MRC-SACK-04"][0] == "passed"
    assert found["MRC-SACK-09"][0] == "failed"
    assert ended.code == 1


def test_qps_agreed_on_by_hand(transfers: Transfers, tmp_path: Path) -> None:
    """As the operator of a NIC would: what the tester asks for is printed, set up, filled in, and is a target."""
    file = tmp_path / "qps.yaml"
    asked = transfers.start("h0", [*MRC, "conformance", "parameters", *ids(RESPONDER_ONLY)]).end().succeeded()
    file.write_text(asked.out)
    unfinished = start_run(transfers, file, *ids(RESPONDER_ONLY)).end()
    assert unfinished.code == 1
    assert f"{file}:6:5: planes[0]: lacks target, evs, target_evs" in unfinished.err.splitlines()[0]

    target = transfers.start("h1", [*MRC, "conformance", "serve", "--qp-file", file])
    assert target.process.stderr is not None
    assert target.process.stderr.readline().startswith("16 QPs are up")
    ended, document = run(transfers, file, *PATIENT, *ids(RESPONDER_ONLY), "--id", "MRC-SEND-05")
    found = verdicts(document)
    for case in ("MRC-SEND-05", "MRC-SEND-05/hole"):
        assert found.pop(case) == ("unsupported", "the target cannot post a write")
    assert found == {case: ("passed", None) for case in sorted(RESPONDER_ONLY)}
    assert ended.code == 0, ended.err
    target.stop().interrupted()


def test_qps_agreed_on_by_hand_at_an_ip_address(transfers: Transfers, lab: Lab, tmp_path: Path) -> None:
    """The steps of docs/conformance.md: ordinary addresses, and nothing but the file between the ends."""
    ours, theirs = lab.addresses("h0")[0], lab.addresses("h1")[0]
    here, there = ("--mode", "udp", "--bind", ours), ("--mode", "udp", "--bind", theirs)
    file = tmp_path / "qps.yaml"
    cases = ids(("MRC-SACK-04", "MRC-SACK-05", "MRC-SACK-09"))
    file.write_text(transfers.start("h0", [*MRC, "conformance", "parameters", *here, *cases]).end().succeeded().out)
    asked = yaml.safe_load(file.read_text())
    assert (asked["mode"], [plane["tester"] for plane in asked["planes"]]) == ("udp", [ours])
    target = transfers.start("h1", [*MRC, "conformance", "serve", *there, "--qp-file", file])
    assert target.process.stderr is not None
    assert "QPs are up" in target.process.stderr.readline()
    answered = yaml.safe_load(file.read_text())
    assert answered["planes"][0]["target"] == theirs
    assert all("target" in qp for qp in answered["qps"])
    ended, document = run(transfers, file, *PATIENT, *here, *cases)
    assert set(verdicts(document).values()) == {("passed", None)}
    assert ended.code == 0, ended.err
    target.stop().interrupted()


def test_a_target_that_dies_ends_the_run_with_one_line(transfers: Transfers) -> None:
    target = serve(transfers)
    # The second of these listens for five seconds before it asks the target for anything.
    running = start_run(
        transfers, target.ticket, *ids(("MRC-WIRE-18", "MRC-WIRE-19", "MRC-SACK-04", "MRC-SACK-09")), "-v"
    )
    # The control case and its twin are over as well by then.
    assert running.process.stderr is not None
    assert running.process.stderr.readline().split() == ["passed", "MRC-WIRE-18"]
    target.process.kill()
    ended = running.end(timeout_s=300).no_traceback()
    assert ended.code == 1
    lines = ended.out.splitlines()
    assert lines[-1].startswith("this run is void: the target was lost in MRC-WIRE-19: ")
    assert ended.err.split() == [
        word for case in ("MRC-WIRE-19", "MRC-SACK-04", "MRC-SACK-09") for word in ("error", case)
    ]
    assert not [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    assert "3 cases ended in errors and say nothing of the target: exit status 1" in ended.out


def test_interrupting_a_run_leaves_nothing_behind(transfers: Transfers) -> None:
    target = serve(transfers)
    running = start_run(transfers, target.ticket, "--id", "MRC-WIRE-19")
    transfers.connected("h1")
    ended = running.stop(signal.SIGINT)
    assert (ended.code, ended.one_line) == (130, "interrupted: this run proves nothing")
    # The target is free for the next one at once.
    again, _ = run(transfers, target.ticket, "--id", "MRC-SACK-04")
    assert again.code == 0, again.err
    target.stop()
    eventually(lambda: not transfers.lab.processes())


def test_one_tester_at_a_time(transfers: Transfers, lab: Lab) -> None:
    """From its first case until it leaves, between cases too."""
    target = serve(transfers)

    def one_case(tester: LiveTarget) -> None:
        tester.open(Setup(), DEFAULT_WIRE_PROFILE, 1).close()

    with closing(LiveTarget(ticket_of(target), Fabric.load(lab.fabric_path("h0")))) as first:
        lab.inside("h0", lambda: one_case(first))
        second = start_run(transfers, target.ticket, "--id", "MRC-SACK-04", "--json").end()
        assert second.code == 1
        assert "another tester is at work" in json.loads(second.out)["void"]
        lab.inside("h0", lambda: one_case(first))
    after, _ = run(transfers, target.ticket, "--id", "MRC-SACK-04")
    assert after.code == 0, after.err


def test_the_ticket_of_a_receiver_of_files_is_no_target(transfers: Transfers) -> None:
    receiver = transfers.recv()
    ended = start_run(transfers, receiver.ticket, "--id", "MRC-SACK-04", "--json").end()
    assert ended.code == 1
    assert "this ticket is of no conformance target" in json.loads(ended.out)["void"]
