"""A batch of write requests, read: the fields a responder works on, as arrays."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mrc.wire.opcodes import HEADER_LENGTHS, ICRC_LENGTH, IMMEDIATE_OPCODES, OPCODES
from mrc.wire.received_batch import ReceivedBatch
from mrc.wire.rows import EXTENSION_AT, EXTENSION_LENGTH, HAS_TSETH, PAD_SHIFT, REQUEST, REQUEST_TS, TS, UDP_AT, Fields

I64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def _by_opcode(what: str) -> Bools:
    return np.array([value in OPCODES and getattr(OPCODES[value], what) for value in range(256)], np.bool_)


ENDS, FULL, STARTS = _by_opcode("ends"), _by_opcode("full_payload"), _by_opcode("starts")
LAST, ONLY = ENDS & ~STARTS, ENDS & STARTS
IMMEDIATE: Bools = np.array([value in IMMEDIATE_OPCODES for value in range(256)], np.bool_)


class ReceivedRequests:
    """Rows of a batch that are requests: `words` (PSN and flags), `opcodes`, `sizes` (UDP length + 40).

    `fields` reads what lies the same in all of them; `extension` reads what lies behind the METH, whose place
    depends on whether there is a TSETH.
    """

    __slots__ = ("_stamped", "batch", "fields", "opcodes", "rows", "sizes", "words")

    def __init__(self, batch: ReceivedBatch, rows: I64) -> None:
        self.batch = batch
        self.rows = rows
        # Copied in the longer layout: a copy holds no bytes that its layout does not name.
        self.fields: Fields = batch.fields(REQUEST_TS)[rows]
        self.words: I64 = self.fields["psn_word"].astype(np.int64)
        self.opcodes: npt.NDArray[np.uint8] = self.fields["opcode"]
        self.sizes: I64 = self.fields["ip_plen"].astype(np.int64) + UDP_AT
        self._stamped: Bools = (self.words & TS) != 0

    def payload_at(self, chosen: I64) -> I64:
        """Where in its row the payload of each of these packets begins."""
        opcodes = self.opcodes[chosen]
        return np.asarray(
            EXTENSION_LENGTH[opcodes]
            + (HAS_TSETH[opcodes] * self._stamped[chosen] * np.int64(HEADER_LENGTHS["tseth"]) + EXTENSION_AT)
        )

    def payload_lengths(self, chosen: I64, payload_at: I64) -> I64:
        """Bytes of payload; negative where the pad count says more than there is."""
        pads = self.fields["flags"][chosen] >> PAD_SHIFT & 3
        return np.asarray(self.batch.length[self.rows[chosen]] - payload_at - pads - ICRC_LENGTH)

    def extension(self, name: str, chosen: I64) -> npt.NDArray[np.unsignedinteger]:
        """The field `name` of the RETH or ImmDt of these packets."""
        stamped = self._stamped[chosen]
        if stamped.all():
            return np.asarray(self.fields[name][chosen])
        if not stamped.any():
            return np.asarray(self.fields.view(REQUEST)[name][chosen])
        return np.where(stamped, self.fields[name][chosen], self.fields.view(REQUEST)[name][chosen])
