# SPDX-License-Identifier: BSD-2-Clause
"""Experiment files: what they come to, and what their errors say."""

from __future__ import annotations

import copy
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from click.testing import CliRunner
from experiment_texts import EVERY_KEY, FILES

from mrc.cli import main
from mrc.fabric.yaml_file import FileProblems
from mrc.sim.cluster import Action, Target
from mrc.sim.experiment import ExperimentFile
from mrc.sim.experiment.grid import cells, check

FORM = re.compile(r"bad\.yaml:([0-9]+):([0-9]+): (?:([^ ]+): )?(.+)")


def parsed(text: str) -> ExperimentFile:
    return ExperimentFile.parsed(text, "bad.yaml", FILES)


def test_every_key_comes_to_what_it_says() -> None:
    experiment = parsed(EVERY_KEY).experiment()
    setup = experiment.setup
    assert experiment.jobs == ("shifted", "incast-1", "all-to-all-2", "all-reduce-3", "python-4", "matrix-5")
    assert (setup.topology.tiers, setup.topology.cables, setup.seed) == (3, 128 + 2 * 8 * 4 + 2 * 2 * 4 * 2, 7)
    assert (setup.end_ns, setup.sample_ns) == (2_000_000, 10_000)
    assert (setup.fabric_link.ecn_low_bytes, setup.fabric_link.trim_to_bytes) == (20_000, 256)
    assert (setup.host_link.ecn_low_bytes, setup.host_link.delay_ns) == (None, 500)
    counts = np.bincount(setup.flows.job).tolist()
    assert counts == [8, 7, 30, 2 * 6 * 4 * 4, 3, 3]
    assert setup.policies.evs == 16
    assert setup.policies.qp.loss.reorder_guard_packets == 8
    assert setup.policies.qp.paths.active_count == 8


