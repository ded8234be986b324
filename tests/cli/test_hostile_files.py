# SPDX-License-Identifier: BSD-2-Clause
"""Every command that takes a file ends in one line that names it, whatever is in the file; never in a traceback."""

from __future__ import annotations

import dataclasses
import json
import random
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from hostile_documents import odd_document

from mrc.cli import main
from mrc.conformance.live.qp_file import read_qp_file
from mrc.control.deny_list import read as read_deny_list
from mrc.errors import MrcError
from mrc.map.history import History
from mrc.net.profile_file import read_profile_file
from mrc.sim.experiment.file import ExperimentFile
from mrc.wire.profile import DEFAULT_WIRE_PROFILE

DOCS = Path(__file__).parents[2] / "docs"
PCAP = DOCS.parent / "pcaps" / "mrc-tour-sender.pcap"
DRAWN = 25

PACKET = {
    "_source": {
        "layers": {
            "frame_raw": ["00" * 60, 0, 60, 0, 1],
            "frame": {"frame.len": "60", "frame.time_epoch": "1.5", "frame.encap_type": "1"},
        }
    }
}
RECORDS = [
    {"mrc_trace": 1, "title": "t", "vantage_point": "sender", "clock": {"name": "x", "realtime_offset_ns": 5}},
    {
        "time_ns": 5,
        "name": "recovery:packet_lost",
        "qpn": 7,
        "data": {"psn": 5, "ev": 1, "sent_at_ns": 0, "trigger": "nack"},
    },
    {
        "time_ns": 6,
        "name": "path:ev_state",
        "qpn": 7,
        "data": {"ev": 1, "old": "good", "new": "assumed_bad", "cause": "x"},
    },
]
EVENT = {
    "at_monotonic_ns": 5,
    "at_unix_ns": 6,
    "event": "fabric:cut",
    "target": "x",
    "links": ["p0l0-p0s0"],
    "details": {"delay_ns": 5},
}
FAULT = {
    "name": "p0l0-p0s1",
    "kind": "link",
    "plane": 0,
    "state": "lossy",
    "toward": ["x"],
    "also": [],
    "loss_percent": 2.0,
    "loss_percent_low": 1.0,
    "loss_percent_high": 3.0,
    "withdrawn": False,
    "since_unix_ns": 10**18,
    "named_unix_ns": 10**18,
    "until_unix_ns": None,
}
PICTURE = {
    "fabric": "mrc",
    "at_unix_ns": 10**18,
    "shape": "clos",
    "planes": 1,
    "leaves": 2,
    "spines": 2,
    "hosts_per_leaf": 1,
    "cables": [["a", "b"]],
    "faults": [FAULT],
    "malformed": 0,
    "suspicions": [{"names": ["a"], "since_unix_ns": 5}],
    "agents": [{"host": "h0", "silent": False, "rate_per_s": 5}],
}
DENIED = {"fabric": "x", "deny": [{"plane": 0, "ev": "0x5", "endpoint": "h0", "peer": "h1"}]}
PROFILES = {
    "ev_formats": {"1": {"mode": "srv6", "fields": [8, 8, 16]}},
    "ev_profiles": {"0": {"mode": "explicit", "evs": ["p0s0", 5], "min_active": 1}},
    "cc_profiles": {"1": {"algorithm": "fixed", "fixed": {"window_packets": 64}}},
}
_QP = {"qpn": 5, "first_psn": 1, "mpr": 8, "max_wimm": 4, "region_va": 0, "region_length": 4096, "rkey": 5}
QPS = {
    "version": 1,
    "mode": "udp",
    "path_mtu": 1024,
    "planes": [{"plane": 0, "tester": "127.0.0.1", "target": "127.0.0.2", "evs": [1, 2], "target_evs": [3]}],
    "qps": [{"agreed": [], "tester": _QP, "target": _QP | {"qpn": 9}}],
}


def runs(*arguments: str | Path) -> None:
    """Run a command in this process. Fails where it raises anything but an error that people read."""
    done = CliRunner().invoke(main, [str(each) for each in arguments], prog_name="mrc")
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise AssertionError(f"{arguments} raised") from done.exception


def trace(path: Path, records: list[Any]) -> Path:
    path.write_bytes(b"".join(b"\x1e" + json.dumps(each).encode() + b"\n" for each in records))
    return path


def export(path: Path, draw: random.Random) -> None:
    path.write_text(json.dumps(odd_document([PACKET, PACKET], draw)))
    runs("dissect", path)
    runs("analyze", path)


def traces(path: Path, draw: random.Random) -> None:
    trace(path, [odd_document(each, draw) if draw.random() < 0.4 else each for each in RECORDS])
    runs("analyze", path)
    runs("analyze", PCAP, "--trace", path)
    runs("trace", "export", path, "--out", path.with_name("out"))
    runs("trace", "export", "--qlog", path, "--out", path.with_name("out"))


