# SPDX-License-Identifier: BSD-2-Clause
"""Senders with a valid ticket and bad intentions: nothing is written outside the directory, the others are served."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from live_run import MIB, Running, Transfers, eventually, sha256, ticket_of
from patience import PATIENCE_S

from mrc.endpoint.completions import Completion, WorkStatus
from mrc.endpoint.qp_states import QpState
from mrc.endpoint.work import WriteRequest
from mrc.errors import CallerError, PeerError
from mrc.fabric import Fabric
from mrc.lab import Lab
from mrc.net.exchange import ExchangeClient
from mrc.net.negotiation import NodeDescription, QpDescription
from mrc.net.node import Node
from mrc.net.transfer.sums import Sums
from mrc.net.transfer.terms import PART_BYTES, TRANSFER_FEATURE
from mrc.net.tuning import transfer_config

pytestmark = pytest.mark.root

NODE = {"host": 0, "ports": [{"plane": 0, "address": "fd4d:5243::1", "leaf": 0}]}
CONNECT = {"node": NODE, "qps": [{"qpn": 17, "first_psn": 0}], "mpr_dest": 8, "path_mtu": 4096}
PATH_MEMBERS = ("ev", "plane", "spine", "packets", "lost", "state", "first_use_ns", "last_use_ns")
FIRST_TEN = {"offset": 0, "length": 10}
A_SUM = "00" * 16
# Of the members of an announcement: a stream has no size, a file of 1969 a time below zero; without a length no part is
# opened.
FINE: dict[str, tuple[Any, ...]] = {"size": (None,), "mtime_ns": (-1,), "length": (None, [], {})}
MAY_LACK = ("offset", "length", "mode", "mtime_ns")
WRONG = (None, True, -1, 1.5, "1", [], {}, 1 << 70)

Requests = Callable[[str, dict[str, Any]], dict[str, Any]]


@pytest.fixture(scope="module")
def lab(slow_lab: Lab) -> Lab:
    return slow_lab


@pytest.fixture
def receiver(transfers: Transfers) -> Iterator[Running]:
    """One that serves many; after the test an honest sender is served, and nothing has ever failed inside."""
    (transfers.scratch / "x").mkdir()
    running = transfers.recv("--json")
    yield running
    honest = transfers.file("x/honest", 5000)
    transfers.send(running, [honest]).end().succeeded()
    assert transfers.received()["honest"] == sha256(honest)
    ended = running.stop()
    ended.no_traceback()
    json.dumps(ended.document, allow_nan=False)


def as_sender(lab: Lab, receiver: Running, act: Callable[[Requests], Any]) -> Any:
    """`act(request)` in a session of its own, from h0."""

    def session() -> Any:
        with ExchangeClient(ticket_of(receiver), features=(TRANSFER_FEATURE,)) as exchange:
            return act(lambda kind, body: exchange.request(kind, body, PATIENCE_S))

    return lab.inside("h0", session)


def refused(request: Requests, kind: str, body: dict[str, Any]) -> str:
    with pytest.raises(PeerError) as raised:
        request(kind, body)
    said = str(raised.value)
    assert "the receiver failed on" not in said, said
    assert "no answer" not in said, said
    return said


def everything_below(path: Path) -> set[str]:
    return {str(Path(at, name)) for at, _, names in os.walk(path) for name in names}


def test_names_that_leave_nothing_usable_are_refused(transfers: Transfers, lab: Lab, receiver: Running) -> None:
    names = ("", ".", "..", "/", "a/..", "a/.", "../..", "a\0b", "\0", "x" * 300, "é" * 200, ".x.mrc-part")

    def act(request: Requests) -> None:
        request("connect", CONNECT)
        for index, name in enumerate(names):
            refused(request, "open", {"index": index, "path": [name], "size": 0})

    as_sender(lab, receiver, act)
    assert os.listdir(transfers.directory) == []


def test_names_that_are_no_text_do_not_leave_the_client(transfers: Transfers, lab: Lab, receiver: Running) -> None:
    """Halves of surrogate pairs are no JSON for the other end; a byte of a name that is not UTF-8 is fine."""

    def act(request: Requests) -> None:
        request("connect", CONNECT)
        for index, name in enumerate(("\ud800", "a\udfffb", "\ud83d")):
            with pytest.raises(CallerError, match="half of a surrogate pair"):
                request("open", {"index": index, "path": [name], "size": 0})
        request("open", {"index": 9, "path": ["a\udcff"], "size": 0, "mode": 0o644, "mtime_ns": 0})

    as_sender(lab, receiver, act)


def test_paths_that_point_elsewhere_are_refused(transfers: Transfers, lab: Lab, receiver: Running) -> None:
    """Absolute ones, ones that go up, and ones through links that stand in the receiver's directory."""
    outside = transfers.scratch / "outside"
    outside.mkdir()
    (transfers.directory / "way out").symlink_to(outside)
    (transfers.directory / "up").symlink_to("..")
    (transfers.directory / "real").mkdir()
    before = everything_below(transfers.scratch)
    times: dict[str, Any] = {"mode": 0o755, "mtime_ns": 0}
    paths: list[list[str]] = [
        *(["..", "one"], ["/etc", "two"], ["a/../../three"], ["/"], ["real", "..", "..", "four"], ["way out", "five"]),
        *(["up", "x", "six"], ["real", "unannounced"], [".", "seven"], [""], ["real", ""]),
    ]

    def act(request: Requests) -> None:
        request("connect", CONNECT)
        for index, path in enumerate(paths):
            refused(request, "open", {"index": index, "path": path, "size": 0, **times})
            refused(request, "directory", {"path": path, **times})
        for name in ("way out", "up", "real"):
            # Without --overwrite what exists is left alone.
            assert "exists" in refused(request, "directory", {"path": [name], **times})

    as_sender(lab, receiver, act)
    assert everything_below(transfers.scratch) == before
    assert not Path("/etc/two").exists()
    for name in ("way out", "up"):
        (transfers.directory / name).unlink()
    (transfers.directory / "real").rmdir()


