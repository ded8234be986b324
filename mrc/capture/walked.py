# SPDX-License-Identifier: BSD-2-Clause
"""What a walk over one packet finds."""

from __future__ import annotations

from mrc.errors import MalformedPacket


class Walked:
    """One packet: its headers and where they lie in `data`.

    `layers` are (name, offset) in wire order, outermost first, named as in wire.md section 13 but for the payload and
    the ICRC, which are `payload_length` (bytes on the wire, padding apart) and `icrc_at` (None when there is none).
    `ip` are the offsets of the IP headers (of the GRH in RoCEv1), `udp_at` and `transport_at` those of the UDP header
    and of the transport (None when absent). Of a packet in a tunnel these are the headers inside, which begin at
    `inside`. `fragment_at` is the IPv4 or fragment header of a fragment, which hides what it carries. `fragments` are
    the packet numbers of a reassembled packet. The BTH is `layers[transport_index]`, unless too little of it is there
    to be a layer. `trimmed` as in section 12. `malformed` is None or a reason: a stable word, a colon, the detail.

    `end` is where the packet ends by what its headers say; bytes after it are link padding. It lies beyond `data` when
    the capture kept less than the packet had. `short` says which header promises bytes that never were.
    """

    __slots__ = (
        "at",
        "data",
        "end",
        "fragment_at",
        "fragments",
        "icrc_at",
        "inside",
        "ip",
        "layers",
        "malformed",
        "payload_length",
        "short",
        "transport_at",
        "transport_index",
        "trimmed",
        "truncated",
        "udp_at",
    )

    def __init__(self, data: bytes, end: int) -> None:
        self.data = data
        self.end = end
        self.at = 0
        self.layers: list[tuple[str, int]] = []
        self.ip: list[int] = []
        self.inside = 0
        self.truncated = False
        self.fragment_at: int | None = None
        self.fragments: tuple[int, ...] = ()
        self.udp_at: int | None = None
        self.transport_at: int | None = None
        self.transport_index: int | None = None
        self.payload_length = 0
        self.icrc_at: int | None = None
        self.trimmed = False
        self.malformed: str | None = None
        self.short: str | None = None

    @property
    def cut(self) -> bool:
        """Whether the capture kept less than the whole packet."""
        return self.end > len(self.data)

    def note(self, reason: str) -> None:
        """What is wrong; the first thing found stays."""
        if self.malformed is None:
            self.malformed = reason

    def goes_inside(self, truncated: bool) -> None:
        """The packet of another network begins here; `truncated`, the tunnel says that it does not have all of it."""
        self.ip.clear()
        self.udp_at, self.inside = None, self.at
        if truncated:
            self.truncated, self.data = True, self.data[: self.end]

    def ends_at(self, end: int, header: str) -> None:
        """A length field says the packet ends at `end`."""
        if end <= self.end or self.truncated:
            # Of a packet that a mirror cut the rest was never captured, as with a snaplen.
            self.end = end
        elif self.short is None:
            self.short = f"short_packet: {end - self.end} bytes less than the {header} length says"

    def rest_is_payload(self) -> None:
        """Nothing after this point has a layer of its own."""
        self.payload_length = max(0, self.end - self.at)
        if self.short is not None:
            self.note(self.short)


def too_short(walked: Walked, name: str, needed: int) -> MalformedPacket:
    """What to raise when a header of `needed` bytes should begin at `walked.at` and the bytes end before it does.

    `cut_short` when the capture did not keep them, `short_header` when the packet never had them.
    """
    there = max(0, min(len(walked.data), walked.end) - walked.at)
    if walked.end >= walked.at + needed:
        return MalformedPacket("cut_short", f"the capture kept {there} bytes of {name}, it takes {needed}")
    return MalformedPacket("short_header", f"{name} takes {needed} bytes, {there} are left")