def events(path: Path, draw: random.Random) -> None:
    path.write_text("\n".join(json.dumps(odd_document(EVENT, draw)) for _ in range(4)) + "\n" + json.dumps(EVENT))
    runs("analyze", PCAP, "--events", path)
    runs("trace", "export", trace(path.with_name("t"), RECORDS), "--events", path, "--out", path.with_name("out"))


def wire_profile(path: Path, draw: random.Random) -> None:
    path.write_text(json.dumps(odd_document(dataclasses.asdict(DEFAULT_WIRE_PROFILE), draw)))
    runs("dissect", "--wire-profile", path, PCAP)


def history(path: Path, draw: random.Random) -> None:
    path.unlink(missing_ok=True)
    kept = History(path)
    kept.keep(PICTURE, {})
    kept.record([FAULT | {"until_unix_ns": 10**18 + 5}])
    kept.close()
    with closing(sqlite3.connect(path)) as base, base:
        what, document = draw.choice([("picture", PICTURE), ("fault", FAULT)])
        odd: Any = json.dumps(odd_document(document, draw))
        base.execute(f"UPDATE {what} SET document = ?", (odd if draw.random() < 0.8 else draw.choice([5, b"x", 1.5]),))
    runs("map", "show", "--history", path, "--since", "99999h")
    runs("map", "show", "--history", path, "--json")
    runs("map", "show", "--history", path, "--deny-list", path.with_name("out"))


def topology(path: Path, draw: random.Random) -> None:
    source = draw.choice(sorted((DOCS / "topologies").glob("*.yaml")))
    path.write_text(yaml.safe_dump(odd_document(yaml.safe_load(source.read_text()), draw)))
    runs("lab", "export", path, "--out", path.with_name("clab"))
    runs("lab", "graph", path, "--out", path.with_name("out"))


def recipe(path: Path, draw: random.Random) -> None:
    field = draw.choice(["udp.dport", "bth.psn", "payload", "reth.va", "bth.pad", "ev", "icrc", "ipv6.src", "message"])
    value = draw.choice(["1e999", "nan", "inf", "-1", "9" * 60, "0x" + "f" * 60, "", "[", "'", "\x00", "1" * 5000])
    path.write_text(f"{draw.choice(['write-only', 'sack', 'write srv6'])} {field}={value}\n")
    runs("craft", "--from", path, "-o", path.with_name("out"))


@contextmanager
def named(path: Path) -> Iterator[None]:
    """What is raised inside, if anything, is an error that names the file."""
    try:
        yield
    except MrcError as error:
        if str(path) not in str(error):
            raise AssertionError(f"{error} does not name the file") from error


def read_by(read: Callable[[Path], object], document: Any) -> Callable[[Path, random.Random], None]:
    """For commands that go on to send: the reader alone."""

    def once(path: Path, draw: random.Random) -> None:
        path.write_text(yaml.safe_dump(odd_document(document, draw)))
        with named(path):
            read(path)

    return once


def deny_list(path: Path, draw: random.Random) -> None:
    path.write_text(json.dumps(odd_document(DENIED, draw)))
    with named(path):
        read_deny_list(path).of("mrc/h0", ["::1"])


def experiment(path: Path, draw: random.Random) -> None:
    source = draw.choice(sorted((DOCS / "studies").glob("*.yaml")))
    path.write_text(yaml.safe_dump(odd_document(yaml.safe_load(source.read_text()), draw)))
    with named(path):
        ExperimentFile.read(path).experiment()


KINDS: dict[str, Callable[[Path, random.Random], None]] = {
    "export": export,
    "traces": traces,
    "events": events,
    "wire profile": wire_profile,
    "history": history,
    "topology": topology,
    "recipe": recipe,
    "deny list": deny_list,
    "experiment": experiment,
    "qp file": read_by(read_qp_file, QPS),
    "profiles": read_by(read_profile_file, PROFILES),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_with_one_odd_value(tmp_path: Path, kind: str) -> None:
    """Exports, traces, event logs, histories of the map, YAML of all kinds: `DRAWN` of each, the same each time."""
    draw = random.Random(kind)
    for _ in range(DRAWN):
        KINDS[kind](tmp_path / "odd", draw)


def test_a_megabyte_of_nesting_in_each_file(tmp_path: Path) -> None:
    path = tmp_path / "deep"
    for content in (b"[" * 1_000_000, b'{"a":' * 200_000):
        path.write_bytes(content)
        runs("dissect", path)
        runs("dissect", "--wire-profile", path, PCAP)
        runs("analyze", path)
        runs("analyze", PCAP, "--events", path)
        runs("map", "show", "--history", path)
        path.write_bytes(b'\x1e{"mrc_trace":' + content)
        runs("analyze", path)
        path.write_bytes(content[:500_000])
        runs("lab", "graph", path, "--out", tmp_path / "out")
        runs("sim", "run", path)