def test_links_are_not_followed_with_overwrite_either(transfers: Transfers, lab: Lab) -> None:
    outside = transfers.scratch / "outside"
    outside.mkdir()
    (transfers.directory / "tree").mkdir()
    (transfers.directory / "tree" / "way out").symlink_to(outside)
    (transfers.directory / "link").symlink_to(outside)
    receiver = transfers.recv("--once", "--overwrite")
    times: dict[str, Any] = {"mode": 0o700, "mtime_ns": 0}

    def act(request: Requests) -> None:
        sums = Sums.of_key(request("connect", CONNECT)["sum_key"])
        assert "no directory" in refused(request, "directory", {"path": ["link"], **times})
        request("directory", {"path": ["tree"], **times})
        said = refused(request, "directory", {"path": ["tree", "way out"], **times})
        assert "symbolic link" in said
        assert "symbolic link" in refused(request, "open", {"index": 0, "path": ["tree", "way out", "file"], "size": 0})
        # A link in a file's place is replaced, not written through.
        (transfers.directory / "tree" / "file").symlink_to(outside / "victim")
        request("open", {"index": 1, "path": ["tree", "file"], "size": 0, "mode": 0o777})
        assert request("commit", {"index": 1, "sum": sums.of_content(1, b"")})["match"] is True

    as_sender(lab, receiver, act)
    receiver.end()
    assert list(outside.iterdir()) == []
    assert (transfers.directory / "tree" / "file").read_bytes() == b""
    assert not (transfers.directory / "tree" / "file").is_symlink()


def test_a_line_break_in_a_name_makes_no_line_of_its_own(transfers: Transfers, lab: Lab) -> None:
    receiver = transfers.recv("--once")

    def act(request: Requests) -> None:
        sums = Sums.of_key(request("connect", CONNECT)["sum_key"])
        request("open", {"index": 0, "path": ["first\nsecond"], "size": 0})
        request("sum", {"index": 0})
        assert request("commit", {"index": 0, "sum": sums.of_content(0, b"")})["match"] is True
        request("finish", {"seconds": 0.1, "data_seconds": 0.1, "paths": [], "counters": {}})

    as_sender(lab, receiver, act)
    ended = receiver.end().succeeded()
    assert not any(line.startswith("second") for line in (ended.out + ended.err).splitlines())


