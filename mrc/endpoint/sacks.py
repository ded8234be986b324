"""Where SACKs are made: what triggers one, what it says, and which way it goes (behaviour.md, Responder)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mrc.endpoint.answers import CAUSE, Causes, PendingAnswers, extend_control, reflected_timestamps
from mrc.endpoint.counters import Counters
from mrc.endpoint.paths import PathSet
from mrc.endpoint.receive_window import ReceiveWindow
from mrc.endpoint.received import ReceivedPsns
from mrc.endpoint.traffic_class import TrafficClasses
from mrc.errors import CallerError
from mrc.wire.batch import RTX, SACK, SACK_LENGTH, SETH_M_SHIFT, SETH_PR, TransmitBatch
from mrc.wire.opcodes import Op
from mrc.wire.psn import PSN_MASK

I64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

MIN_COUNTED_BYTES = 1024  # a packet counts at least this much towards the byte trigger
MAX_PENALTY = 127
_RESTORE_CWND = 1 << 31
_PENALTY_SHIFT = 24

# A packet that triggers a SACK. `highest` is the highest PSN received when it came; `probe_id` is -1 unless it is a
# probe.
TRIGGER = np.dtype([*CAUSE, ("highest", "i8"), ("marked", "?"), ("probe_id", "i4")])


class SackMaker:
    """Collects triggers and turns them into SACKs."""

    __slots__ = (
        "_bytes_since",
        "_classes",
        "_counters",
        "_paths",
        "_peer_qpn",
        "_penalty_word",
        "_qpn",
        "_received",
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
        paths: PathSet,
        counters: Counters,
        classes: TrafficClasses,
    ) -> None:
        self._qpn = qpn
        self._peer_qpn = peer_qpn
        self._threshold = threshold_bytes
        self._received = received
        self._window = window
        self._paths = paths
        self._counters = counters
        self._classes = classes
        self._bytes_since = 0
        self._penalty_word = 0
        self.pending = PendingAnswers()
        # Running total of new untrimmed packets, UDP length + 40 each.
        self.received_bytes = 0

    def set_penalty(self, penalty: int, restore: bool) -> None:
        """What every SACK says from now on as rcv_cwnd_pen and restore_cwnd. Raises CallerError beyond 0..127."""
        if not 0 <= penalty <= MAX_PENALTY:
            raise CallerError(f"a receiver penalty is 0..{MAX_PENALTY}, got {penalty}")
        self._penalty_word = penalty << _PENALTY_SHIFT | (_RESTORE_CWND if restore else 0)

    def triggered_by(self, sizes: I64, forced: Bools) -> list[int]:
        """Positions of the packets that trigger a SACK, given nominal sizes and who triggers one regardless."""
        if not len(sizes):
            return []
        if (sizes == sizes[0]).all():
            return self._triggered_by_equal(max(int(sizes[0]), MIN_COUNTED_BYTES), len(sizes), forced)
        positions = []
        since, threshold = self._bytes_since, self._threshold
        for position, (size, at_once) in enumerate(zip(sizes.tolist(), forced.tolist(), strict=True)):
            since += size if size > MIN_COUNTED_BYTES else MIN_COUNTED_BYTES
            if at_once or since >= threshold:
                positions.append(position)
                since = 0
        self._bytes_since = since
        return positions

    def _triggered_by_equal(self, size: int, count: int, forced: Bools) -> list[int]:
        """The same for packets of one size: a step per SACK, not per packet."""
        positions: list[int] = []
        at_once = iter([*np.flatnonzero(forced).tolist(), count])
        next_forced = next(at_once)
        done = 0
        while True:
            by_bytes = done + max(-(-(self._threshold - self._bytes_since) // size), 1) - 1
            position = min(by_bytes, next_forced)
            if position >= count:
                self._bytes_since += (count - done) * size
                return positions
            positions.append(position)
            self._bytes_since = 0
            done = position + 1
            while next_forced < done:
                next_forced = next(at_once)

    def on_probes(self, triggers: Causes) -> None:
        """Each of these probes is answered with a SACK, and bytes count from the last one anew."""
        self.pending.add(triggers)
        self._bytes_since = 0

    def transmit(self, batch: TransmitBatch, limit: int, now: int) -> int:
        """Append up to `limit` SACKs, all telling the state as it is now. Returns how many."""
        sent = 0
        while self.pending.count and sent < limit:
            sent += self._transmit(batch, self.pending.take(limit - sent), now)
        return sent

    def _transmit(self, batch: TransmitBatch, triggers: Causes, now: int) -> int:
        count = len(triggers)
        cack = self._received.cack_psn
        bases = self._bases(triggers, cack)
        # Successive SACKs alternate planes, so that one broken reverse path cannot condemn forward ones.
        indexes = self._paths.control_paths(count, now)
        start, stop = extend_control(batch, self._paths, indexes, self._classes.control, SACK_LENGTH)
        is_probe = triggers["probe_id"] >= 0
        offsets = triggers["psn"] - cack
        offsets[(offsets < -0x8000) | (offsets > 0x7FFF)] = 0
        offsets[is_probe] = triggers["probe_id"][is_probe]
        fields = batch.fields(SACK, start, stop)
        fields["opcode"] = Op.SACK
        fields["dqp_word"] = self._peer_qpn
        fields["psn_word"] = (cack & PSN_MASK) + triggers["rtx"] * np.int64(RTX)
        fields["seth_word"] = (triggers["marked"] * np.int64(1 << SETH_M_SHIFT)) + is_probe * np.int64(SETH_PR)
        fields["ack_psn_offset"] = offsets.astype(np.int16)
        fields["entropy"] = triggers["entropy"]
        fields["spdcid"] = self._qpn & 0xFFFF
        fields["dpdcid"] = self._peer_qpn & 0xFFFF
        fields["cack_word"] = cack & PSN_MASK
        fields["mpr"] = self._window.tell(self._received.epsn)
        fields["sack_offset"] = bases - cack
        fields["bitmap"] = self._received.bitmaps(bases)
        fields["tx_timestamp"] = reflected_timestamps(triggers, now)
        fields["ooo_count"] = min(self._received.held, 0x7FFF)
        fields["rcvd_word"] = self._penalty_word | self.received_bytes // 256 & 0xFFFFFF
        self._counters.sacks_sent += count
        return count

    @staticmethod
    def _bases(triggers: Causes, cack: int) -> I64:
        """Bitmap bases: cack_psn + 1, or highest - 63 when more than 64 PSNs lie between, but never so for an rtx
        packet or a probe: old holes must not stay unseen."""
        lowest = cack + 1
        from_start = triggers["rtx"] | (triggers["probe_id"] >= 0) | (triggers["highest"] - lowest < 64)
        return np.asarray(np.where(from_start, lowest, triggers["highest"] - 63))
