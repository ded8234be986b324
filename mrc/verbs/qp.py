# SPDX-License-Identifier: BSD-2-Clause
"""Queue pairs: states and attributes above, a QueuePair of the endpoint below."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from errno import EINVAL, ENOMEM
from typing import Any

from mrc.endpoint.completions import Completion
from mrc.endpoint.qp import QueuePair
from mrc.endpoint.work import WriteRequest
from mrc.errors import CallerError
from mrc.verbs.attributes import QPAttr, QPCap, check_granted
from mrc.verbs.bells import Bell, Bells, Deadline
from mrc.verbs.cq import CQ
from mrc.verbs.draining import UnderWay, under_way
from mrc.verbs.enums import AsyncEventType, QPAttrMask, QPState, SendFlag, WCOpcode, WCStatus, WROpcode
from mrc.verbs.errors import VerbsError
from mrc.verbs.figures import QPFigures, why_silent
from mrc.verbs.memory import MR, PD, gather
from mrc.verbs.parameters import configured, peer_of
from mrc.verbs.tables import brief, table
from mrc.verbs.transitions import DEFAULTS, MAY_POST_RECV, MAY_POST_SEND, check_attributes
from mrc.verbs.work import NO_FLAGS, WC, RecvWR, SendWR, immediate_of

# As ints: enum's own operators take a microsecond each.
_INLINE, _SIGNALED, _SOLICITED = int(SendFlag.INLINE), int(SendFlag.SIGNALED), int(SendFlag.SOLICITED)
_WRITE, _RECEIVE, _SUCCESS = WROpcode.RDMA_WRITE, WCOpcode.RECV_RDMA_WITH_IMM, WCStatus.SUCCESS

# A send work request that has not completed: the region it reads from, whether its success makes a completion.
_Sent = tuple[MR | None, bool]


class QP:
    """A reliable queue pair, made in RESET.

    Sends complete on `send_cq`, receives on `recv_cq`. `cap`: how many of each may be outstanding. `sq_sig_all`: every
    send makes a completion, not only those with SIGNALED. A place in the send queue is free again when its work ends.
    `endpoint_qp` is the endpoint's own object: counters, paths and their states. `rings` is the address of queues in
    the memory of a program that is no Python (mrc.endpoint.work_rings): work comes from there and ends there.

    Raises VerbsError EINVAL for a closed PD, and queues of another Context.
    """

    def __init__(
        self,
        pd: PD,
        *,
        send_cq: CQ,
        recv_cq: CQ,
        cap: QPCap | None = None,
        sq_sig_all: bool = False,
        rings: int | None = None,
    ) -> None:
        self.pd = pd
        self.context = pd.context
        self.send_cq = send_cq
        self.recv_cq = recv_cq
        self._check_parts()
        self.cap = cap or QPCap()
        self.sq_sig_all = sq_sig_all
        self._rings = rings
        self._attributes: dict[str, Any] = {}
        self._device = self.context.device
        # What follows is shared between those who post and where the endpoint runs.
        self._lock = threading.Lock()
        self._sent: deque[_Sent] = deque()
        self._receives_posted = 0
        self._inbox: deque[WriteRequest | int] = deque()
        self._taking_inbox = False
        self._bells = Bells(self._device)
        self._closed = False
        self._expect_error = False
        self.endpoint_qp: QueuePair = self._device.call(self._enter)

    def _check_parts(self) -> None:
        """Raise VerbsError EINVAL where the PD is closed, or a queue is or is of another Context."""
        self.pd.check_open()
        for cq in (self.send_cq, self.recv_cq):
            if cq not in self.context.cqs:
                raise VerbsError(EINVAL, "a completion queue is closed, or another context's")

    def _enter(self) -> QueuePair:
        """Make the endpoint's QP and be one of the PD's. In one turn: whoever closes everything in a turn of its own
        meets all of a QP or nothing."""
        self._check_parts()
        self.endpoint_qp = self._create()
        self.context.add(self)
        for part in (self.pd, self.send_cq, self.recv_cq):
            part.qps.add(self)
        return self.endpoint_qp

    def _create(self, qpn: int | None = None) -> QueuePair:
        return self._device.endpoint.create_qp(
            self.context.tuning, memory=self.pd.memory, complete=self._completed, qpn=qpn, rings=self._rings
        )

    # ------------------------------------------------------------------ queries

    @property
    def qp_num(self) -> int:
        """Its number, 24 bits, by which packets name it."""
        return self.endpoint_qp.qpn

    @property
    def first_psn(self) -> int:
        """The first PSN it will send: drawn at random, or the `sq_psn` it was given."""
        return self.endpoint_qp.first_psn

    @property
    def state(self) -> QPState:
        """The state it is in: RESET, INIT, RTR, RTS or ERROR."""
        return self.endpoint_qp.state

    @property
    def error(self) -> str | None:
        """Why it is in ERROR, in words."""
        return self.endpoint_qp.error

    def explain(self, status: WCStatus) -> str:
        """Why work completed with this status, in words for people."""
        why = self.error or status.name.lower().replace("_", " ")
        if status == WCStatus.RETRY_EXCEEDED and not self.endpoint_qp.hears_of_other_psns:
            return f"{why}; {why_silent(self.endpoint_qp, self._device, self._attributes.get('ah_attr'))}"
        return why

    @property
    def figures(self) -> QPFigures:
        """Its counters, paths and round trips, as they stand whenever one is read."""
        return QPFigures(self.endpoint_qp)

    def query(self) -> QPAttr:
        """Its state, and every attribute it was given. At any time."""
        return QPAttr(qp_state=self.state, **self._attributes)

    def _check_open(self) -> None:
        if self._closed:
            raise VerbsError(EINVAL, "the QP is closed")

    # ------------------------------------------------------------------ states

    def modify(self, attr: QPAttr, mask: QPAttrMask | None = None) -> None:
        """Go to `attr.qp_state` with these attributes: those `mask` names, without one all that are not None.

        Which a transition needs and takes is the table of mrc.verbs.transitions. On the way to RESET all posted work
        and its completions are forgotten; on the way to ERROR posted work completes with WR_FLUSH status.

        Raises VerbsError EINVAL for attributes missing, foreign or out of range, and for a way that does not exist;
        ENOENT for an unknown profile; PeerError for a peer that cannot be reached. Then nothing has changed.
        """
        given = attr.given(mask)
        self._device.call(lambda: self._modify(given))

    def _modify(self, given: dict[str, Any]) -> None:
        self._check_open()
        current = self.state
        wanted = given.pop("qp_state", current)
        check_attributes(current, wanted, given)
        check_granted(given, self.cap)
        merged = DEFAULTS.get(wanted, {}) | self._attributes | given
        if wanted == QPState.RESET:
            self._attributes = {}
            self._forget(lambda: self._create(self.qp_num))
            return
        if wanted == QPState.ERROR:
            self._to_error()
            return
        try:
            self._bring_to(wanted, merged)
        except VerbsError:
            raise
        except CallerError as error:
            raise VerbsError(EINVAL, str(error)) from None
        self._attributes = merged

    def _bring_to(self, wanted: QPState, attributes: dict[str, Any]) -> None:
        host = self._device.endpoint.online.host
        if wanted == QPState.INIT and host is not None:
            host.named(attributes["ev_profile_id"], attributes["cc_profile_id"])
        config, controller = configured(self.context, attributes)
        qp = self.endpoint_qp
        if wanted == QPState.INIT:
            qp.configure(config, controller=controller)
            numbers = self.context.shared_numbers(attributes["ev_profile_id"], attributes["cc_profile_id"])
            qp.ev_profile_id, qp.cc_profile_id = numbers
            if qp.state != QPState.INIT:
                qp.to_init()
        elif wanted == QPState.RTR:
            peer = peer_of(self.context, attributes)
            qp.configure(config)
            qp.to_rtr(peer)
        else:
            qp.configure(config, first_psn=attributes["sq_psn"])
            qp.to_rts()

    def _to_error(self) -> None:
        self._expect_error = True
        self.endpoint_qp.to_error("its owner moved it to ERROR")
        self._expect_error = False
        self._take_inbox()

    def _forget(self, successor: Callable[[], QueuePair] | None = None) -> None:
        """Destroy the endpoint's QP, and with it everything posted and what has completed."""
        endpoint, gone = self._device.endpoint, self.endpoint_qp
        endpoint.destroy_qp(gone)
        if endpoint.online.host is not None and (gone.ev_profile_id > 0 or gone.cc_profile_id > 0):
            endpoint.online.host.released()
        with self._lock:
            # A thread that posts meanwhile must not find the state of the old one.
            self.endpoint_qp = successor() if successor is not None else self.endpoint_qp
            self._sent.clear()
            self._inbox.clear()
            self._receives_posted = 0
        for cq in (self.send_cq, self.recv_cq):
            cq.forget(self.qp_num)
        self._bells.ring()

    def on_error(self, detail: str) -> None:
        """The endpoint's QP went to ERROR."""
        if not self._expect_error:
            self.context.report(AsyncEventType.QP_FATAL, self, f"QP {self.qp_num:#08x}: {detail}")

    # ------------------------------------------------------------------ posting, from any thread

    def post_send(self, wr: SendWR) -> None:
        """Post an RDMA write, with an immediate or without. Returns at once.

        In ERROR it completes flushed. Raises VerbsError EINVAL in a state that does not send, for memory that is not
        the PD's, and for numbers out of range; ENOMEM when `max_send_wr` are outstanding or more than
        `max_inline_data` bytes go INLINE. SOLICITED counts with an immediate alone.
        """
        plain = wr.opcode is _WRITE and wr.imm_data is None and wr.send_flags is NO_FLAGS
        flags = 0 if plain else int(wr.send_flags)
        immediate = None if plain else immediate_of(wr)
        with self._lock:
            if self._closed or self.endpoint_qp.state not in MAY_POST_SEND:
                self._check_may_post(MAY_POST_SEND)
            if not self._taking_inbox:
                self._device.check_open()
            if len(self._sent) >= self.cap.max_send_wr:
                raise VerbsError(ENOMEM, f"{self.cap.max_send_wr} sends are outstanding (max_send_wr)")
            mr, source, offset, length = gather(self.pd, wr.sge, self.cap.max_inline_data if flags & _INLINE else None)
            remote_addr, rkey = (wr.remote_addr, wr.rkey) if length else (0, 0)
            try:
                request = WriteRequest(
                    wr.wr_id, source, offset, length, remote_addr, rkey, immediate, bool(flags & _SOLICITED)
                )
            except CallerError as error:
                raise VerbsError(EINVAL, str(error)) from None
            signaled = self.sq_sig_all or bool(flags & _SIGNALED)
            self._sent.append((mr, signaled))
            wake = self._put(request)
        if wake:
            self._device.submit(self._take_inbox)

    def post_recv(self, wr: RecvWR, *more: RecvWR) -> None:
        """Post receives. One write with immediate of the peer's will consume each. Returns at once.

        In ERROR they complete flushed. Raises VerbsError EINVAL in RESET, ENOMEM when there is no room for all of them
        (`max_recv_wr`); then none is posted.
        """
        with self._lock:
            if self._closed or self.endpoint_qp.state not in MAY_POST_RECV:
                self._check_may_post(MAY_POST_RECV)
            if not self._taking_inbox:
                self._device.check_open()
            posted = self._receives_posted + 1 + len(more)
            if posted > (most := self.cap.max_recv_wr):
                raise VerbsError(ENOMEM, f"{posted} receives would be outstanding, max_recv_wr is {most}")
            self._receives_posted = posted
            wakes = [self._put(each.wr_id) for each in (wr, *more)]
        if wakes[0]:
            self._device.submit(self._take_inbox)

    def _check_may_post(self, states: frozenset[QPState]) -> None:
        self._check_open()
        state = self.endpoint_qp.state
        if state not in states:
            allowed = ", ".join(each.name for each in QPState if each in states)
            raise VerbsError(EINVAL, f"QP {self.qp_num:#08x} is in {state.name}; this is for {allowed}")

    def _put(self, work: WriteRequest | int) -> bool:
        """Leave work for the endpoint. True when it does not look there anyway."""
        self._inbox.append(work)
        wake, self._taking_inbox = not self._taking_inbox, True
        return wake

    def uses(self, mr: MR) -> bool:
        """Whether a send that has not completed reads from this region."""
        with self._lock:
            return any(read is mr for read, _ in self._sent)

    # ------------------------------------------------------------------ drained

    def drain(self, timeout: float | None = None, *, quiet: float | None = None) -> None:
        """Wait until nothing is under way. Closing the QP then leaves neither end waiting for the other.

        It returns when all of this holds. Every send posted here has completed. Every answer to what has arrived has
        been sent. No message of the peer has arrived in part. For `quiet` seconds the peer has sent no request and no
        probe: a peer whose answer was lost sends a probe, first after a round trip, and `drain` keeps the QP answering.
        `quiet` is twice the local ACK timeout unless given. With 0 the caller has to wait for the peer's word that it
        has drained, too. Completions stay in their queues. Posted receives do not count.

        It waits at most `timeout` seconds; None: without limit. Raises VerbsError EIO when the QP is in ERROR, EAGAIN
        with a timeout of 0 when something is under way, ETIMEDOUT after any other timeout, EINVAL when the QP is
        closed.
        """
        deadline = Deadline(self._device, timeout)
        with self._bells.one() as bell:
            while (rest := self._under_way(bell, quiet)) is not None:
                rest.check(bell.wait(rest.patience_s(deadline)), deadline)

    async def drained(self, timeout: float | None = None, *, quiet: float | None = None) -> None:
        """Wait in a coroutine of asyncio until nothing is under way: see `drain`."""
        deadline = Deadline(self._device, timeout)
        with self._bells.one() as bell:
            while (rest := self._under_way(bell, quiet)) is not None:
                rest.check(await bell.wait_async(rest.patience_s(deadline)), deadline)

    def _under_way(self, bell: Bell, quiet_s: float | None) -> UnderWay | None:
        """Return what `drain` still waits for, or None. `bell` rings when the last send has completed after this."""
        bell.hush()

        def look() -> UnderWay | None:
            self._check_open()
            return under_way(self.endpoint_qp, len(self._sent), quiet_s, self._device.now())

        return self._device.call(look)

    # ------------------------------------------------------------------ where the endpoint runs

    def _take_inbox(self) -> None:
        with self._lock:
            self._taking_inbox = False
        if self._closed:
            return
        qp, inbox = self.endpoint_qp, self._inbox
        while inbox:
            work = inbox.popleft()
            if isinstance(work, WriteRequest):
                qp.post_write(work)
            else:
                qp.post_receive(work)
        self._device.wake(qp)

    def _completed(self, done: Completion) -> None:
        receive = done.kind is _RECEIVE
        if receive:
            with self._lock:
                self._receives_posted -= 1
        else:
            signaled = self._sent.popleft()[1]
            if not self._sent:
                self._bells.ring()
            if not signaled and done.status is _SUCCESS:
                return
        completion = WC(done.wr_id, done.status, done.kind, done.byte_len, done.qpn, done.immediate)
        (self.recv_cq if receive else self.send_cq).push(completion, done.solicited)

    # ------------------------------------------------------------------ end

    def close(self) -> None:
        """Destroy it. What is posted is forgotten, and so are completions that were not polled."""
        if not self._closed and not self.context.is_the_parents():
            self._device.call(self._close)

    def _close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._forget()
        self._bells.close()
        self.context.remove(self)
        for part in (self.pd, self.send_cq, self.recv_cq):
            part.qps.discard(self)

    def __enter__(self) -> QP:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        qp = self.endpoint_qp
        why = f" ({qp.error})" if qp.error else ""
        peer = self._attributes.get("dest_qp_num")
        there = "" if peer is None or qp.peer_node is None else f" to QP {peer:#08x} at {qp.peer_node.label}"
        outstanding = f"{len(self._sent)} sends and {self._receives_posted} receives outstanding"
        if self._closed:
            return brief("QP", f"{qp.qpn:#08x}", closed=True)
        return brief("QP", f"{qp.qpn:#08x} {qp.state.name}{why}{there}", closed=False, says=outstanding)

    def __str__(self) -> str:
        return table(
            "QP",
            [
                ("qp_num", f"{self.qp_num:#08x}"),
                ("state", self.state),
                ("sends outstanding", len(self._sent)),
                ("receives outstanding", self._receives_posted),
                *((name, value) for name, value in self._attributes.items() if name != "ah_attr"),
            ],
        )