def bodies_with_wrong_members() -> list[tuple[str, dict[str, Any]]]:
    """Every member of every request in every wrong type, one at a time."""
    valid: dict[str, dict[str, Any]] = {
        "connect": CONNECT,
        "directory": {"path": ["tree"], "mode": 0o755, "mtime_ns": 0},
        "open": {"index": 0, "path": ["file"], "size": 10, "offset": 0, "length": 10, "mode": 0o644, "mtime_ns": 0},
        "compare": {"index": 7, "sum": A_SUM},
        "blocks": {"index": 7, "first": 0, "count": 1},
        "extend": {"index": 7, "offset": 0, "length": 1, "done": 0},
        "sum": {"index": 7},
        "commit": {"index": 7, "sum": A_SUM},
    }
    bodies = []
    for kind, body in valid.items():
        for key, value in body.items():
            wrong = [each for each in WRONG if type(each) is not type(value) or (isinstance(value, int))]
            fine = FINE.get(key, ()) if kind in ("open", "directory") else ()
            bodies += [(kind, {**body, key: each}) for each in wrong if each != value and each not in fine]
            if not (kind == "open" and key in MAY_LACK):
                bodies.append((kind, {other: member for other, member in body.items() if other != key}))
    for key in ("host", "ports"):
        bodies += [("connect", {**CONNECT, "node": {**NODE, key: each}}) for each in WRONG]
    for key in ("plane", "address", "leaf"):
        port: dict[str, Any] = NODE["ports"][0]  # type: ignore[index]
        bodies += [("connect", {**CONNECT, "node": {**NODE, "ports": [{**port, key: each}]}}) for each in WRONG]
    for key in ("qpn", "first_psn"):
        bodies += [("connect", {**CONNECT, "qps": [{"qpn": 17, "first_psn": 0, key: each}]}) for each in WRONG]
    bodies += [
        ("connect", {**CONNECT, "qps": [{"qpn": 17, "first_psn": 0}] * 65}),
        ("connect", {**CONNECT, "qps": [{"qpn": 2, "first_psn": 0}]}),
        ("connect", {**CONNECT, "mpr_dest": 256}),
        ("connect", {**CONNECT, "path_mtu": 1025}),
        ("connect", {**CONNECT, "path_mtu": 4096.0}),
        ("connect", {**CONNECT, "node": {**NODE, "ports": NODE["ports"] * 17}}),  # type: ignore[operator]
        ("connect", {**CONNECT, "node": {"host": 0, "ports": [{"plane": 9, "address": "::1", "leaf": 0}]}}),
        ("connect", {}),
        ("open", {}),
        ("sum", {}),
        ("commit", {}),
        ("nonsense", {}),
        ("_abandon", {}),
    ]
    return bodies


def test_every_member_in_every_wrong_type_is_refused(transfers: Transfers, lab: Lab, receiver: Running) -> None:
    accepted: list[tuple[str, dict[str, Any]]] = []
    said: list[str] = []

    def act(request: Requests) -> None:
        # Before the session is connected nothing else may be asked.
        for kind in ("open", "extend", "sum", "commit"):
            refused(request, kind, {"index": 0, "path": ["file"], "size": 1, "sum": A_SUM})
        for kind, body in bodies_with_wrong_members():
            if kind != "connect":
                continue
            try:
                request(kind, body)
            except PeerError as error:
                said.append(str(error))
            else:
                accepted.append((kind, body))
                return
        request("connect", CONNECT)
        refused(request, "connect", CONNECT)
        for kind, body in bodies_with_wrong_members():
            if kind != "connect":
                said.append(refused(request, kind, body))
        for finish in (
            {},
            {"seconds": None, "data_seconds": 1},
            {"seconds": 1, "data_seconds": None},
            {"seconds": 1, "data_seconds": 1, "paths": 3, "counters": {}},
        ):
            refused(request, "finish", finish)

    as_sender(lab, receiver, act)
    assert accepted == []
    assert [text for text in said if "the receiver failed on" in text] == []
    assert os.listdir(transfers.directory) == []


@pytest.mark.parametrize(
    "figures",
    [
        {"seconds": "nan", "data_seconds": 1, "paths": [], "counters": {}},
        {"seconds": 1.0, "data_seconds": -1.0, "paths": [], "counters": {}},
        {"seconds": 1e308, "data_seconds": 1, "paths": [], "counters": {"retransmitted_packets": -5}},
        {
            "seconds": 1.0,
            "data_seconds": 1.0,
            "paths": [{key: [] for key in PATH_MEMBERS}],
            "counters": {},
        },
        {"seconds": 1.0, "data_seconds": 1.0, "paths": [], "counters": {"bad_icrc": 1_000_000, "no such counter": 1}},
    ],
    ids=["no number", "negative time", "negative count", "path of lists", "our own counters"],
)
def test_figures_no_sender_can_have_are_refused(lab: Lab, receiver: Running, figures: dict[str, Any]) -> None:
    def act(request: Requests) -> None:
        request("connect", CONNECT)
        refused(request, "finish", figures)

    as_sender(lab, receiver, act)


