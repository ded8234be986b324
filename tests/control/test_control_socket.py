# SPDX-License-Identifier: BSD-2-Clause
"""The control socket: who may use it, what it answers, and what a hostile or lazy client costs."""

from __future__ import annotations

import errno
import json
import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from control_pair import ControlPair, spine_ev
from control_served import Served, serving
from patience import eventually

from mrc.control import Controller, EvOp, EvOpKind
from mrc.control.errors import ControlError
from mrc.endpoint.paths.states import EvState
from mrc.errors import SystemRefused
from mrc.net.control.client import ControlClient, Search, endpoints
from mrc.net.control.connection import HIGH_WATER, MAX_REQUEST
from mrc.net.control.host_events import HostEvents
from mrc.net.control.server import MAX_CLIENTS, ControlServer


def test_requests_are_answered_under_their_number(served: Served) -> None:
    one, other = served.client(), served.client()
    hello, ports = served.ask(one, {"id": "a", "op": "hello"}, {"id": 7, "op": "ports"})
    assert (hello["id"], hello["ok"], hello["result"]["protocol"]) == ("a", True, 1)
    assert hello["result"]["peers"][0]["peer"] == "h1"
    assert ports["id"] == 7
    assert [port["plane"] for port in ports["result"]] == [0, 1]
    (denied,) = served.ask(
        other, {"op": "ev_ops", "batch": [{"do": "deny", "ev": "p0s1"}, {"do": "deny", "ev": "p0s9"}]}
    )
    assert [each["errno"] for each in denied["result"]] == [None, "ENOENT"]
    (evs,) = served.ask(one, {"op": "evs"})
    assert {each["ev"] for each in evs["result"] if each["state"] == "denied"} == {spine_ev(0, 1)}
    served.pair.sent()
    served.pair.write(served.left)
    assert spine_ev(0, 1) not in served.pair.sent()["h0"]


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (b"not json", "EINVAL"),
        (b"[1, 2]", "EINVAL"),
        (b"[" * 100_000, "EINVAL"),
        ({"op": "fly"}, "EINVAL"),
        ({"op": "hello", "id": [1]}, "EINVAL"),
        ({"op": "hello", "id": "a"}, None),
        ({"op": "evs", "profile": "x"}, "EINVAL"),
        ({"op": "evs", "most": 3}, "E2BIG"),
        ({"op": "ev_ops"}, "EINVAL"),
        ({"op": "ev_ops", "batch": [7]}, "EINVAL"),
        ({"op": "ev_ops", "batch": [{"do": "deny", "ev": "p99s0"}]}, "EINVAL"),
        ({"op": "ev_ops", "batch": [{"do": "deny", "ev": 1 << 40}]}, "EINVAL"),
        ({"op": "ev_ops", "profile": 4, "batch": []}, "ENOENT"),
        ({"op": "port_set", "plane": 7, "admin": "down"}, "ENOENT"),
        ({"op": "port_set", "plane": 0, "admin": "sideways"}, "EINVAL"),
        ({"op": "profile_state", "kind": "ev_profiles", "profile": 0, "state": "offline"}, "EPERM"),
        ({"op": "profile_state", "kind": "ev_profiles", "profile": 3, "state": "online"}, "EINVAL"),
        ({"op": "profile_state", "kind": "evs", "profile": 3, "state": "online"}, "EINVAL"),
        ({"op": "profile_load", "profiles": {"ev_profiles": {"1": {"mode": "magic"}}}}, "EINVAL"),
        ({"op": "profile_load", "profiles": {"cc_profiles": {"0": {"algorithm": "nscc"}}}}, "EBUSY"),
        ({"op": "profile_load", "profiles": {"cc_profiles": {"1": {"nscc": {"gamma": "x"}}}}}, "EINVAL"),
        ({"op": "probe", "peer": "h9"}, "ENOENT"),
        ({"op": "probe", "peer": 9}, "EINVAL"),
        ({"op": "probe", "peer": "h1", "timeout_s": -1}, "EINVAL"),
        ({"op": "subscribe", "states": ["sad"]}, "EINVAL"),
        ({"op": "subscribe", "limit": 1e9}, "EINVAL"),
        ({"op": "status", "most_qps": True}, "EINVAL"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_and_changes_nothing(served: Served, request_: object, code: str | None) -> None:
    """MRC-CTL-25..29, and the connection goes on. MRC-CTL-04."""
    sock = served.client()
    before = served.ask(sock, {"op": "profiles"}, {"op": "ports"}, {"op": "evs"})
    (answer,) = served.ask(sock, request_)
    assert answer["ok"] is (code is None)
    if code is not None:
        assert answer["error"]["errno"] == code
        assert answer["error"]["message"]
        assert ("needed" in answer["error"]) == (code == "E2BIG")
    assert served.ask(sock, {"op": "profiles"}, {"op": "ports"}, {"op": "evs"}) == before


def test_a_request_without_end_is_cut_off(served: Served) -> None:
    sock = served.client()
    sent = 0
    try:
        while sent <= 3 * MAX_REQUEST:
            try:
                sent += sock.send(b"x" * 65536)
            except BlockingIOError:
                served.server.attend()
    except (BrokenPipeError, ConnectionResetError):
        pass
    assert sent <= 2 * MAX_REQUEST
    (hello,) = served.ask(served.client(), {"op": "hello"})
    assert hello["ok"]


def test_who_does_not_read_is_asked_nothing_more(served: Served) -> None:
    """Answers of about 3 KiB, thousands of them asked for and none read: some 256 KiB wait, no more."""
    lazy, other = served.client(), served.client()
    asked = 0
    line = json.dumps({"op": "status"}).encode() + b"\n"
    refused = 0
    while refused < 200:
        try:
            lazy.send(line)
            asked += 1
        except BlockingIOError:
            refused += 1
        served.server.attend()
        assert asked < 20_000
    (mine,) = [client for client in served.server._clients if client.blocked]
    assert HIGH_WATER <= len(mine._out) < HIGH_WATER + 65536
    assert len(mine._in) <= 65536 + len(line)
    assert served.ask(other, {"op": "hello"})[0]["ok"]
    # Once it reads, it gets every answer.
    assert len(served.read(lazy, asked, turns=20 * asked)) == asked


def test_events_nobody_reads_are_dropped_and_counted(served: Served) -> None:
    """MRC-CTL-18, MRC-CTL-19: what is read in the end and what is said to be missing are all there were."""
    lazy = served.client()
    served.ask(lazy, {"id": 1, "op": "subscribe", "limit": 100})
    batch = [{"do": do, "ev": ev} for ev in ("p0s1", "p1s2") for do in ("deny", "allow")] * 50
    worker = served.client()
    happened = 0
    for _ in range(40):
        (answer,) = served.ask(worker, {"op": "ev_ops", "batch": batch})
        assert not any(each["errno"] for each in answer["result"])
        happened += len(batch)
    told = served.read(lazy, 10**9, turns=3000)
    kept = [each for each in told if each["event"] == "ev"]
    assert told[-1]["event"] == "dropped"
    assert len(kept) + told[-1]["dropped"] == happened == 8000
    assert len(kept) >= 100
    assert [each["state"] for each in kept[:4]] == ["denied", "good"] * 2
    # From here on nothing is missing again.
    served.ask(worker, {"op": "ev_ops", "batch": batch[:2]})
    assert [each["state"] for each in served.read(lazy, 2)] == ["denied", "good"]


def test_no_more_than_so_many_at_once(served: Served) -> None:
    """MRC-CTL-28: EBUSY; and whoever goes makes room."""
    clients = [served.client() for _ in range(MAX_CLIENTS)]
    for each in clients:
        assert served.ask(each, {"op": "hello"})[0]["ok"]
    assert served.read(served.client(), 1)[0]["error"]["errno"] == "EBUSY"
    clients[0].close()
    served.server.attend()
    assert served.ask(served.client(), {"op": "hello"})[0]["ok"]


def test_a_client_that_goes_leaves_nothing(served: Served) -> None:
    """Not its subscription, not the probes it asked for."""
    sock = served.client()
    served.ask(sock, {"op": "subscribe"})
    sock.send(json.dumps({"op": "probe", "peer": "h1"}).encode() + b"\n")
    served.server.attend()
    sock.close()
    for _ in range(3):
        served.server.attend()
    assert not any(served.pair.left.endpoint.ev_events.wanted_flags)
    served.pair.run(200_000_000)
    assert len(served.server.sources) == 1


def test_probes_answer_when_they_are_over(served: Served) -> None:
    """MRC-CTL-24: other requests are answered meanwhile."""
    sock = served.client()
    (ports,) = served.ask(sock, {"id": 1, "op": "probe", "peer": "h1"}, {"id": 2, "op": "ports"})[:1]
    assert ports["id"] == 2
    served.pair.left.call(lambda: None)
    served.pair.run(1_000_000)
    (answer,) = served.read(sock, 1)
    assert answer["id"] == 1
    assert len(answer["result"]) == 8
    assert all(8 <= each["rtt_us"] <= 30 and each["errno"] is None for each in answer["result"])


def test_operations_name_port_and_class(served: Served) -> None:
    """MRC-CTL-22, MRC-CTL-23."""
    sock = served.client()
    classes: list[int] = []
    served.pair.fabric.observers.append(
        lambda now, host, data: classes.append(data[0] << 4 & 0xF0 | data[1] >> 4) if host == "h0" else None
    )
    evs, wrong = {"evs": ["p0s1", "p1s2"], "port_nums": [1, 2]}, {"evs": ["p0s1", "p1s2"], "port_nums": [1, 1]}
    asked: list[dict[str, object]] = [
        {"id": 1, "op": "probe", "peer": "h1", "dscp": 10, **evs},
        {"id": 2, "op": "probe", "peer": "h1", "dscp": 10, **wrong},
        {"id": 3, "op": "port_status", "peer": "h1", "mask": 3, "ev": "p1s2", "port_num": 2, "dscp": 10},
        {"id": 4, "op": "port_status", "peer": "h1", "mask": 3, "ev": "p1s2", "port_num": 1, "dscp": 10},
        {"id": 5, "op": "probe", "peer": "h1", "evs": ["p0s1"], "port_nums": [1, 2]},
        {"id": 6, "op": "probe", "peer": "h1", "evs": ["p0s1"], "dscp": 64},
    ]
    told = served.ask(sock, *asked)
    served.pair.run(1_000_000)
    told += served.read(sock, 3)
    answers = {each["id"]: each for each in told}
    assert sorted(answers) == [1, 2, 3, 4, 5, 6]
    assert [each["port_num"] for each in answers[1]["result"]] == [1, 2]
    assert {each["response_port_num"] for each in answers[1]["result"]} <= {1, 2}
    assert [each["errno"] for each in answers[2]["result"]] == [None, "EINVAL"]
    assert [each["errno"] for each in answers[3]["result"] + answers[4]["result"]] == [None, "EINVAL"]
    assert answers[3]["result"][0]["response_port_num"] in (1, 2)
    assert answers[5]["error"]["errno"] == "EINVAL"
    assert answers[6]["result"][0]["errno"] == "EINVAL"
    assert classes.count(10 << 2) == 4


def test_a_client_may_hear_of_evs_alone(served: Served) -> None:
    evs, everything = served.client(), served.client()
    served.ask(evs, {"op": "subscribe", "ev_only": True})
    served.ask(everything, {"op": "subscribe"})
    served.ask(served.client(), {"op": "port_set", "plane": 1, "admin": "down"})
    served.ask(served.client(), {"op": "ev_ops", "batch": [{"do": "deny", "ev": "p0s1"}]})
    assert [each["event"] for each in served.read(everything, 2)] == ["port", "ev"]
    (event,) = served.read(evs, 1)
    assert (event["event"], event["state"], event["drop_count"]) == ("ev", "denied", 0)


def test_a_client_may_first_hear_which_evs_are_no_longer_good(served: Served) -> None:
    served.ask(served.client(), {"op": "ev_ops", "batch": [{"do": "deny", "ev": "p0s1"}]})
    late, standing, others = served.client(), served.client(), served.client()
    served.ask(late, {"op": "subscribe"})
    served.ask(others, {"op": "subscribe", "states": ["assumed_bad"], "standing": True})
    told = served.ask(standing, {"op": "subscribe", "standing": True}) + served.read(standing, 1)
    assert [(each["state"], each["ev"], each["at_ns"]) for each in told if "event" in each] == [
        ("denied", spine_ev(0, 1), served.pair.fabric.now)
    ]
    served.ask(served.client(), {"op": "ev_ops", "batch": [{"do": "allow", "ev": "p0s1"}]})
    for each in (late, standing):
        assert [event["state"] for event in served.read(each, 1)] == ["good"]
    assert served.read(others, 0) == []


def test_an_endpoint_that_is_heard_of_late_tells_what_nobody_heard(directory: Path) -> None:
    """The first of two endpoints ran before anybody listened: only what changes is told of it."""
    pair = ControlPair()
    pair.connect()
    deny = EvOp(EvOpKind.MODIFY_STATE, ev=spine_ev(0, 1), state=EvState.DENIED)
    other = EvOp(EvOpKind.MODIFY_STATE, ev=spine_ev(1, 2), state=EvState.DENIED)
    first = Served(pair)
    first.about["device"] = "a device"
    pair.controller.ev_operations(0, [deny])
    heard: list[tuple[int, str]] = []
    events = serving(first, lambda: HostEvents("a device"))
    listener = events.listen(lambda event: heard.append((event["ev"], event["peer"])))
    second = Served(pair, "h1")
    second.about["device"] = "a device"
    Controller(pair.right).ev_operations(0, [deny])

    def change() -> None:
        eventually(lambda: heard)
        assert heard == [(spine_ev(0, 1), "h0")]
        first.before_turn = lambda: heard[1:] or pair.controller.ev_operations(0, [other])
        eventually(lambda: len(heard) > 1)
        assert heard[1] == (spine_ev(1, 2), "h1")

    assert serving([first, second], change) is None
    listener.close()
    events.close()
    first.close()
    second.close()


def test_answers_that_come_in_another_order_than_requests_are_kept(served: Served) -> None:
    served.running = True
    with ControlClient(served.server.path) as client:

        def ask() -> tuple[list[object], list[object]]:
            probe, ports = client.ask("probe", peer="h1"), client.ask("ports")
            deadline = time.monotonic() + 30
            # Ports are answered first, and waited for last.
            return client.answer(probe, deadline), client.answer(ports, deadline)

        probed, ports = serving(served, ask)
    assert (len(probed), len(ports)) == (8, 2)


# ------------------------------------------------------------------ the file


def test_the_file_is_the_users_alone_and_goes_with_the_endpoint(directory: Path, served: Served) -> None:
    """MRC-CTL-33."""
    (path,) = directory.iterdir()
    assert path == served.server.path == directory / f"{os.getpid()}.sock"
    mode = path.stat().st_mode
    assert stat.S_ISSOCK(mode)
    assert stat.S_IMODE(mode) == 0o600
    second = ControlServer(lambda: None)  # type: ignore[arg-type,return-value]
    assert second.path.name == f"{os.getpid()}-2.sock"
    second.close()
    second.close()
    served.close()
    assert list(directory.iterdir()) == []


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_another_user_is_refused(directory: Path, served: Served) -> None:
    """Even one to whom the file was opened. MRC-CTL-33, MRC-CTL-29."""
    directory.chmod(0o755)
    served.server.path.chmod(0o666)
    # It may be refused before it has asked anything.
    script = (
        "import contextlib, os, socket, sys; os.setuid(65534)\n"
        "s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])\n"
        "with contextlib.suppress(BrokenPipeError):\n"
        '    s.send(b\'{"op": "hello"}\\n\')\n'
        "print(s.recv(1 << 16).decode())"
    )
    argv = [sys.executable, "-c", script, str(served.server.path)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as child:
        while child.poll() is None:
            served.server.attend()
        answer = json.loads(child.communicate()[0])
    assert (answer["ok"], answer["error"]["errno"]) == (False, "EPERM")


def test_what_a_killed_process_left_is_taken_away(directory: Path) -> None:
    script = (
        "import os, socket, sys\n"
        "s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(); os.kill(os.getpid(), 9)"
    )
    for number in (1, 2):
        subprocess.run([sys.executable, "-c", script, str(directory / f"{4_194_300 + number}.sock")], check=False)
    assert len(list(directory.iterdir())) == 2
    assert endpoints() == Search()
    assert list(directory.iterdir()) == []
    subprocess.run([sys.executable, "-c", script, str(directory / "4194301.sock")], check=False)
    server = ControlServer(lambda: None)  # type: ignore[arg-type,return-value]
    assert list(directory.iterdir()) == [server.path]
    server.close()


def test_a_directory_others_may_write_to_is_not_used(directory: Path) -> None:
    directory.chmod(0o777)
    with pytest.raises(SystemRefused, match="others may write there"):
        ControlServer(lambda: None)  # type: ignore[arg-type,return-value]
    directory.chmod(0o700)


# ------------------------------------------------------------------ the client


def test_the_client_finds_it_and_speaks_to_it(served: Served) -> None:
    search = serving(served, endpoints)
    (found,) = search.found
    assert search.silent == []
    assert found.pid == os.getpid()
    for name in (str(os.getpid()), "h0", served.pair.left.ports()[1].address):
        assert found.is_called(name)
    assert not found.is_called("h1")
    with ControlClient(found.path) as client:
        assert len(serving(served, lambda: client.request("evs"))) == 8
        error = serving(served, lambda: client.request("evs", most=3))
        assert isinstance(error, ControlError)
        assert (error.errno, error.needed) == (errno.E2BIG, 8)


def test_an_endpoint_that_stands_still_is_said_to(served: Served) -> None:
    """MRC-CTL-31."""
    with ControlClient(served.server.path, timeout_s=0.05) as client, pytest.raises(SystemRefused, match="not answer"):
        client.request("hello")
    with pytest.raises(SystemRefused, match="No such file"):
        ControlClient(served.server.path.with_name("0.sock"))
