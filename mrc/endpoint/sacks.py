"""Where SACKs are made: what triggers one, what it says, and which way it goes (behaviour.md, Responder)."""

from __future__ import annotations

import struct

from mrc.endpoint.answers import Answer, PendingAnswers, append_control
from mrc.endpoint.counters import Counters
from mrc.endpoint.paths import PathSet
from mrc.endpoint.receive_budget import MAX_PENALTY, ReceiveBudget
from mrc.endpoint.receive_window import ReceiveWindow
from mrc.endpoint.received import ReceivedPsns
from mrc.endpoint.traffic_class import TrafficClasses
from mrc.errors import CallerError
from mrc.wire.opcodes import Op
from mrc.wire.psn import PSN_MASK
from mrc.wire.rows import P_KEY, RTX, SETH_M_SHIFT, SETH_PR
from mrc.wire.transmit_batch import TransmitBatch

_MIN_COUNTED_BYTES = 1024  # a packet counts at least this much towards the byte trigger
_RESTORE_CWND = 1 << 31
_PENALTY_SHIFT = 24
_BITMAP = 64  # PSNs
_RCVD_UNIT = 256  # bytes; a unit that has begun counts (MRC-SACK-14)
_MOST_COUNTED = 0x7FFF
# BTH, SETH and CC_STATE as the fields of mrc.wire.rows.SACK lie.
_PACKED = struct.Struct(">BBHII HHIHHIBBhQ HHI")


class SackMaker:
    """Collects triggers and turns them into SACKs."""

    __slots__ = (
        "_budget",
        "_bytes_since",
        "_classes",
        "_counters",
        "_paths",
        "_peer_qpn",
        "_penalty",
        "_qpn",
        "_received",
        "_restore_word",
        "_threshold",
        "_window",
        "pending",
        "received_bytes",
    )

    def __init__(
        self,
        *,
        qpn: int,
        peer_qpn: int,
        threshold_bytes: int,
        received: ReceivedPsns,
        window: ReceiveWindow,
        budget: ReceiveBudget,
        paths: PathSet,
        counters: Counters,
        classes: TrafficClasses,
    ) -> None:
        self._qpn = qpn
        self._peer_qpn = peer_qpn
        self._threshold = threshold_bytes
        self._received = received
        self._window = window
        self._budget = budget
        self._paths = paths
        self._counters = counters
        self._classes = classes
        self._bytes_since = 0
        self._penalty = self._restore_word = 0
        self.pending = PendingAnswers()
        # Running total of new untrimmed packets, UDP length + 40 each.
        self.received_bytes = 0

    def set_penalty(self, penalty: int, restore: bool) -> None:
        """What every SACK says from now on as rcv_cwnd_pen, at least, and restore_cwnd. Raises CallerError beyond
        0..127."""
        if not 0 <= penalty <= MAX_PENALTY:
            raise CallerError(f"a receiver penalty is 0..{MAX_PENALTY}, got {penalty}")
        self._penalty, self._restore_word = penalty, _RESTORE_CWND if restore else 0

    @property
    def _penalty_word(self) -> int:
        """restore_cwnd and rcv_cwnd_pen: the owner's, or the node's where that is more."""
        return self._restore_word | max(self._penalty, self._budget.penalty) << _PENALTY_SHIFT

    def is_triggered(self, size: int, forced: bool) -> bool:
        """Whether a packet triggers a SACK, given its nominal size and whether it does so regardless."""
        self._bytes_since += size if size > _MIN_COUNTED_BYTES else _MIN_COUNTED_BYTES
        if not forced and self._bytes_since < self._threshold:
            return False
        self._bytes_since = 0
        return True

    def on_probe(self, probe: Answer) -> None:
        """A probe is answered with a SACK, and bytes count from the last one anew."""
        self.pending.add(probe)
        self._bytes_since = 0

    def transmit(self, batch: TransmitBatch, limit: int, now: int) -> int:
        """Append up to `limit` SACKs, all telling the state as it is now. Returns how many."""
        answers = self.pending.take(limit)
        if not answers:
            return 0
        count = len(answers)
        received = self._received
        cack = received.cack_psn
        # Successive SACKs alternate planes, so that one broken reverse path cannot condemn forward ones.
        indexes = [self._paths.control.take_one(now) for _ in answers]
        mpr = self._window.tell(received.epsn, self._budget.units)
        ooo_count = min(received.held, _MOST_COUNTED)
        rcvd_word = self._penalty_word | -(-self.received_bytes // _RCVD_UNIT) & 0xFFFFFF
        for answer, index in zip(answers, indexes, strict=True):
            probe_id = answer.probe_id
            base = cack + 1
            if not answer.rtx and probe_id < 0 and answer.highest - base >= _BITMAP:
                # Not so for an rtx packet or a probe: old holes must not stay unseen.
                base = answer.highest - (_BITMAP - 1)
            offset = answer.psn - cack if -0x8000 <= answer.psn - cack <= 0x7FFF else 0
            headers = _PACKED.pack(
                Op.SACK,
                0,
                P_KEY,
                self._peer_qpn,
                cack & PSN_MASK | (RTX if answer.rtx else 0),
                (1 << SETH_M_SHIFT if answer.marked else 0) | (SETH_PR if probe_id >= 0 else 0),
                (offset if probe_id < 0 else probe_id) & 0xFFFF,
                answer.entropy,
                self._qpn & 0xFFFF,
                self._peer_qpn & 0xFFFF,
                cack & PSN_MASK,
                0,
                mpr,
                base - cack,
                received.bitmap(base),
                answer.timestamp(now),
                ooo_count,
                rcvd_word,
            )
            append_control(batch, self._paths, index, self._classes.control, headers)
        self._counters.sacks_sent += count
        return count