def test_huge_sizes_are_refused_and_take_no_room(transfers: Transfers, lab: Lab, receiver: Running) -> None:
    def act(request: Requests) -> None:
        request("connect", CONNECT)
        free = os.statvfs(transfers.directory).f_bavail
        for index, size in enumerate((1 << 50, (1 << 50) - 1, 1 << 46, 1 << 63, 1 << 64)):
            refused(request, "open", {"index": index, "path": [f"huge {index}"], "size": size})
        assert os.statvfs(transfers.directory).f_bavail > 0.9 * free

    as_sender(lab, receiver, act)
    assert os.listdir(transfers.directory) == []


def test_the_order_of_the_requests_is_kept(transfers: Transfers, lab: Lab, receiver: Running) -> None:
    def act(request: Requests) -> None:
        sums = Sums.of_key(request("connect", CONNECT)["sum_key"])
        request("open", {"index": 0, "path": ["file"], "size": 10, **FIRST_TEN})
        # Ten zero bytes that never came: their sum is known, and worth nothing.
        assert "have not arrived" in refused(request, "commit", {"index": 0, "sum": sums.of_content(0, bytes(10))})
        refused(request, "open", {"index": 0, "path": ["other"], "size": 10, **FIRST_TEN})
        refused(request, "open", {"index": 1, "path": ["file"], "size": 10, **FIRST_TEN})
        refused(request, "sum", {"index": 1})
        refused(request, "extend", {"index": 0, "offset": 0, "length": 10, "done": 1})
        refused(request, "extend", {"index": 1, "offset": 0, "length": 10, "done": 0})
        refused(request, "sum", {"index": 0})
        # A sum that is not that of what arrived: the file is discarded.
        request("open", {"index": 2, "path": ["empty"], "size": 0})
        assert request("commit", {"index": 2, "sum": sums.of_content(2, bytes(10))})["match"] is False
        refused(request, "commit", {"index": 2, "sum": A_SUM})

    as_sender(lab, receiver, act)
    assert os.listdir(transfers.directory) == []


def test_a_sender_that_finishes_with_files_under_way_has_failed(transfers: Transfers, lab: Lab) -> None:
    receiver = transfers.recv("--once")

    def act(request: Requests) -> None:
        request("connect", CONNECT)
        request("open", {"index": 0, "path": ["file"], "size": 10, **FIRST_TEN})
        request("finish", {"seconds": 1.0, "data_seconds": 1.0, "paths": [], "counters": {}})

    with contextlib.suppress(PeerError):
        as_sender(lab, receiver, act)
    receiver.end().failed()
    assert os.listdir(transfers.directory) == []


def test_a_failed_session_keeps_saying_why(transfers: Transfers, lab: Lab) -> None:
    receiver = transfers.recv("--idle-timeout", "300ms", "--json")

    def act(request: Requests) -> tuple[str, str]:
        request("connect", CONNECT)
        # Where this process is kept waiting, the session may have failed by now.
        with contextlib.suppress(PeerError):
            request("open", {"index": 0, "path": ["file"], "size": 10, **FIRST_TEN})

        def later() -> str:
            time.sleep(0.8)  # a request is progress: the next comes after the time that is too long without any
            return refused(request, "sum", {"index": 0})

        failed = str(eventually(lambda: "--idle-timeout" in (said := later()) and said))
        return failed, refused(request, "sum", {"index": 0})

    for said in as_sender(lab, receiver, act):
        assert "--idle-timeout" in said
    document = eventually(lambda: receiver.stop().document)
    assert document["sessions"] == 1


