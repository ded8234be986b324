# SPDX-License-Identifier: BSD-2-Clause
"""Ping-pong of small writes: each end watches its memory for the other's number and answers with a write of its own.

As perftest's ib_write_lat: the clock is read at every ping, and half of the time from one to the next is the latency
of a write.
"""

from __future__ import annotations

import mmap
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from mrc.bench.terms import Terms
from mrc.errors import PeerError
from mrc.verbs import CQ, MR, PD, QP, AccessFlag, RemoteMemory, SendFlag, SendWR, WCStatus

# Writes on their way at most; a place is used again when its write was acknowledged, so that a retransmission never
# carries a later number.
PLACES = 128
LONGEST_SILENCE_NS = 10_000_000_000
_COUNTER_BYTES = 2
_COUNTER_MODULUS = 1 << 16


class Pinger:
    """One end: writes numbers to the other's memory, and sees when the other's have come to its own."""

    def __init__(
        self, pd: PD, cq: CQ, qp: QP, memory: mmap.mmap | bytearray, theirs: RemoteMemory, terms: Terms
    ) -> None:
        self._cq = cq
        self._qp = qp
        self._memory = memory
        self._memory[:] = bytes(len(memory))
        self._at = terms.size - _COUNTER_BYTES
        self._size = terms.size
        self._source = bytearray(PLACES * terms.size)
        region: MR = pd.mr(self._source, AccessFlag(0))
        self._requests = [
            SendWR(
                place,
                sge=region.sge(place * terms.size, terms.size),
                remote_addr=theirs.addr,
                rkey=theirs.rkey,
                send_flags=SendFlag.SIGNALED,
            )
            for place in range(PLACES)
        ]
        self._outstanding = 0
        self._sent = 0

    def arrived(self, number: int) -> bool:
        """Whether the other's write of this number is here."""
        value = number % _COUNTER_MODULUS
        at, memory = self._at, self._memory
        return memory[at] == value & 0xFF and memory[at + 1] == value >> 8

    def take_completions(self) -> None:
        """Raises PeerError when a write failed."""
        for completion in self._cq.poll(PLACES):
            if completion.status != WCStatus.SUCCESS:
                raise PeerError(f"a write failed: {self._qp.explain(completion.status)}")
            self._outstanding -= 1

    @property
    def has_room(self) -> bool:
        """Whether another write may be posted, as far as completions were taken."""
        return self._outstanding < PLACES

    @property
    def is_quiet(self) -> bool:
        """Whether all its writes are acknowledged, as far as completions were taken."""
        return not self._outstanding

    def write(self, number: int) -> None:
        """Write this number to the other end. There must be room."""
        value = number % _COUNTER_MODULUS
        place = self._sent % PLACES
        at = place * self._size + self._at
        self._source[at], self._source[at + 1] = value & 0xFF, value >> 8
        self._qp.post_send(self._requests[place])
        self._sent += 1
        self._outstanding += 1


class Answering(Pinger):
    """The server's end: each number that comes is written back."""

    def __init__(self, pd: PD, cq: CQ, qp: QP, memory: mmap.mmap, theirs: RemoteMemory, terms: Terms) -> None:
        super().__init__(pd, cq, qp, memory, theirs, terms)
        self._next = 1

    def turn(self) -> None:
        """Answer what has come. Raises PeerError when a write failed."""
        if self.has_room and self.arrived(self._next):
            self.write(self._next)
            self._next += 1
        else:
            # There is time for it now: nobody waits for an answer.
            self.take_completions()


@dataclass(frozen=True, slots=True)
class Pinged:
    """Half round trips in microseconds, one a ping; those up to the interruption or the failure if there was one."""

    half_round_trips_us: list[float]
    interrupted: bool = False
    failure: PeerError | None = None


def ping(pinger: Pinger, run: Callable[[Callable[[], bool]], None], seconds: float) -> Pinged:
    """Play for so long. `run` turns the loop until its argument holds; a KeyboardInterrupt out of it ends the play, and
    so does a PeerError, its own or that of a write that failed.
    """
    clock = time.perf_counter_ns
    times: list[int] = []
    deadline = clock() + int(seconds * 1e9)

    def done() -> bool:
        number = len(times)
        if (number and not pinger.arrived(number)) or not pinger.has_room:
            pinger.take_completions()
            if number and clock() - times[-1] > LONGEST_SILENCE_NS:
                raise PeerError(f"ping {number} was not answered within {LONGEST_SILENCE_NS / 1e9:.0f} s")
            return False
        now = clock()
        times.append(now)
        if now >= deadline and number:
            return True
        pinger.write(number + 1)
        return False

    # The last ping or its acknowledgement may still be on its way.
    def acknowledged() -> bool:
        pinger.take_completions()
        return pinger.is_quiet

    interrupted = False
    failure: PeerError | None = None
    try:
        run(done)
        run(acknowledged)
    except KeyboardInterrupt:
        interrupted = True
    except PeerError as error:
        # What was measured until then is good.
        failure, interrupted = error, True
    return Pinged([(later - earlier) / 2e3 for earlier, later in pairwise(times)], interrupted, failure)