def test_jobs_with_ranks_share_no_host() -> None:
    setup = parsed(EVERY_KEY).experiment().setup
    hosts = [
        set(setup.flows.source[setup.flows.job == job]) | set(setup.flows.destination[setup.flows.job == job])
        for job in range(6)
    ]
    assert sum(map(len, hosts)) == len(set().union(*hosts))
    assert hosts[3] == {60, 61, 62, 63}
    assert {host // 8 for host in hosts[0]} == set(range(8))


def test_failures_are_in_order_of_time_and_of_what_they_name() -> None:
    setup = parsed(EVERY_KEY).experiment().setup
    failures, topology = setup.failures, setup.topology
    assert (np.diff(failures.time_ns) >= 0).all()
    rows = {tuple(row) for row in zip(*(getattr(failures, each).tolist() for each in _COLUMNS), strict=True)}
    cable = topology.leaf_cable(0, 0, 1)
    assert (10_000, Target.CABLE, cable, Action.DOWN) in rows
    assert (30_000, Target.CABLE, cable, Action.UP) in rows
    assert (10_000, Target.SWITCH, topology.spine_switch(1, 2), Action.DOWN) in rows
    assert [time for time, target, *_ in sorted(rows) if target == Target.PLANE] == [
        5_000, 10_000, 25_000, 30_000, 45_000, 50_000,
    ]  # fmt: skip
    lossy = [row for row in rows if row[3] == Action.LOSS]
    assert len(lossy) == 2  # 1 % of 128 host links, there and back
    assert {row[1] for row in lossy} == {Target.UPWARD}


_COLUMNS = ("time_ns", "target", "which", "action")


def test_the_same_seed_gives_the_same_flows_and_another_one_others() -> None:
    text = "topology: {hosts: 64}\nworkloads: [{kind: permutation, bytes: 1}]\nplacement: random\n"
    one, again, other = (parsed(text + f"seed: {seed}").experiment().setup.flows for seed in (1, 1, 2))
    assert (one.destination == again.destination).all()
    assert (one.destination != other.destination).any()


def test_a_sweep_has_a_cell_for_each_combination() -> None:
    found = cells(parsed(EVERY_KEY))
    assert len(found) == 2 * 2 * 2 * 2
    assert [cell.number for cell in found] == list(range(16))
    assert {(cell.case, cell.settings["policies.evs"], cell.seed) for cell in found} == {
        (case, evs, seed) for case in ("whole", "lossy") for evs in (8, 16) for seed in (7, 8)
    }
    last = found[-1].file.experiment().setup
    assert (last.policies.evs, last.fabric_link.loss, last.seed) == (16, 0.01, 8)
    assert len({cell.file.digest for cell in found}) == 16
    check(found)


def test_what_has_no_effect_on_results_does_not_change_the_digest() -> None:
    plain = parsed(EVERY_KEY)
    assert (
        parsed(EVERY_KEY.replace("Everything there is to say", "Nothing").replace("every-key", "other")).digest
        == plain.digest
    )
    assert parsed(EVERY_KEY.replace("bytes: 100KB", "bytes: 101KB")).digest != plain.digest
    assert ExperimentFile.parsed(EVERY_KEY, files=FILES | {"flows.py": FILES["flows.py"] + "\n"}).digest != plain.digest


def test_an_experiment_survives_its_way_to_another_host() -> None:
    file = parsed(EVERY_KEY)
    there = ExperimentFile.from_json(file.to_json())
    assert there.digest == file.digest
    assert (there.experiment().setup.flows.source == file.experiment().setup.flows.source).all()


# ------------------------------------------------------------------ files with one mistake


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all keys of a document."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        if isinstance(value, dict):
            yield (*path, key)
        yield from places(inner, (*path, key))


def at(document: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        document = document[step]
    return document


def mistakes() -> list[tuple[str, Any]]:
    """What is wrong, and the document: each has one mistake at a key drawn from a document with every key. The test
    that takes it writes its file, not each process that collects tests."""
    dice = random.Random(5)
    whole = yaml.safe_load(EVERY_KEY)
    # Its keys are the experiment's own: they may be anything.
    keys = [path for path in places(whole) if "arguments" not in path and "controller_settings" not in path]
    found: list[tuple[str, Any]] = []
    while len(found) < 180:
        document, path = copy.deepcopy(whole), dice.choice(keys)
        parent, key = at(document, path[:-1]), path[-1]
        kind = dice.choice(["misspelt", "type", "word", "nothing"])
        if kind == "misspelt":
            if path[:2] in (("sweep", "grid"), ("sweep", "cases")) and len(path) > 2:
                continue
            parent[key + "z"] = parent.pop(key)
        elif kind == "type":
            if key == "seeds":
                continue
            parent[key] = {"a": 1} if not isinstance(parent[key], dict) else [1]
        elif kind == "word":
            if key in ("name", "description", "case", "file", "ev_choice", "controller"):
                continue
            parent[key] = "soon"
        else:
            parent[key] = None
            if key in ("active_count", "max_held_packets", "case"):
                continue
        if key == "sweep" and kind == "nothing":
            continue
        found.append((f"{kind} {path}", document))
    return found


BY_HAND = [
    ("no topology", "workloads: [{kind: permutation, bytes: 1}]\n"),
    ("no workload", "topology: {hosts: 4}\nworkloads: []\n"),
    ("not yaml", "topology: {hosts: 4\nworkloads: []\n"),
    ("a tab", "topology:\n\thosts: 4\n"),
    ("said twice", "topology: {hosts: 4}\ntopology: {hosts: 8}\n"),
    ("a list", "- topology\n"),
    ("empty", ""),
    ("too many hosts on a leaf", "topology: {hosts: 4}\nworkloads: [{kind: permutation, bytes: 1}]\n"),
    ("uneven leaves", "topology: {hosts: 40}\nworkloads: [{kind: permutation, bytes: 1}]\n"),
    ("two tiers with pods", EVERY_KEY.replace("tiers: 3", "tiers: 2")),
    ("too many ranks", EVERY_KEY.replace("ranks: 8", "ranks: 63")),
    ("a host twice", EVERY_KEY.replace("[60, 61, 62, 63]", "[60, 61, 62, 60]")),
    ("no such host", EVERY_KEY.replace("[60, 61, 62, 63]", "[60, 61, 62, 64]")),
    ("no such link", EVERY_KEY.replace("p0l0-p0s1", "p0l0-p0s9")),
    ("no such plane", EVERY_KEY.replace("plane:1", "plane:2")),
    ("another leaf's host", EVERY_KEY.replace("p0l0-p0s1", "h9-p0l0")),
    ("more links than there are", EVERY_KEY.replace("p0l0-p0s1, p1s2", "999 spines")),
    ("down longer than every", EVERY_KEY.replace("down: 5us", "down: 25us")),
    ("over before it begins", EVERY_KEY.replace("until: 1ms", "until: 500ns")),
    ("thresholds", EVERY_KEY.replace("ecn_low: 20KB", "ecn_low: 90KB")),
    ("half a threshold", EVERY_KEY.replace("    ecn_low: 20KB\n", "")),
    ("trims beyond the queue", EVERY_KEY.replace("trim_at: 200KB", "trim_at: 2MB", 1)),
    ("no such controller", EVERY_KEY.replace("uet-1.0-nscc", "nscc-2")),
    ("no such setting", EVERY_KEY.replace("line_rate_bps", "line_rate")),
    ("a setting of another kind", EVERY_KEY.replace("100000000000", "fast")),
    ("no such field", EVERY_KEY.replace("path_mtu", "path_mtus")),
    ("no such size", EVERY_KEY.replace("path_mtu: 4096", "path_mtu: 4000")),
    ("a function that is not there", EVERY_KEY.replace("flows.py:make", "flows.py:made")),
    ("a file that is not there", EVERY_KEY.replace("flows.py:make", "flow.py:make")),
    ("an argument too many", EVERY_KEY.replace("size: 1000", "length: 1000")),
    ("two jobs of one name", EVERY_KEY.replace("    senders: 7", "    senders: 7\n    name: shifted")),
    ("a grid of nothing", EVERY_KEY.replace("[8, 16]", "[]")),
    ("a grid of wrong values", EVERY_KEY.replace("[8, 16]", "[8, 0]")),
    ("a grid of an unknown key", EVERY_KEY.replace("policies.evs: [8", "policies.ev: [8")),
    ("a grid of an unknown workload", EVERY_KEY.replace("workloads[1].senders", "workloads[9].senders")),
    ("a seed twice", EVERY_KEY.replace("seeds: 2", "seeds: [1, 1]")),
    ("a shift to itself", EVERY_KEY.replace("shift: 4", "shift: 8")),
    ("fewer bytes than ranks", EVERY_KEY.replace("bytes: 1MB\n    hosts", "bytes: 3\n    hosts")),
]


@pytest.mark.parametrize(
    ("what", "wrong"),
    [*BY_HAND, *mistakes()],
    ids=lambda value: value if isinstance(value, str) and "\n" not in value else "",
)
def test_a_file_with_a_mistake_gives_one_line_that_says_where(what: str, wrong: Any) -> None:
    text = wrong if isinstance(wrong, str) else yaml.safe_dump(wrong, sort_keys=False)
    with pytest.raises(FileProblems) as caught:
        check(cells(parsed(text)))
    said = str(caught.value)
    assert "\n" not in said, f"{what}: more than one line: {said}"
    match = FORM.fullmatch(said)
    assert match, said
    line = int(match[1])
    assert 1 <= line <= max(1, text.count("\n") + 1)
    assert len(match[4]) > 8
    assert "flows.py" in said or not re.search(r"[A-Z][a-z]+Error|Traceback|<class|\bNone\b", match[4]), said
    if "'kind')" in what and what.startswith("misspelt"):
        assert match[4] == "lacks kind"
    elif what.startswith("misspelt"):
        assert "z:" in text.splitlines()[line - 1]
        assert "unknown key, did you mean" in said or "unknown key, there are" in said


def test_the_command_says_the_same_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.yaml").write_text(EVERY_KEY.replace("senders: 7", "senders: many"))
    for name, text in FILES.items():
        Path(name).write_text(text)
    said = CliRunner().invoke(main, ["sim", "run", "bad.yaml", "--dry-run"], prog_name="mrc")
    assert said.exit_code == 1
    expected = "bad.yaml:36:14: workloads[1].senders: must be a whole number from 1 to 1048575, got many"
    assert said.stderr == f"Error: {expected}\n"


SMALL = "topology: {hosts: 4, hosts_per_leaf: 2}\nworkloads: [{kind: permutation, bytes: 1MB}]\n"


def test_times_sizes_and_rates_of_policies_may_have_units() -> None:
    settings = "{base_rtt: 5.35us, max_cwnd: 1MB, line_rate_bps: 400gbit, measure_line_rate: true}"
    text = (
        f"{SMALL}policies:\n  controller_settings: {settings}\n"
        "  loss_detection: {path_timer_initial_ns: 20ms}\n  qp: {sack_threshold_bytes: 64KiB}\n"
    )
    policies = parsed(text).experiment().setup.policies
    assert dict(policies.controller_settings) == {
        "base_rtt": 5350, "max_cwnd": 1_000_000, "line_rate_bps": 400_000_000_000, "measure_line_rate": True,
    }  # fmt: skip
    assert policies.qp.loss.path_timer_initial_ns == 20_000_000
    assert policies.qp.sack_threshold_bytes == 65536


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("policies: {controller_settings: {base_rtt: soon}}\n", "'soon' is not a time such as 10us, 1.5ms or 500ns"),
        ("policies: {controller_settings: {base_rtt: 5.35}}\n", "must be a time such as 5.35us, or whole nanoseconds"),
        ("policies: {controller: fixed, controller_settings: {window_packets: 4us}}\n", "must be a whole number"),
        ("sweep: {grid: {policies.evs: []}}\n", "must be a list of values such as [8, 32, 128], got an empty list"),
        ("sweep: {cases: {case: one}}\n", "must be a list of mappings such as .*, got a mapping$"),
        ("policies: {evs: [3]}\n", "must be a number of EVs, or all such as 128 or all, got a list of 1 item$"),
    ],
)
def test_an_error_says_what_was_wrong_and_not_what_was_right(text: str, says: str) -> None:
    with pytest.raises(FileProblems, match=says.replace("[8, 32, 128]", r"\[8, 32, 128\]")):
        parsed(SMALL + text).experiment()


def test_a_list_that_is_too_short_is_not_told_to_be_a_list() -> None:
    text = SMALL.replace("bytes: 1MB", "bytes: 1MB, hosts: [1]")
    with pytest.raises(FileProblems, match=r"hosts such as \[0, 16, 32\], got a list of 1 item, 2 at least$"):
        parsed(text)
