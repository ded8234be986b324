# SPDX-License-Identifier: BSD-2-Clause
"""The responder of RC: takes writes in order, answers with ACK or NAK (IBTA 9.7.4, 9.7.5, 9.9.3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from mrc.endpoint.completions import WorkStatus
from mrc.endpoint.memory import MemoryTable
from mrc.endpoint.refusals import ACK_SYNDROME, NAK_STATUS, Verdict
from mrc.endpoint.responder.receives import Receives
from mrc.endpoint.responder.request_checks import PeerRequest, RequestChecks
from mrc.rc.config import RcConfig
from mrc.rc.counters import RcCounters
from mrc.rc.framing import Framing
from mrc.rc.opcodes import WRITES
from mrc.rc.syndromes import NAK_SEQUENCE_ERROR, RNR_NAK
from mrc.wire import octets
from mrc.wire.opcodes import OPCODES
from mrc.wire.psn import PSN_MASK, psn_diff
from mrc.wire.transmit_batch import TransmitBatch


class Rest(NamedTuple):
    """What is left of a message: `left` of its `length` bytes go to `va` under `rkey`."""

    rkey: int
    va: int
    left: int
    length: int


class Responder:
    """One QP's receiving half. `fail(status, detail)` is called when a request ends the QP."""

    __slots__ = (
        "_answer",
        "_checks",
        "_config",
        "_counters",
        "_fail",
        "_held_back",
        "_message",
        "_receives",
        "_refused",
        "_request",
        "epsn",
        "msn",
    )

    def __init__(
        self,
        *,
        config: RcConfig,
        memory: MemoryTable,
        counters: RcCounters,
        receives: Receives,
        fail: Callable[[WorkStatus, str], None],
    ) -> None:
        self._config = config
        self._counters = counters
        self._receives = receives
        self._checks = RequestChecks(memory, config.path_mtu, receives.refusal)
        self._request = PeerRequest()
        self._fail = fail
        # The PSN expected next, and how many messages are complete, both 24 bit.
        self.epsn = 0
        self.msn = 0
        # Of the message under way, None between messages.
        self._message: Rest | None = None
        # The (PSN, syndrome) to be sent: a later answer says all that an earlier one does.
        self._answer: tuple[int, int] | None = None
        # A NAK is out for epsn: whatever follows it is dropped without another one until epsn is there.
        self._held_back = False
        self._refused: tuple[int, int] | None = None

    # ------------------------------------------------------------------ requests in

    def on_request(self, layers: Mapping[str, Mapping[str, int]], payload: bytes) -> None:
        """A request of the peer's whose length, ICRC and source have been checked: PSN first, then what it wants.
        `layers` are the fields of its headers."""
        bth = layers["bth"]
        self._counters.requests_received += 1
        psn = bth["psn"]
        ahead = psn_diff(psn, self.epsn)
        if ahead < 0:
            self._counters.duplicates_old += 1
            # Where a NAK waits, it acknowledges the same.
            if self._answer is None:
                self._answer = ((self.epsn - 1) & PSN_MASK, ACK_SYNDROME)
            return
        if ahead > 0:
            self._counters.out_of_sequence += 1
            if not self._held_back:
                self._hold_back(NAK_SEQUENCE_ERROR)
            return
        verdict = self._take(layers, payload)
        if verdict == Verdict.NO_RECEIVE:
            self._hold_back(RNR_NAK | self._config.min_rnr_timer)
            return
        if verdict != Verdict.RIGHT:
            self._refuse()
            return
        self.epsn = (psn + 1) & PSN_MASK
        self._held_back = False
        if bth["ackreq"]:
            self._answer = (psn, ACK_SYNDROME)
        elif self._answer is not None and self._answer[1] != ACK_SYNDROME:
            # It asked for what has come.
            self._answer = None

    def _hold_back(self, syndrome: int) -> None:
        self._held_back = True
        self._answer = (self.epsn, syndrome)

    def on_request_in_error(self) -> None:
        """A request after the one that ended the QP: the NAK may have been lost."""
        self._answer = self._refused

    def _take(self, layers: Mapping[str, Mapping[str, int]], payload: bytes) -> int:
        """Check the request that is next and place its payload. Returns a verdict: nothing has been written for one
        that ends the QP, or that is a write with immediate and finds no receive."""
        opcode, size = layers["bth"]["opcode"], len(payload)
        if opcode not in WRITES:
            return self._receives.refusal.of(Verdict.NO_WRITE, self.epsn, opcode, 0)
        found, message = OPCODES[opcode], self._message
        if found.starts != (message is None):
            return self._receives.refusal.of(Verdict.WRONG_NEIGHBOUR, self.epsn, 0, 0)
        if message is None:
            reth = layers["reth"]
            message = Rest(reth["rkey"], reth["va"], reth["dmalen"], reth["dmalen"])
        verdict = self._check(message, size, ends=found.ends)
        if verdict != Verdict.RIGHT:
            return verdict
        immediate = layers.get("immdt")
        if immediate is not None and not self._receives.posted:
            return Verdict.NO_RECEIVE
        if size:
            octets.place(self._checks.address, memoryview(payload), 0, size)
            self._counters.bytes_placed += size
        self._message = None if found.ends else message._replace(va=message.va + size, left=message.left - size)
        if found.ends:
            self._end_message(message.length, None if immediate is None else immediate["data"])
        return Verdict.RIGHT

    def _check(self, rest: Rest, size: int, *, ends: bool) -> int:
        """Whether a packet of `size` bytes may be next. What is left of a message is held to what a message of its own
        would have to be: to have the length that its packets say, and to lie in one region. Returns a verdict."""
        request = self._request
        request.psn, request.size, request.starts, request.ends = self.epsn, size, True, ends
        request.va, request.rkey, request.dmalen = rest.va, rest.rkey, rest.left
        verdict = self._checks.check_length(request)
        if verdict == Verdict.RIGHT and rest.left:
            verdict = self._checks.check_range(request)
        return verdict

    def _end_message(self, length: int, immediate: int | None) -> None:
        self.msn = (self.msn + 1) & PSN_MASK
        self._counters.messages_received += 1
        if immediate is not None:
            self._receives.consume(immediate, length)

    def _refuse(self) -> None:
        """The request just looked at ends the QP."""
        refusal = self._receives.refusal
        reason = refusal.reason
        setattr(self._counters, reason.counter, getattr(self._counters, reason.counter) + 1)
        self._refused = self._answer = (refusal.psn, reason.syndrome)
        self._fail(NAK_STATUS[reason.syndrome], refusal.words)

    # ------------------------------------------------------------------ answers out

    @property
    def has_answer(self) -> bool:
        return self._answer is not None

    def transmit(self, batch: TransmitBatch, framing: Framing) -> bool:
        """Put the answer that is due into the batch. Whether there was one."""
        if self._answer is None:
            return False
        psn, syndrome = self._answer
        self._answer = None
        framing.acknowledge(batch, psn, syndrome, self.msn)
        counters = self._counters
        if syndrome == ACK_SYNDROME:
            counters.acks_sent += 1
        elif syndrome == NAK_SEQUENCE_ERROR:
            counters.sequence_naks_sent += 1
        elif syndrome in NAK_STATUS:
            counters.naks_sent += 1
        else:
            counters.rnr_naks_sent += 1
        return True
