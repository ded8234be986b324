# SPDX-License-Identifier: BSD-2-Clause
"""Writes in the other direction: the server writes, the client's memory takes them."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mrc.bench.terms import MAX_DEPTH, Terms
from mrc.bench.writes import Writing
from mrc.errors import MrcError, PeerError
from mrc.net.negotiation import integer, text
from mrc.net.transfer.report import counters_of
from mrc.records import record
from mrc.threads import start_thread
from mrc.verbs import CQ, MR, PD, QP, AccessFlag, RemoteMemory

MAX_SECONDS = 1e6
MAX_WRITES = 1 << 48
_ASKED_S = 0.05


@record(frozen=True, slots=True)
class Order:
    """What the client orders: where to write, for how long or how many writes, and how many make a completion."""

    region: RemoteMemory
    seconds: float | None
    most: int | None
    cq_mod: int

    def to_json(self) -> dict[str, Any]:
        return {
            "region": self.region.to_json(),
            "seconds": self.seconds,
            "most": self.most,
            "cq_mod": self.cq_mod,
        }

    @classmethod
    def from_json(cls, document: object, terms: Terms) -> Order:
        """Raises PeerError for anything but such a document."""
        if not isinstance(document, Mapping):
            raise PeerError("the client ordered writes back in another form")
        region = RemoteMemory.from_json(document.get("region"))
        if region.length != terms.size * terms.qps:
            raise PeerError(
                f"{terms.size * terms.qps} bytes of the client's memory are needed, it gave {region.length}"
            )
        seconds = document.get("seconds")
        if seconds is not None and not (type(seconds) in (int, float) and 0 < seconds <= MAX_SECONDS):
            raise PeerError(f"the client ordered writes for {seconds!r} seconds")
        most = None if document.get("most") is None else integer(document, "most", 1, MAX_WRITES)
        if (seconds is None) == (most is None):
            raise PeerError("writes end after a time or after a number of them: the client said neither, or both")
        return cls(region, seconds, most, integer(document, "cq_mod", 1, MAX_DEPTH + 1))


class Backwards:
    """At the server: writes what a client ordered. `turn` once each turn of the loop; `report` for the client."""

    def __init__(self, pd: PD, cq: CQ, qps: Sequence[QP], terms: Terms, order: Order) -> None:
        self._content = os.urandom(terms.size * terms.qps)
        self._source: MR = pd.mr(self._content, AccessFlag(0))
        self._qps = qps
        self._writing = Writing(
            qps, cq, self._source, order.region, terms, order.cq_mod, seconds=order.seconds, most=order.most
        )
        self._cpu_s = 0.0
        self._before: dict[str, int] = {}
        self._begun = self._done = False

    def begin(self) -> None:
        """Post the first writes."""
        self._before = self._counters()
        self._cpu_s = time.process_time()
        self._begun = True
        self._writing.begin()

    def turn(self) -> None:
        """Go on. Raises PeerError when a write failed."""
        if self._begun and not self._done and self._writing.turn():
            self._cpu_s = time.process_time() - self._cpu_s
            self._done = True

    @property
    def bytes_written(self) -> int:
        """What has completed so far."""
        return self._writing.bits // 8

    def report(self) -> dict[str, Any]:
        """What was written, once it is all; `done` says whether it is."""
        if not self._done:
            return {"done": False}
        written = self._writing.written()
        now = self._counters()
        return {
            "done": True,
            "completed": list(written.completed),
            "elapsed_ns": written.elapsed_ns,
            "peak_gbps": written.peak_gbps,
            "cpu_seconds": self._cpu_s,
            "sha256": hashlib.sha256(self._content).hexdigest(),
            "retransmitted_packets": now.get("retransmitted_packets", 0) - self._before.get("retransmitted_packets", 0),
            "spurious_retransmissions": now.get("spurious_retransmissions", 0)
            - self._before.get("spurious_retransmissions", 0),
        }

    def _counters(self) -> dict[str, int]:
        from mrc.endpoint.counters import Counters

        return counters_of([qp.figures for qp in self._qps], Counters(), 0)

    def close(self) -> None:
        self._source.close()


@record(frozen=True, slots=True)
class Received:
    """What the server reported of its writes."""

    completed: tuple[int, ...]
    elapsed_ns: int
    peak_gbps: float
    cpu_seconds: float
    sha256: str
    retransmitted_packets: int
    spurious_retransmissions: int

    @classmethod
    def from_json(cls, body: Mapping[str, Any], qps: int) -> Received:
        """Raises PeerError for anything but such a report."""
        completed = body.get("completed")
        figures = (body.get("peak_gbps"), body.get("cpu_seconds"))
        if (
            not isinstance(completed, list)
            or len(completed) != qps
            or not all(type(each) is int and 0 <= each < MAX_WRITES for each in completed)
            or not all(isinstance(each, int | float) and 0 <= each < 1e9 for each in figures)
        ):
            raise PeerError("the server reports its writes in another form: use the same mrc release at both ends")
        return cls(
            tuple(completed),
            integer(body, "elapsed_ns", 1, 1 << 62),
            float(body["peak_gbps"]),
            float(body["cpu_seconds"]),
            text(body, "sha256"),
            integer(body, "retransmitted_packets", 0, 1 << 62),
            integer(body, "spurious_retransmissions", 0, 1 << 62),
        )


class Asking:
    """At the client: asks the server, in a thread of its own, until it has written all. The loop goes on meanwhile."""

    def __init__(self, ask: Callable[[], dict[str, Any]], wake: Callable[[], None]) -> None:
        self._ask = ask
        self._wake = wake
        self._over = threading.Event()
        self._answer: dict[str, Any] = {}
        self._failure: MrcError | None = None
        self._done = threading.Event()
        self._thread = start_thread(self._run, name="mrc bench")

    def _run(self) -> None:
        try:
            while not self._over.wait(_ASKED_S):
                self._answer = self._ask()
                if self._answer.get("done") is True:
                    break
        except MrcError as error:
            self._failure = error
        finally:
            self._done.set()
            self._wake()

    def is_done(self) -> bool:
        """Raises what the server refused with."""
        if self._failure is not None:
            raise self._failure
        return self._done.is_set()

    @property
    def answer(self) -> dict[str, Any]:
        return self._answer

    def close(self) -> None:
        self._over.set()
        self._thread.join()
