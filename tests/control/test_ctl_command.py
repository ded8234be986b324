# SPDX-License-Identifier: BSD-2-Clause
"""`mrc ctl` against an endpoint in virtual time: what it prints, how it ends, what it changes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from click.testing import CliRunner, Result
from control_pair import spine_ev
from control_served import Served, serving
from patience import PATIENCE_S

from mrc.cli import main
from mrc.endpoint.paths.states import EvState

DENIED, GOOD = EvState.DENIED, EvState.GOOD


def ctl(served: Served, *argv: str | Path) -> Result:
    result = serving(served, lambda: CliRunner().invoke(main, ["ctl", *map(str, argv)]))
    assert isinstance(result, Result), result
    return result


def document(served: Served, *argv: str | Path) -> Any:
    """The one endpoint's part of the JSON document."""
    result = ctl(served, *argv, "--json")
    assert result.exit_code == 0, result.stderr
    (found,) = json.loads(result.stdout)["endpoints"]
    assert (found["program"], found["name"]) == ("a test", "h0")
    return found


def states(served: Served) -> dict[int, EvState]:
    paths = served.left.figures.paths
    assert paths is not None
    return {paths.paths[index].ev: EvState(int(paths.state[index])) for index in paths.current()}


def one_line(result: Result, code: int) -> str:
    assert result.exit_code == code
    (line,) = result.stderr.splitlines()
    return line


def test_list(served: Served) -> None:
    found = document(served, "list")
    assert found["peers"] == [{"peer": "h1", "addresses": [p.address for p in served.pair.right.ports()], "qps": 1}]
    text = ctl(served, "list").stdout
    assert "a test" in text
    assert "h1 (1 QPs)" in text


def test_ev_list(served: Served) -> None:
    rows = document(served, "ev", "list")["evs"]
    assert {(row["plane"], row["spine"], row["ev"]) for row in rows} == {
        (plane, spine, spine_ev(plane, spine)) for plane in (0, 1) for spine in range(4)
    }
    assert {row["state"] for row in rows} == {"good"}
    text = ctl(served, "ev", "list", "--peer", "h1").stdout
    assert text.count("good") == 8
    for address in (port.address for port in served.pair.right.ports()):
        assert document(served, "ev", "list", "--peer", address)["evs"] == rows
    assert "no QP leads to h5" in one_line(ctl(served, "ev", "list", "--peer", "h5"), 1)
    assert "there is no EV profile 5" in one_line(ctl(served, "ev", "list", "--profile", "5"), 1)


def test_ev_deny_and_allow(served: Served) -> None:
    result = ctl(served, "ev", "deny", "p0s1", "0x01000003", "--endpoint", "h0")
    assert (result.exit_code, result.stdout.count("denied (1 QPs)")) == (0, 2)
    assert {ev for ev, state in states(served).items() if state == DENIED} == {spine_ev(0, 1), spine_ev(1, 3)}
    results = document(served, "ev", "allow", "p0s1", "--peer", "h1")["results"]
    assert [each["errno"] for each in results] == [None]
    assert states(served)[spine_ev(0, 1)] == GOOD


def test_what_ev_deny_refuses(served: Served) -> None:
    assert "h0): EV 0x00000009: not in EV profile 0" in one_line(ctl(served, "ev", "deny", "p0s9", "p0s1"), 1)
    assert states(served)[spine_ev(0, 1)] == DENIED
    assert "'p0x1' is no EV" in one_line(ctl(served, "ev", "deny", "p0x1"), 1)
    assert "no QP leads to h9" in one_line(ctl(served, "ev", "deny", "p0s2", "--peer", "h9"), 1)
    assert ctl(served, "ev", "deny").exit_code == 2
    assert ctl(served, "ev", "deny", "p0s1", "--from", "x").exit_code == 2


