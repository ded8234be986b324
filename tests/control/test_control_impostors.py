# SPDX-License-Identifier: BSD-2-Clause
"""A process that is no endpoint, or one of another release, at a control socket: one clear line, never a traceback."""

from __future__ import annotations

import contextlib
import copy
import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from control_served import Served, serving
from draws import draws
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mrc.cli import main
from mrc.control.errors import ControlError
from mrc.errors import SystemRefused
from mrc.net.control.client import ControlClient, endpoints
from mrc.net.control.shapes import ANSWERS

COMMANDS = (
    ("ctl", "list"),
    ("ctl", "ev", "list"),
    ("ctl", "ev", "deny", "p0s1"),
    ("ctl", "ports", "show"),
    ("ctl", "ports", "down", "1"),
    ("ctl", "probe", "h1", "--count", "1"),
    ("ctl", "profile", "show"),
    ("ctl", "profile", "move", "0", "1"),
    ("ctl", "events", "--seconds", "50ms"),
    ("top", "--once", "--interval", "1ms"),
)
JUNK = (None, True, -1, 1.5, "x", "\ud800\x1b[2J", [], {}, [[]], {"a": 1}, 10**4000)


class Impostor:
    """Listens where an endpoint would, and answers each request as `act` has it: with a document, or with bytes."""

    def __init__(self, path: Path, act: Callable[[dict[str, Any]], Any]) -> None:
        self.act = act
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen(16)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError), connection.makefile("rb") as lines:
            for line in lines:
                told = self.act(json.loads(line))
                connection.sendall(told if isinstance(told, bytes) else json.dumps(told).encode() + b"\n")

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()


@pytest.fixture
def true_answers(served: Served) -> dict[str, Any]:
    """What an endpoint answers to every op that the commands use."""
    asked = [
        {"op": "hello"},
        {"op": "status"},
        {"op": "ports"},
        {"op": "port_set", "plane": 1, "admin": "up"},
        {"op": "profiles"},
        {"op": "profile_load", "profiles": {"ev_profiles": {"1": {"mode": "auto"}}}},
        {"op": "profile_state", "kind": "ev_profiles", "profile": 1, "state": "offline"},
        {"op": "profile_state", "kind": "ev_profiles", "profile": 1, "state": "online"},
        {"op": "profile_move", "from": 0, "to": 1},
        {"op": "evs"},
        {"op": "ev_ops", "batch": [{"do": "query", "ev": "p0s1"}]},
        {"op": "subscribe"},
    ]
    told = {each["op"]: line for each, line in zip(asked, served.ask(served.client(), *asked), strict=True)}
    served.running = True
    with ControlClient(served.server.path) as client:
        for op in ("probe", "port_status"):
            told[op] = {"ok": True, "result": serving(served, lambda op=op: client.request(op, peer="h1"))}
    assert all(each["ok"] for each in told.values())
    assert set(told) == set(ANSWERS) | {"subscribe"}
    return {op: each["result"] for op, each in told.items()}


@pytest.fixture
def impostor(true_answers: dict[str, Any], served: Served, directory: Path) -> Iterator[Impostor]:
    served.close()
    made = Impostor(directory / "1.sock", lambda request: b"")
    yield made
    made.close()


def run(argv: tuple[str, ...]) -> Result:
    result = CliRunner().invoke(main, list(argv))
    assert result.exception is None or isinstance(result.exception, SystemExit), (argv, result.exc_info)
    return result


def answering(answers: dict[str, Any]) -> Callable[[dict[str, Any]], Any]:
    return lambda request: {"id": request["id"], "ok": True, "result": answers[request["op"]]}


def test_the_answers_of_an_endpoint_are_taken(impostor: Impostor, true_answers: dict[str, Any]) -> None:
    impostor.act = answering(true_answers)
    for argv in COMMANDS:
        assert run(argv).exit_code == 0, argv


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where something is in a document."""
    yield path
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(min(len(value), 2)):
            yield from places(value[key], (*path, key))


def changed(document: Any, path: tuple[Any, ...], junk: Any) -> Any:
    if not path:
        return junk
    document = copy.deepcopy(document)
    inner = document
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = junk
    return document


@settings(max_examples=draws(20), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_member_of_another_kind_is_one_clear_line(
    impostor: Impostor, true_answers: dict[str, Any], data: st.DataObject
) -> None:
    op = data.draw(st.sampled_from(sorted(true_answers)))
    where = data.draw(st.sampled_from(list(places(true_answers[op]))))
    junk = data.draw(st.sampled_from(JUNK))
    impostor.act = answering(true_answers | {op: changed(true_answers[op], where, junk)})
    for argv in COMMANDS:
        result = run(argv)
        if result.exit_code:
            assert "Traceback" not in result.output
            # `top` says in a line of its own what it could not ask; the others have one line in all.
            assert "\x1b" not in result.output


@pytest.mark.parametrize(
    "answer",
    [
        b"\n",
        b"not json\n",
        b"\xff\n",
        b"[" * 200_000 + b"\n",
        b'{"id":1e999}\n',
        b'{"id":NaN,"ok":true,"result":{}}\n',
        b'{"id":[],"ok":true}\n',
        b'{"id":1,"ok":true,"result":' + b"1" * 5000 + b"}\n",
        b"[]\n",
        b'{"id":1}\n',
        b'{"id":1,"ok":true}\n',
        b'{"id":1,"ok":true,"result":{}}\n',
        b'{"id":1,"ok":false,"error":7}\n',
        b'{"id":1,"ok":false,"error":{"errno":[],"message":{},"needed":"x"}}\n',
        b'{"id":1,"ok":false,"error":{"errno":"errorcode","message":"\\u001b[2J"}}\n',
        b'{"event":[]}\n',
        b'{"event":"ev"}\n',
        b'{"event":"no such event"}\n',
    ],
    ids=lambda line: line[:50].decode("latin-1"),
)
def test_an_answer_of_no_endpoint(impostor: Impostor, directory: Path, answer: bytes) -> None:
    impostor.act = lambda request: answer
    with ControlClient(directory / "1.sock") as client:
        with pytest.raises((SystemRefused, ControlError)) as raised:
            client.request("hello", 5.0)
        assert "\x1b" not in str(raised.value)
    search = endpoints()
    assert search.found == []
    assert len(search.silent) == 1
    for argv in (("ctl", "list"), ("ctl", "ev", "list"), ("top", "--once", "--interval", "1ms")):
        assert "Traceback" not in run(argv).output


def test_a_malformed_event_ends_the_listening_with_a_reason(
    impostor: Impostor, true_answers: dict[str, Any], directory: Path
) -> None:
    def act(request: dict[str, Any]) -> bytes:
        answer = json.dumps(answering(true_answers)(request)).encode() + b"\n"
        return answer + b'{"event":"ev","ev":[]}\n' if request["op"] == "subscribe" else answer

    impostor.act = act
    result = run(("ctl", "events"))
    assert result.exit_code == 1
    assert "no endpoint of this release" in result.stderr


def test_top_shows_that_events_were_dropped(true_answers: dict[str, Any], impostor: Impostor) -> None:
    """An event without QP or EV, which `mrc top` took for a QP's."""

    def act(request: dict[str, Any]) -> bytes:
        answer = json.dumps(answering(true_answers)(request)).encode() + b"\n"
        return answer + b'{"event":"dropped","dropped":7}\n' if request["op"] == "subscribe" else answer

    impostor.act = act
    assert run(("top", "--once", "--interval", "1ms")).exit_code == 0