@pytest.mark.parametrize("attack", ["a wrong R_Key", "an address outside", "an address that wraps", "after the sum"])
def test_a_write_that_is_not_allowed_ends_its_qp_and_nothing_else(transfers: Transfers, lab: Lab, attack: str) -> None:
    receiver = transfers.recv("--json", "-v")
    file, stats = transfers.file("parallel", 4 * MIB), transfers.scratch / "stats"
    parallel = transfers.send(receiver, [file], "--json", "--stats", stats)
    transfers.when_acked(stats, 0.05, parallel)

    def act() -> tuple[list[Completion], QpState, str | None, int]:
        with (
            Node(Fabric.load(lab.fabric_path("h0"))) as node,
            ExchangeClient(ticket_of(receiver), features=(TRANSFER_FEATURE,)) as exchange,
        ):
            config = transfer_config(path_mtu=4096)
            qp = node.create_qp(config)
            answer = exchange.request(
                "connect",
                {
                    "node": node.description.to_json(),
                    "qps": [QpDescription(qp.qpn, qp.first_psn).to_json()],
                    "mpr_dest": config.mpr_dest,
                    "path_mtu": config.path_mtu,
                },
                PATIENCE_S,
            )
            peer = NodeDescription.from_json(answer["node"])
            node.connect(qp, peer, QpDescription.from_json(answer["qps"][0]))
            opened = exchange.request(
                "open", {"index": 0, "path": ["target"], "size": 65536, "offset": 0, "length": 65536}, PATIENCE_S
            )
            va, rkey = opened["va"], opened["rkey"]
            if attack == "a wrong R_Key":
                rkey ^= 1
            elif attack == "an address outside":
                va += 65536 - 4096
            elif attack == "an address that wraps":
                va = (1 << 62) - 1
            elif attack == "after the sum":
                # Whole, then closed: what comes after that is refused.
                whole = node.endpoint.memory.register(bytearray(65536))
                qp.post_write(WriteRequest(99, whole, 0, 65536, va, rkey))
                node.endpoint.wake(qp)
                node.driver.run(lambda: bool(node.endpoint.completions), 0.01)
                assert [each.wr_id for each in node.endpoint.completions] == [99]
                node.endpoint.completions.clear()
                exchange.request("sum", {"index": 0}, PATIENCE_S)
            region = node.endpoint.memory.register(bytearray(b"\xee" * 8192))
            for number in range(3):
                qp.post_write(WriteRequest(number, region, 0, 8192, va, rkey))
            node.endpoint.wake(qp)
            by = time.monotonic() + PATIENCE_S
            node.driver.run(lambda: len(node.endpoint.completions) == 3 or time.monotonic() > by, 0.01)
            return list(node.endpoint.completions), qp.state, qp.error, qp.counters.data_packets_sent

    completions, state, error, packets = lab.inside("h0", act)
    assert [each.wr_id for each in completions] == [0, 1, 2]
    # The one whose packet came first is refused, whichever plane was quicker; the others never get their turn.
    flushed, refusal = WorkStatus.FLUSHED, WorkStatus.REMOTE_ACCESS_ERROR
    assert sorted(each.status for each in completions) == sorted([flushed, flushed, refusal])
    assert state == QpState.ERROR
    assert error is not None
    assert parallel.end().succeeded().document["sums_agree"] is True
    ended = receiver.stop().no_traceback()
    # The one that was attacked is told, by QP and reason; the other session came out whole.
    assert ["the peer's request" in line for line in ended.document["errors"]] == [True], ended.document["errors"]
    # A NAK for the request that is refused, and again for those packets that come after it: of six, and what was sent
    # again where this end waited long for an answer. A whole write before them was answered otherwise.
    before = 16 if attack == "after the sum" else 0
    assert 1 <= ended.document["counters"]["naks_sent"] <= packets - before
    assert transfers.received() == {"parallel": sha256(file)}


def test_a_greedy_sender_locks_nobody_out(transfers: Transfers, lab: Lab) -> None:
    """1,000 files announced by one, at a receiver with few descriptors; and a file that would take all of its disk."""
    receiver = transfers.recv("--json", limits={resource.RLIMIT_NOFILE: 400})
    free = os.statvfs(transfers.directory).f_bavail * os.statvfs(transfers.directory).f_frsize
    honest = [transfers.file(f"honest {number}", 50_000) for number in range(8)]

    def act(request: Requests) -> None:
        request("connect", CONNECT)
        said = set()
        for index in range(1, 1000):
            try:
                request("open", {"index": index, "path": [f"greedy {index}"], "size": 10, **FIRST_TEN})
            except PeerError as error:
                said.add(str(error))
        assert len(said) == 1
        assert "commit one before another is announced" in said.pop()
        assert len(os.listdir(f"/proc/{receiver.process.pid}/fd")) < 200
        for sender in [transfers.send(receiver, [each]) for each in honest]:
            sender.end().succeeded()

    as_sender(lab, receiver, act)

    def all_of_the_disk(request: Requests) -> None:
        request("connect", CONNECT)
        size = int(free * 0.9)
        opened = request("open", {"index": 0, "path": ["all"], "size": size, "offset": 0, "length": size})
        assert opened["length"] <= PART_BYTES
        assert "have not arrived" in refused(request, "extend", {"index": 0, "offset": 0, "length": 10, "done": 1})
        left = os.statvfs(transfers.directory)
        assert left.f_bavail * left.f_frsize > 0.4 * free

    as_sender(lab, receiver, all_of_the_disk)
    assert set(transfers.received()) == {each.name for each in honest}
    receiver.stop().no_traceback()
