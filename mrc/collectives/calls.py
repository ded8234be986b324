# SPDX-License-Identifier: BSD-2-Clause
"""What this rank calls, one operation after another, and what other ranks say of theirs: all have to call the same."""

from __future__ import annotations

from mrc.collectives.errors import CallMismatch
from mrc.collectives.link import Link
from mrc.collectives.messages import Call, Header, Signature, Token
from mrc.collectives.posts import Collective, PointToPoint
from mrc.collectives.streams import Grant, LinkView, SendStream

_SEQUENCE_MASK = (1 << 32) - 1
_HALF = 1 << 31
# How many operations a rank that only sends may be ahead of one that waits for it, and still learn that they differ.
_KEPT_SIGNATURES = 256


def is_before(sequence: int, other: int) -> bool:
    """Whether an operation comes before another. Their numbers begin again after 2^32."""
    return sequence - other & _SEQUENCE_MASK >= _HALF


class Calls:
    """The operation in progress, and messages of other ranks, which are for it, for a later one, or wrong.

    `current` is None between operations. `points` are sends and receives, which go on beside them: the group sets it.
    """

    def __init__(self) -> None:
        self.current: Collective | None = None
        self.points: PointToPoint
        self._begins = 0  # the number of the operation that begins next
        self._ended: dict[int, Signature] = {}  # of the last operations

    def begin(self, operation: Collective) -> None:
        self.current = operation
        self._begins = operation.sequence + 1 & _SEQUENCE_MASK

    def end(self, operation: Collective) -> None:
        if operation is self.current:
            self.current = None
        self._ended[operation.sequence] = operation.signature
        while len(self._ended) > _KEPT_SIGNATURES:
            del self._ended[next(iter(self._ended))]

    # ------------------------------------------------------------------ messages of links

    def on_data(self, link: Link, header: Header, slot: int) -> None:
        current = self.current
        if current is None or current.sequence != header.sequence:
            self._keep(link, header)
            link.early.setdefault(header.sequence, []).append((header, slot))
            return
        stream = current.incoming(link.rank)
        if stream is None or header.signature != current.signature:
            raise current.token.differs(link.rank, header)
        stream.on_landed(slot)

    def on_grant(self, link: Link, header: Header) -> None:
        if header.signature.call is Call.POINT:
            self.points.on_grant(link, header)
            return
        out = link.outgoing.get(header.stream)
        if out is None:
            current = self.current
            if current is not None and current.sequence == header.sequence:
                raise current.token.differs(link.rank, header)
            self._keep(link, header)
            link.grants[header.stream] = header
            return
        self.granted(out, header)
        out.pump()

    def on_want(self, link: Link, header: Header) -> None:
        self.points.on_want(link, header)

    def on_have(self, link: Link, header: Header) -> None:
        self.points.on_have(link, header)

    def on_call(self, link: Link, header: Header) -> None:
        current = self.current
        if current is not None and current.sequence == header.sequence:
            if header.signature != current.signature:
                raise current.token.differs(link.rank, header)
        elif header.sequence in self._ended:
            # A rank that only receives, whose share this one has sent and gone on.
            ours = self._ended[header.sequence]
            if header.signature != ours:
                raise Token(header.sequence, ours).differs(link.rank, header)
        else:
            self._keep(link, header)
            link.calls[header.sequence] = header

    # ------------------------------------------------------------------ for operations and streams

    def granted(self, out: SendStream, header: Header) -> None:
        """Take the receiver's grant of a stream."""
        out.token.check(out.link.rank, header)
        if header.length != out.length:
            raise CallMismatch(
                f"rank {out.link.rank} expects {header.length:,} bytes of this rank's {out.token.signature}, which "
                f"sends it {out.length:,}",
                out.link.rank,
            )
        out.grant = Grant(header.address, header.rkey, header.first, header.chunks)

    def _keep(self, link: LinkView, header: Header) -> None:
        """Raise CallMismatch unless the message is for an operation that has not begun here."""
        if is_before(header.sequence, self.current.sequence if self.current is not None else self._begins):
            raise CallMismatch(
                f"rank {link.rank} is at operation {header.sequence}, {header.signature}, of which this rank took part "
                "already: all ranks have to call the same operations in the same order",
                link.rank,
            )
