# SPDX-License-Identifier: BSD-2-Clause
"""The server's memory of its clients: which requests of a session were executed, and whether the client is still there.

A session outlives its connections. That is what makes a request that is sent again over another plane safe: it
finds the answer, or the execution under way, of the first.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from mrc.errors import PeerError
from mrc.net.exchange.config import ExchangeConfig
from mrc.net.exchange.counters import Counters
from mrc.net.exchange.messages import Message
from mrc.threads import start_thread

_log = logging.getLogger("mrc.net.exchange")


@dataclass(slots=True, eq=False)
class SessionInfo:
    """One client, as a handler sees it; the same object for all its requests, compared by identity.

    `number` counts sessions from 1. `peer_address` is where its latest connection came from. `features` is what it
    said it can do. `data` is the handler's own, to keep what it knows of this client. `closed_because` is empty
    while the session lives, then "client" (it said goodbye), "silence" (no connection for the linger time) or
    "server" (the server was closed).
    """

    number: int
    peer_address: str
    features: frozenset[str]
    data: dict[str, Any] = field(default_factory=dict)
    closed_because: str = ""


class Execution:
    """One request being executed, and then its answer."""

    __slots__ = ("done", "reply")

    def __init__(self) -> None:
        self.done = threading.Event()
        self.reply: Message = {}

    def finish(self, reply: Message) -> None:
        self.reply = reply
        self.done.set()


class Session:
    """A client's requests by id. Its ids only grow, so one number decides which requests can still be new."""

    def __init__(self, token: bytes, info: SessionInfo, kept_answers: int) -> None:
        self.token = token
        self.info = info
        self._kept_answers = kept_answers
        self._lock = threading.Lock()
        self._executions: OrderedDict[int, Execution] = OrderedDict()
        self._newest_id = 0
        # The table's, under its lock: connections by their attempt number, and when to close without any.
        self.interrupts: dict[int, Callable[[], None]] = {}
        self.newest_attempt = 0
        self.close_at: float | None = None

    def begin(self, request_id: int) -> tuple[Execution, bool]:
        """The execution of a request, and whether it is the caller's to carry out: true once per id, ever.

        Raises PeerError for a request older than the newest one whose answer is no longer kept, or that never came:
        a path that was stuck may deliver it long after its client gave it up.
        """
        with self._lock:
            known = self._executions.get(request_id)
            if known is not None:
                return known, False
            if request_id <= self._newest_id:
                raise PeerError(f"request {request_id} comes after request {self._newest_id} and was not executed")
            self._newest_id = request_id
            execution = self._executions[request_id] = Execution()
            while len(self._executions) > self._kept_answers:
                self._executions.popitem(last=False)
            return execution, True


class SessionTable:
    """All sessions of a server, and the thread that closes those whose client is gone.

    `on_closed` is called exactly once for each session, from whichever thread ends it, holding no lock.
    """

    def __init__(
        self, config: ExchangeConfig, counters: Counters, on_closed: Callable[[SessionInfo], None] | None
    ) -> None:
        self._config = config
        self._counters = counters
        self._on_closed = on_closed
        self._changed = threading.Condition()
        self._sessions: dict[bytes, Session] = {}
        self._number = 0
        self._stopping = False
        self._reaper: threading.Thread | None = None

    def start(self) -> None:
        """Raises SystemRefused."""
        self._reaper = start_thread(self._reap, name="mrc-exchange-linger")

    def stop(self) -> None:
        """Close every session that is left."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        if self._reaper is not None and self._reaper is not threading.current_thread():
            # The reaper may be inside a callback of the application's; that is not waited for any longer.
            self._reaper.join(timeout=self._config.close_grace_s)
        for session in list(self._sessions.values()):
            self.close(session, "server")

    def attach(
        self,
        token: bytes,
        attempt: int,
        resume: bool,
        peer_address: str,
        features: frozenset[str],
        interrupt: Callable[[], None],
    ) -> Session:
        """Join a connection to its session, making the session when it is new.

        A client uses only the newest of its connections, `attempt` says which that is; older ones are interrupted,
        since their paths may be dead and would hold them for long. Raises PeerError when the session is over, when the
        attempt is an old one, or when there are too many sessions.
        """
        if attempt < 1:
            raise PeerError("attempts are counted from 1")
        with self._changed:
            session = self._sessions.get(token)
            if self._stopping:
                raise PeerError("the receiver is closing")
            if session is None:
                if resume:
                    raise PeerError(
                        "the receiver has closed this session: begin again, with the ticket that it prints now"
                    )
                if len(self._sessions) >= self._config.max_sessions:
                    raise PeerError(f"the receiver has {len(self._sessions)} senders already: try again later")
                self._number += 1
                session = Session(token, SessionInfo(self._number, peer_address, features), self._config.kept_answers)
                self._sessions[token] = session
                self._counters.count("sessions")
            if attempt <= session.newest_attempt:
                raise PeerError("a newer connection of this session is open")
            superseded = list(session.interrupts.values())
            session.newest_attempt = attempt
            session.interrupts[attempt] = interrupt
            session.close_at = None
            session.info.peer_address = peer_address
            self._counters.count("superseded_connections", len(superseded))
        for each in superseded:
            each()
        return session

    def detach(self, session: Session, attempt: int, *, ended: bool = False) -> None:
        """A connection has ended; the last one to do so starts the linger time. `ended`: the client closed it without a
        word, so its process is over. Of a connection that was detached before nothing is changed."""
        with self._changed:
            if session.interrupts.pop(attempt, None) is not None and not session.interrupts:
                lingers_s = self._config.ended_linger_s if ended else self._config.linger_s
                session.close_at = time.monotonic() + lingers_s
                self._changed.notify_all()

    def close(self, session: Session, because: str) -> None:
        with self._changed:
            interrupts = self._remove(session, because)
        if interrupts is not None:
            self._announce(session, interrupts)

    def _remove(self, session: Session, because: str) -> list[Callable[[], None]] | None:
        """Under the lock: forget the session; its connections' interrupts, or None when it was closed before."""
        if self._sessions.pop(session.token, None) is None:
            return None
        session.info.closed_because = because
        return list(session.interrupts.values())

    def _announce(self, session: Session, interrupts: list[Callable[[], None]]) -> None:
        for each in interrupts:
            each()
        if self._on_closed is None:
            return
        try:
            self._on_closed(session.info)
        except Exception:
            # It may have been called from the thread that all the other sessions depend on.
            _log.exception("the end of session %d was not handled", session.info.number)

    def _reap(self) -> None:
        while True:
            with self._changed:
                if self._stopping:
                    return
                now = time.monotonic()
                over, first = [], None
                for session in list(self._sessions.values()):
                    if session.close_at is None:
                        continue
                    if session.close_at <= now:
                        over.append((session, self._remove(session, "silence")))
                    elif first is None or session.close_at < first:
                        first = session.close_at
                if not over:
                    self._changed.wait(None if first is None else first - now)
            for session, interrupts in over:
                self._announce(session, interrupts or [])
