# SPDX-License-Identifier: BSD-2-Clause
"""The client's side of a control socket, and finding the endpoints that run here."""

from __future__ import annotations

import contextlib
import errno as errnos
import ipaddress
import itertools
import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import field
from pathlib import Path
from typing import Any

from mrc.control.errors import ControlError
from mrc.errors import SystemRefused
from mrc.net.control.places import SocketDirectory, directories
from mrc.net.control.shapes import ANSWERS, EVENTS, fault_in
from mrc.opened import Closing
from mrc.records import record
from mrc.untrusted import NotJson, parse_json

TIMEOUT_S = 10.0
_HELLO_TIMEOUT_S = 3.0
_MOST_ANSWER = 1 << 26
_NOT_REACHED = {
    errnos.EAGAIN: "it is busy, or does not run just now",
    errnos.ECONNREFUSED: "the endpoint has ended without taking its socket away, as one that is killed",
}


class ControlClient(Closing):
    """A connection to one endpoint. A context manager.

    Raises SystemRefused when no process listens or answers there, ControlError for what the endpoint refuses.
    """

    def __init__(self, path: Path, timeout_s: float = TIMEOUT_S) -> None:
        self.path = path
        self._timeout_s = timeout_s
        self._numbers = itertools.count(1)
        # Of each request that waits: its op, and how many results it is to have if that is known.
        self._asked: dict[int, tuple[str, int | None]] = {}
        # Answers that came while another one was waited for.
        self._answers: dict[int, dict[str, Any]] = {}
        self._buffer = bytearray()
        self._events: list[dict[str, Any]] = []
        self.gone = False
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        self._socket.settimeout(timeout_s)
        try:
            with SocketDirectory(path.parent) as directory:
                directory.connect(self._socket, path.name)
        except SystemRefused:
            self._socket.close()
            raise
        except OSError as error:
            self._socket.close()
            why = _NOT_REACHED.get(error.errno or 0, error.strerror or error)
            raise SystemRefused(error.errno or 0, f"{path}: {why}") from None

    def fileno(self) -> int:
        return self._socket.fileno()

    def request(self, op: str, wait_s: float | None = None, /, **members: Any) -> Any:
        """Ask, and wait for the answer, at most `wait_s` seconds. Events that come meanwhile are kept for `events`."""
        deadline = time.monotonic() + (self._timeout_s if wait_s is None else wait_s)
        return self.answer(self.ask(op, **members), deadline)

    def ask(self, op: str, /, **members: Any) -> int:
        """Send a request; its number, for `answer`."""
        number = next(self._numbers)
        self._asked[number] = op, len(members["batch"]) if "batch" in members else None
        self._socket.settimeout(self._timeout_s)
        try:
            self._socket.sendall(json.dumps({"id": number, "op": op, **members}).encode() + b"\n")
        except (BrokenPipeError, ConnectionResetError):
            pass  # why is there to be read
        except OSError as error:
            raise SystemRefused(error.errno or 0, f"{self.path}: {error.strerror or error}") from None
        return number

    def answer(self, number: int, deadline: float) -> Any:
        """Wait for the answer to a request until `deadline` (time.monotonic)."""
        while True:
            answer = self._answers.pop(number, None) or self._line(deadline)
            if "event" in answer:
                self._events.append(answer)
            elif answer.get("id") not in (number, None):
                if answer["id"] in self._asked:
                    self._answers[answer["id"]] = answer
            else:
                op, count = self._asked.pop(number, ("", None))
                result = result_of(answer)
                fault = fault_in(result, ANSWERS[op], "result") if op in ANSWERS else None
                if fault is None and count is not None and len(result) != count:
                    fault = "number of results"
                if fault is not None:
                    raise self._no_endpoint(f"its answer to {op} has another {fault}")
                return result

    def events(self, timeout_s: float | None = None) -> Iterator[dict[str, Any]]:
        """Events as they come, after a `subscribe`; ends after `timeout_s` seconds, or with the endpoint."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            while self._events:
                yield self._events.pop(0)
            try:
                answer = self._line(deadline)
            except SystemRefused as error:
                if error.errno == errnos.EBADMSG:
                    raise
                return
            if "event" in answer:
                yield answer

    def arrived(self) -> list[dict[str, Any]]:
        """The events that have come, without waiting. `gone` then says whether the endpoint has ended."""
        events, self._events = self._events, []
        while True:
            try:
                answer = self._line(time.monotonic())
            except SystemRefused as error:
                if error.errno == errnos.EBADMSG:
                    raise
                self.gone = error.errno != errnos.ETIMEDOUT
                return events
            if "event" in answer:
                events.append(answer)

    def _line(self, deadline: float | None) -> dict[str, Any]:
        """The next line. Raises SystemRefused when it does not come."""
        while (at := self._buffer.find(b"\n")) < 0:
            # What is there already is taken also when the time is over.
            self._socket.settimeout(None if deadline is None else max(0.0, deadline - time.monotonic()))
            try:
                data = self._socket.recv(1 << 16)
            except (TimeoutError, BlockingIOError):
                raise SystemRefused(
                    errnos.ETIMEDOUT, f"{self.path}: the endpoint does not answer: is it stopped or busy?"
                ) from None
            except OSError as error:
                raise SystemRefused(error.errno or 0, f"{self.path}: {error.strerror or error}") from None
            if not data or len(self._buffer) > _MOST_ANSWER:
                raise SystemRefused(errnos.ECONNRESET, f"{self.path}: the endpoint has gone")
            self._buffer += data
        line = bytes(self._buffer[:at])
        del self._buffer[: at + 1]
        try:
            answer = parse_json(line, "its answer")
        except NotJson as error:
            raise self._no_endpoint(str(error)) from None
        if not isinstance(answer, dict) or not isinstance(answer.get("id"), int | None):
            raise self._no_endpoint("its answer is no object with an id")
        kind = answer.get("event")
        if kind is not None:
            fault = fault_in(answer, EVENTS[kind]) if isinstance(kind, str) and kind in EVENTS else "event"
            if fault is not None:
                raise self._no_endpoint(f"its event has another {fault}")
        return answer

    def _no_endpoint(self, why: str) -> SystemRefused:
        return SystemRefused(
            errnos.EBADMSG,
            f"{self.path}: what answers there is no endpoint of this release ({why}): use the same mrc release",
        )

    def close(self) -> None:
        self._socket.close()


def result_of(answer: dict[str, Any]) -> Any:
    """What an answer has as its result. Raises ControlError where it is a refusal."""
    if answer.get("ok"):
        return answer.get("result")
    refusal = answer.get("error")
    error = refusal if isinstance(refusal, dict) else {}
    known = {name: number for number, name in errnos.errorcode.items()}
    message, needed = _clean(str(error.get("message", "refused"))), error.get("needed")
    number = known.get(str(error.get("errno")), errnos.EIO)
    raise ControlError(number, message, needed if type(needed) is int else None)


@record(frozen=True, slots=True)
class FoundEndpoint:
    """An endpoint that runs here, and what it says of itself (`hello`)."""

    path: Path
    pid: int
    program: str
    name: str
    addresses: tuple[str, ...] = ()
    hello: dict[str, Any] = field(default_factory=dict, compare=False)

    @property
    def host(self) -> str:
        """`h0` of `mrc/h0`."""
        return self.name.rpartition("/")[2]

    def is_called(self, wanted: str) -> bool:
        """By its PID, its name with the lab's or without, or one of its addresses."""
        return wanted in (str(self.pid), self.path.stem, self.name, self.host, *self.addresses)

    def labels_of(self, peer: str) -> set[str]:
        """What rows call a peer that is meant by its name or one of its addresses; nothing when no QP leads there."""
        return {
            each["peer"]
            for each in self.hello["peers"]
            if peer == each["peer"] or _address(peer) in map(_address, each["addresses"])
        }

    def __str__(self) -> str:
        return f"{self.pid} ({self.program}, {self.name})"