def test_a_deny_list(served: Served, tmp_path: Path) -> None:
    """docs/control.md, Deny lists: entries for this endpoint, for everybody, for others; EVs in each form."""
    path = tmp_path / "deny.json"
    far = served.pair.right.ports()[0].address
    entries = [
        {"endpoint": "h0", "peer": "h1", "plane": 0, "ev": 2, "reason": "p0l0-p0s2 loses 5 %"},
        {"endpoint": served.pair.left.ports()[1].address, "peer": far, "plane": 1, "ev": "0x01000003"},
        {"plane": 0, "ev": 0},
        {"endpoint": "h1", "plane": 0, "ev": 1},
        {"peer": "h7", "plane": 0, "ev": 1},
        {"plane": 0, "ev": 77},
    ]
    path.write_text(json.dumps({"deny": entries, "made": "by hand"}))
    found = document(served, "ev", "deny", "--from", path)
    assert (found["applied"], found["not_there"], found["for_others"]) == (3, 2, 1)
    denied = {spine_ev(0, 2), spine_ev(1, 3), spine_ev(0, 0)}
    assert {ev for ev, state in states(served).items() if state == DENIED} == denied
    path.write_text(json.dumps({"deny": entries, "fabric": "another"}))
    assert document(served, "ev", "allow", "--from", path)["for_others"] == 6
    path.write_text(json.dumps({"deny": entries, "fabric": ""}))
    assert "3 EVs allowed; 2 not there, 1 for others" in ctl(served, "ev", "allow", "--from", path).stdout
    assert set(states(served).values()) == {GOOD}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "is not JSON"),
        ("[]", "an object with a list"),
        ('{"deny": [{"plane": 0, "ev": 1, "peeer": "h1"}]}', "deny[0] has no peeer"),
        ('{"deny": [{"plane": 16, "ev": 1}]}', "from 0 to 15, not 16"),
        ('{"deny": [{"plane": 0}]}', "deny[0].ev is missing: an EV, such as 0x01000002 or p1s2"),
        ('{"deny": [{"plane": 0, "ev": 1, "peer": 7}]}', "peer is text of 1 to 256 characters, not 7"),
        ('{"deny": [7]}', "deny[0] is a mapping, not 7"),
        ('{"deny": [], "fabric": 3}', "fabric is text, not 3"),
    ],
)
def test_a_deny_list_that_is_none(served: Served, tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "deny.json"
    path.write_text(text)
    line = one_line(ctl(served, "ev", "deny", "--from", path), 1)
    assert says in line
    assert str(path) in line
    assert set(states(served).values()) == {GOOD}


PROFILES = """
ev_profiles:
  0: {mode: explicit, evs: [p0s0, p0s1, p1s0, 0x01000001], min_active: 2, deny: [p0s1], event_mask: [good]}
  2:
    mode: generated
    count: 4
    fields: [{width: 8, mask: 0x01}, {width: 8}, {width: 16, mask: 3, min_val: 2}]
cc_profiles:
  1: {algorithm: uet-1.0-nscc, nscc: {line_rate_bps: 1000000000, gamma: 0.5}}
"""


def test_profiles(served: Served, tmp_path: Path) -> None:
    path = tmp_path / "profiles.yaml"
    path.write_text(PROFILES)
    loaded = document(served, "profile", "load", path)["loaded"]
    assert loaded == ["EV profile 0", "EV profile 2", "CC profile 1"]
    assert states(served) == {
        spine_ev(0, 0): GOOD, spine_ev(0, 1): DENIED, spine_ev(1, 0): GOOD, spine_ev(1, 1): GOOD
    }  # fmt: skip
    shown = document(served, "profile", "show")
    assert shown["ev_profiles"]["0"]["evs"] == ["0x00000000", "0x00000001", "0x01000000", "0x01000001"]
    assert shown["ev_profiles"]["0"]["event_mask"] == ["good"]
    assert shown["ev_profiles"]["0"]["qps"] == 1
    assert shown["cc_profiles"]["1"]["nscc"]["gamma"] == 0.5
    text = ctl(served, "profile", "show").stdout
    assert "ev 2: ONLINE, ev_mode generated" in text
    for state in ("offline", "online"):
        assert f"ev profile 2 is {state.upper()}" in ctl(served, "profile", state, "ev", "2").stdout
    assert document(served, "profile", "move", "0", "2")["qps"] == 1
    assert set(states(served)) == {spine_ev(plane, spine) for plane in (0, 1) for spine in (2, 3)}
    assert "used by 1 QPs" in one_line(ctl(served, "profile", "offline", "ev", "2"), 1)
    for state in ("offline", "online"):
        for kind, what in (("ev", "EV"), ("cc", "CC"), ("ev-format", "EV format")):
            assert f"there is no {what} profile 7" in one_line(ctl(served, "profile", state, kind, "7"), 1)
    # Once more the same file: what is ONLINE and the same stays.
    assert document(served, "profile", "load", path)["loaded"] == loaded


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("ev_profiles: [1]", "ev_profiles is a mapping"),
        ("ev_profiles: {1: {mode: explicit}}", "EV profile 1: an EXPLICIT profile needs count"),
        ("ev_profiles: {1: {mode: explicit, evs: [p0s0, p1s0], colour: red}}", "has no colour"),
        ("ev_profiles: {x: {}}", "a profile number in ev_profiles is a whole number, not 'x'"),
        ("ev_profiles: {99: {mode: auto}}", "no EV profile 99"),
        ("ev_formats: {1: {mode: udp}}", "reads SRV6 EVs, not UDP"),
        ("cc_profiles: {1: {algorithm: reno}}", "no congestion control algorithm 'reno'"),
        ("cc_profiles: {1: {algorithm: nscc, nscc: {gamma: 7}}}", "gamma must be"),
        ("evs: {}", "a profile file has"),
        ("ev_profiles: {1: ", ":1:"),
        ("- 1", "a mapping with"),
    ],
)
def test_a_profile_file_that_is_none(served: Served, tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "profiles.yaml"
    path.write_text(text)
    before = document(served, "profile", "show")
    assert says in one_line(ctl(served, "profile", "load", path), 1)
    assert document(served, "profile", "show") == before


def test_replace(served: Served, tmp_path: Path) -> None:
    assert "not the controller's to replace" in one_line(ctl(served, "ev", "replace", "p0s1", "p0s2"), 1)
    path = tmp_path / "profiles.yaml"
    path.write_text("ev_profiles: {0: {mode: explicit, evs: [p0s0, p1s0]}}")
    document(served, "profile", "load", path)
    assert "replaced (1 entries)" in ctl(served, "ev", "replace", "p0s0", "p0s3").stdout
    assert "entry 1 replaced" in ctl(served, "ev", "replace", "p1s3", "--index", "1").stdout
    assert set(states(served)) == {spine_ev(0, 3), spine_ev(1, 3)}
    assert ctl(served, "ev", "replace", "p0s0").exit_code == 2
    assert "entry 2: the array has 2 entries" in one_line(ctl(served, "ev", "replace", "p1s3", "--index", "2"), 1)
    assert "EV 0x00000001: not in the array" in one_line(ctl(served, "ev", "replace", "p0s1", "p0s2"), 1)


def test_the_profile_file_in_the_help_and_the_examples_with_it(served: Served, tmp_path: Path) -> None:
    """What `mrc ctl profile load --help` gives to begin with, and what other examples do with it."""
    said = ctl(served, "profile", "load", "--help").stdout
    _, _, file = said.partition("four-paths.yaml:\n")
    path = tmp_path / "four-paths.yaml"
    path.write_text(file.partition("\n\n")[0])
    assert "EV profile 1 ONLINE" in ctl(served, "profile", "load", path, "--endpoint", "h0").stdout
    replaces, profiles = (ctl(served, *group, "--help").stdout for group in (("ev", "replace"), ("profile",)))
    examples = [line.split()[2:] for line in (replaces + profiles).splitlines() if line.startswith("    mrc ctl ")]
    run = [words for words in examples if words[:2] != ["profile", "load"]]
    assert [words[:2] for words in run[:2]] == [["ev", "replace"]] * 2
    assert {words[1] for words in run[2:]} == {"show", "move", "offline"}
    for words in run:
        result = ctl(served, *words)
        assert result.exit_code == 0, (words, result.stderr)


def test_ports(served: Served) -> None:
    assert "port 2 on plane 1 is down" in ctl(served, "ports", "down", "1").stdout
    rows = document(served, "ports", "show")["ports"]
    assert [(row["plane"], row["admin"], row["link_up"], row["up"]) for row in rows] == [
        (0, "up", True, True),
        (1, "down", True, False),
    ]
    assert document(served, "ports", "up", "1")["port"]["admin"] == "up"
    assert "no port on plane 7" in one_line(ctl(served, "ports", "down", "7"), 1)


def test_probe(served: Served) -> None:
    served.running = True
    rows = document(served, "probe", "h1", "--count", "2")["evs"]
    assert [(row["sent"], row["answered"]) for row in rows] == [(2, 2)] * 8
    assert all(8 <= row["rtt_min_us"] <= row["rtt_median_us"] <= row["rtt_max_us"] <= 30 for row in rows)
    served.pair.fabric.cut("p0s1")
    result = ctl(served, "probe", "h1", "p0s0", "p0s1", "--count", "4")
    assert "EV 0x00000001: no answer" in one_line(result, 1)
    assert len(result.stdout.splitlines()) == 3
    assert "no QP leads to h9" in one_line(ctl(served, "probe", "h9"), 1)
    for timeout in ("0s", "61s"):
        assert ctl(served, "probe", "h1", "--timeout", timeout).exit_code == 2


def test_a_probe_that_cannot_be_sent_is_not_counted_and_says_why(served: Served) -> None:
    """On a port that is down, and on an EV that leads nowhere: those that can be sent are, and the exit status is 1."""
    served.running = True
    assert ctl(served, "ports", "down", "1").exit_code == 0
    result = ctl(served, "probe", "h1", "--count", "2")
    assert "EV 0x01000000: port 2 on plane 1 is down; and 3 more EVs" in one_line(result, 1)
    rows = [line.split()[:5] for line in result.stdout.splitlines()[1:]]
    assert rows == [
        [f"{spine_ev(plane, spine):#010x}", str(plane), str(spine), str(sent), str(sent)]
        for plane, sent in ((0, 2), (1, 0))
        for spine in range(4)
    ]
    result = ctl(served, "probe", "h1", "p0s9", "p0s1", "--count", "1", "--json")
    assert "EV 0x00000009: no paths to the peer" in one_line(result, 1)
    rows = json.loads(result.stdout)["endpoints"][0]["evs"]
    assert [(row["ev"], row["port_num"], row["sent"], row["answered"]) for row in rows] == [
        (9, None, 0, 0),
        (1, 1, 1, 1),
    ]


def test_probes_at_all_endpoints_come_from_those_that_lead_there(served: Served, directory: Path) -> None:
    second = Served(served.pair, "h1")
    served.running = True
    try:
        for host, sender in (("h1", "h0"), ("h0", "h1")):
            argv = ["ctl", "probe", host, "--endpoint", "all", "--json"]
            result = serving([served, second], lambda argv=argv: CliRunner().invoke(main, argv))
            assert result.exit_code == 0, result.stderr
            assert [each["name"] for each in json.loads(result.stdout)["endpoints"]] == [sender]
        argv = ["ctl", "probe", "h9", "--endpoint", "all"]
        line = one_line(serving([served, second], lambda: CliRunner().invoke(main, argv)), 1)
        assert "no QP leads to h9: the endpoints here are connected to h0, h1" in line
        # What one of several refuses says which one.
        argv = ["ctl", "ports", "down", "7", "--endpoint", "all"]
        line = one_line(serving([served, second], lambda: CliRunner().invoke(main, argv)), 1)
        assert re.search(r"\(a test, h[01]\): no port on plane 7", line)
    finally:
        second.close()


def test_events(served: Served) -> None:
    served.pair.fabric.clock.at(served.pair.fabric.now + 1, lambda _: None)
    served.before_turn = lambda: _deny_once(served)
    result = ctl(served, "events", "--json", "--seconds", "1")
    assert result.exit_code == 0
    (event,) = map(json.loads, result.stdout.splitlines())
    assert (event["event"], event["ev"], event["state"], event["name"]) == ("ev", spine_ev(0, 1), "denied", "h0")
    served.before_turn = lambda: None


def test_events_of_an_endpoint_that_starts_meanwhile(served: Served) -> None:
    """It is found, its events are shown, and the end is when all have ended."""
    both = [served]
    turns = 0

    def start() -> None:
        if len(both) == 1 and any(served.pair.left.endpoint.ev_events.wanted_flags):
            both.append(Served(served.pair, "h1"))
            both[1].before_turn = deny_and_end

    def deny_and_end() -> None:
        nonlocal turns
        if any(served.pair.right.endpoint.ev_events.wanted_flags):
            paths = served.right.figures.paths
            assert paths is not None
            if paths.state[1] == GOOD:
                paths.deny(spine_ev(0, 1))
            turns += 1
        if turns == 100:
            for each in both:
                each.server.close()
                each.server = cast(Any, SimpleNamespace(attend=lambda: 0, close=lambda: None))

    served.before_turn = start
    argv = ["ctl", "events", "--endpoint", "all", "--seconds", str(PATIENCE_S)]
    result = serving(both, lambda: CliRunner().invoke(main, argv))
    assert result.exit_code == 0, result
    assert "listening to" in result.stderr.splitlines()[1]
    assert "all endpoints have ended" in result.stderr
    (line,) = result.stdout.splitlines()
    assert re.search(r" h1  EV 0x00000001 \(plane 0, spine 1\) to h0: denied", line)


def _deny_once(served: Served) -> None:
    """As soon as somebody listens."""
    paths = served.left.figures.paths
    if paths is not None and any(served.pair.left.endpoint.ev_events.wanted_flags) and paths.state[1] == GOOD:
        paths.deny(spine_ev(0, 1))


def test_with_several_endpoints_one_says_which(served: Served, directory: Path) -> None:
    second = Served(served.pair, "h1")
    try:
        both = [served, second]
        result = serving(both, lambda: CliRunner().invoke(main, ["ctl", "ports", "show"]))
        line = one_line(result, 1)
        assert "several endpoints run here, say which with --endpoint" in line
        assert "h0" in line
        assert "h1" in line
        argv = ["ctl", "ports", "show", "--json", "--endpoint"]
        result = serving(both, lambda: CliRunner().invoke(main, [*argv, "h1"]))
        assert [each["name"] for each in json.loads(result.stdout)["endpoints"]] == ["h1"]
        result = serving(both, lambda: CliRunner().invoke(main, [*argv, "all"]))
        assert len(json.loads(result.stdout)["endpoints"]) == 2
        result = serving(both, lambda: CliRunner().invoke(main, [*argv, "h5"]))
        assert "no endpoint h5: there are" in one_line(result, 1)
    finally:
        second.close()


def test_with_no_endpoint_it_says_what_to_do(directory: Path) -> None:
    for argv in (["ports", "show"], ["ev", "list"], ["events"], ["probe", "h1"], ["profile", "show"]):
        result = CliRunner().invoke(main, ["ctl", *argv])
        assert "no endpoint runs here that you may control: start" in one_line(result, 1)
    assert json.loads(CliRunner().invoke(main, ["ctl", "list", "--json"]).stdout) == {
        "endpoints": [],
        "not_asked": [],
    }
