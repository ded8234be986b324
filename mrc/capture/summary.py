# SPDX-License-Identifier: BSD-2-Clause
"""One line a packet: number, time, source, destination, path, and what it says, in words that read like tshark's.

`mrc.wire.words` has the words for the transport. This module words one packet, `mrc.capture.columns` runs of them.
"""

from __future__ import annotations

from typing import Any

from mrc.capture.carriers import TYPE_AT
from mrc.capture.ends import Ends, ends_of
from mrc.capture.frames import Record
from mrc.capture.names import ETHER_TYPES, IP_PROTOCOLS
from mrc.capture.texts import seconds_text
from mrc.capture.transport import icrc_ok
from mrc.capture.walked import Walked
from mrc.wire.headers import HEADERS, unpack_header
from mrc.wire.profile import DEFAULT_WIRE_PROFILE, WireProfile
from mrc.wire.words import in_words

HEADING = ("no.", "time", "source", "destination", "path", "summary")
# Digits of a time behind the point, where a file has no more, and the room for what is before them.
FEWEST_DIGITS = 6
_WHOLE_SECONDS = 6
_FLOWS_KEPT = 4096
# A packet to one of the ports that is too short for a BTH.
_NO_BTH = "RoCEv2"


def info(walked: Walked, profile: WireProfile = DEFAULT_WIRE_PROFILE) -> str:
    """What a packet says and what is wrong with it."""
    verdict: dict[str, Any] = {"trimmed": walked.trimmed, "malformed": walked.malformed}
    if walked.transport_at is None:
        return f"{_other_words(walked)} {in_words([('verdict', verdict)])}".rstrip()
    headers = _transport_headers(walked, profile)
    about_the_rest: list[tuple[str, dict[str, Any]]] = [
        ("payload", {"length": walked.payload_length}),
        ("icrc", {"wrong": icrc_ok(walked, profile) is False}),
        ("verdict", verdict),
    ]
    if not headers:
        return f"{_NO_BTH} {in_words(about_the_rest)}".rstrip()
    return in_words([*headers, *about_the_rest])


def transport_words(walked: Walked, profile: WireProfile = DEFAULT_WIRE_PROFILE) -> str:
    """The transport headers in words: opcode, queue pair, PSN, then what each further header adds."""
    headers = _transport_headers(walked, profile)
    return in_words(headers) if headers else _NO_BTH


def _transport_headers(walked: Walked, profile: WireProfile) -> list[tuple[str, dict[str, Any]]]:
    # Everything from the UDP header on was found in one go, the BTH first.
    bth = walked.transport_index
    found = [] if bth is None else walked.layers[bth:]
    return [(name, unpack_header(name, walked.data[at : at + HEADERS[name].length], profile)) for name, at in found]


def _other_words(walked: Walked) -> str:
    """A packet that is not RoCE: what its last header says comes next."""
    if not walked.layers:
        return f"Length={walked.payload_length}"
    data = walked.data
    name, at = walked.layers[-1]
    length = walked.payload_length
    if walked.fragment_at is not None:
        ip = walked.ip[-1]
        kind = data[ip + 9] if data[ip] >> 4 == 4 else data[walked.fragment_at]
        return f"fragment of {IP_PROTOCOLS.get(kind, f'IP protocol {kind}')} Len={length}"
    if name == "udp":
        udp = unpack_header("udp", data[at : at + HEADERS["udp"].length])
        return f"UDP {udp['sport']} > {udp['dport']} Len={length}"
    if name in TYPE_AT:
        at += TYPE_AT[name]
        kind = data[at] << 8 | data[at + 1]
        return f"{ETHER_TYPES.get(kind, f'Ethernet type 0x{kind:04x}')} Len={length}"
    if walked.ip and at >= walked.ip[-1]:
        at = walked.ip[-1]
        kind = data[at + 9] if data[at] >> 4 == 4 else data[at + 6]
        if name == "srh":
            kind = data[walked.layers[-1][1]]
        return f"{IP_PROTOCOLS.get(kind, f'IP protocol {kind}')} Len={length}"
    return f"{name.upper()} Len={length}"


class Summary:
    """Lines for the packets of one capture, columns as wide as the widest so far.

    Times are in seconds since the first packet, with `digits` digits behind the point: as many as the file has. The
    path is that of `mrc.capture.ends`.
    """

    def __init__(self, profile: WireProfile = DEFAULT_WIRE_PROFILE) -> None:
        self._profile = profile
        self.start: int | None = None
        self.digits = FEWEST_DIGITS
        self._widths = [len(text) for text in HEADING[2:5]]
        self._last_ends: Ends | None = None
        self._last_text = ""
        self._flows: dict[bytes, Ends] = {}

    @property
    def time_width(self) -> int:
        """How wide the column of times is."""
        return _WHOLE_SECONDS + self.digits

    def heading(self) -> str:
        """The line to print above the one last made."""
        number, time, source, destination, path, words = HEADING
        return f"{number:>6} {time:>{self.time_width}}  {self.aligned((source, destination, path))}  {words}"

    def line(self, number: int, record: Record, walked: Walked) -> str:
        """The line for packet `number`, without a line break."""
        time = "-"
        if record.time_ns is not None:
            if self.start is None:
                self.start = record.time_ns
            time = seconds_text(record.time_ns - self.start, self.digits)
        ends = self.ends(walked)
        if ends is not self._last_ends:
            self.widen(ends)
            self._last_ends, self._last_text = ends, self.aligned(ends)
        return f"{number:>6} {time:>{self.time_width}}  {self._last_text}  {info(walked, self._profile)}"

    def widen(self, ends: Ends) -> bool:
        """Make the columns wide enough for these; whether they were not."""
        widths = [max(len(text), width) for text, width in zip(ends, self._widths, strict=True)]
        wider, self._widths = widths != self._widths, widths
        return wider

    def aligned(self, ends: Ends) -> str:
        """Source, destination and path as they stand in a line."""
        return "  ".join(text.ljust(width) for text, width in zip(ends, self._widths, strict=True))

    def ends(self, walked: Walked) -> Ends:
        """Source, destination and path of a packet."""
        data, ip = walked.data, walked.ip
        if len(ip) != 2 or ip[1] != ip[0] + 40 or data[ip[1]] >> 4 == 4 or data[ip[0]] >> 4 == 4:
            return ends_of(walked, self._profile)
        # By far the most common: one outer header. Its path follows from its destination alone.
        last = ip[1]
        key = data[last - 16 : last] + data[last + 8 : last + 40]
        flow = self._flows.get(key)
        if flow is None:
            if len(self._flows) >= _FLOWS_KEPT:
                self._flows.clear()
            flow = self._flows[key] = ends_of(walked, self._profile)
        return flow