def _address(text: str) -> str:
    """One way of writing for each address."""
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return text


@record(slots=True)
class Search:
    """The endpoints found, and why others could not be asked. `denied`: how many are for other users, by directory."""

    found: list[FoundEndpoint] = field(default_factory=list)
    silent: list[str] = field(default_factory=list)
    denied: dict[Path, int] = field(default_factory=dict)

    @property
    def not_asked(self) -> int:
        """How many endpoints are there and could not be asked."""
        return len(self.silent) + sum(self.denied.values())

    @property
    def reasons(self) -> list[str]:
        """Why, a line for each that did not answer, and one for all of a directory that are for other users."""
        who = "permission denied: root may ask all of them, others their own"
        return self.silent + [
            f"{count} endpoint{'s' * (count > 1)} in {place}: {who}" for place, count in self.denied.items()
        ]

    @property
    def reasons_in_short(self) -> str:
        """The first of the reasons, and how many more there are; "" where all were asked."""
        reasons = [*self.reasons[len(self.silent) :], *self.silent]
        return "" if not reasons else reasons[0] + (f", and {len(reasons) - 1} more" if len(reasons) > 1 else "")


def endpoints(wait_s: float = _HELLO_TIMEOUT_S) -> Search:
    """Every endpoint of this system that this user may control. Sockets nobody listens at are taken away.

    All together have `wait_s` seconds to answer.
    """
    search = Search()
    with ExitStack() as stack:
        asked = []
        for place in directories():
            try:
                directory = stack.enter_context(SocketDirectory(place))
            except SystemRefused as error:
                # Another user's own is for that user and root alone.
                if error.errno not in (errnos.ENOENT, errnos.EACCES):
                    search.silent.append(str(error))
                continue
            for name in directory.names():
                try:
                    asked.append(stack.enter_context(ControlClient(place / name)))
                except SystemRefused as error:
                    if error.errno == errnos.ECONNREFUSED:
                        with contextlib.suppress(OSError):
                            directory.remove(name)
                    elif error.errno == errnos.EACCES:
                        search.denied[place] = search.denied.get(place, 0) + 1
                    elif error.errno != errnos.ENOENT:
                        search.silent.append(str(error))
        numbers = [client.ask("hello") for client in asked]
        deadline = time.monotonic() + wait_s
        for client, number in zip(asked, numbers, strict=True):
            try:
                search.found.append(_found(client.path, client.answer(number, deadline)))
            except SystemRefused as error:
                search.silent.append(str(error))
            except ControlError as error:
                search.silent.append(f"{client.path}: {error.reason}")
    return search


def _found(path: Path, hello: dict[str, Any]) -> FoundEndpoint:
    program, name = _clean(hello["program"]), _clean(hello["name"])
    return FoundEndpoint(path, hello["pid"], program, name, tuple(map(_clean, hello["addresses"])), hello)


def _clean(text: str) -> str:
    """What an endpoint says of itself, harmless to a terminal."""
    return "".join(each if each.isprintable() else "?" for each in text[:200])
