# SPDX-License-Identifier: GPL-2.0-only
"""How transport headers follow each other, by the opcode table: from the BTH to the payload, padding and ICRC."""

from __future__ import annotations

from typing import Any

from scapy.config import conf
from scapy.fields import BitField
from scapy.packet import Packet, Raw

from mrc.layers.icrc import ICRC, Pad
from mrc.wire.opcodes import HEADER_LENGTHS, ICRC_LENGTH, OPCODES
from mrc.wire.profile import DEFAULT_WIRE_PROFILE, WireProfile

# Layer class of each header name in the opcode table, put here when the class is made.
HEADERS: dict[str, type[Packet]] = {}
_DCID = 0xFFFF


class ActiveProfile:
    """The WireProfile the layers build and dissect with: one for the process, as Scapy's layers are."""

    profile: WireProfile = DEFAULT_WIRE_PROFILE


class Reserved(BitField):
    """Bits without a meaning: zero when sent, kept when dissected."""

    def __init__(self, name: str, size: int) -> None:
        super().__init__(name, 0, size)


def expected_headers(opcode: int, ts: int) -> tuple[str, ...]:
    """Names of the headers after the BTH (wire.md section 2); none for an unknown opcode."""
    known = OPCODES.get(opcode)
    return tuple(header for header in known.headers if ts or header != "tseth") if known else ()


class TransportHeader(Packet):
    """Base of the BTH and of every header after it.

    The next layer is the one the opcode table names, when its bytes are all there. After the last header come the
    payload (as Raw), its padding and the ICRC. A trimmed or truncated packet ends in Raw, without an ICRC.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        name = cls.__name__.lower()
        if name in HEADER_LENGTHS:
            HEADERS[name] = cls

    @property
    def header_name(self) -> str:
        """Its name in the opcode table."""
        return type(self).__name__.lower()

    # Where its dpdcid lies, if it has one: unset, it is the low 16 bits of the BTH's DQP (wire.md section 6).
    # `_turns`: of a SACK or NACK that is spdcid, two bytes before it, where the profile has the DCIDs of the data.
    dpdcid_at: int | None = None
    _turns: bool = False

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        bth, at = self.bth_and_depth()[0], self.dpdcid_at
        name = "dpdcid"
        if at is not None and self._turns and ActiveProfile.profile.dcids_of_data:
            name, at = "spdcid", at - 2
        if at is not None and name not in self.fields and bth is not None:
            pkt = pkt[:at] + (bth.dqp & _DCID).to_bytes(2, "big") + pkt[at + 2 :]
        return pkt + pay

    def own_psn(self) -> int | None:
        """The PSN that the BTH below repeats, where there is one."""
        return None

    def bth_and_depth(self) -> tuple[Packet | None, int]:
        """The BTH this header belongs to and how many headers lie from there to this one (the BTH itself: 0)."""
        layer: Any = self
        depth = 0
        while layer is not None and not getattr(layer, "is_bth", False):
            layer = layer.underlayer
            depth += 1
        return layer, depth

    def shown_value(self, field: str) -> Any:
        """A field as the summary of its packet shows it."""
        return getattr(self, field)

    @property
    def show_summary(self) -> bool:
        # The BTH's summary speaks for the headers on it.
        return self.bth_and_depth()[0] is None

    def _next_header(self) -> str | None:
        bth, depth = self.bth_and_depth()
        if bth is None:
            return None
        headers = expected_headers(bth.opcode, bth.ts)
        return headers[depth] if depth < len(headers) else None

    def guess_payload_class(self, payload: bytes) -> Any:
        following = self._next_header()
        if following is not None and len(payload) >= HEADER_LENGTHS[following]:
            return HEADERS[following]
        return conf.raw_layer

    def do_dissect_payload(self, s: bytes) -> None:
        bth, _ = self.bth_and_depth()
        stop = self.stop_dissection_after
        if bth is None or self._next_header() is not None or (stop and isinstance(self, stop)):
            super().do_dissect_payload(s)
            return
        self._dissect_trailer(s, bth.pad or 0)

    def _dissect_trailer(self, s: bytes, pad: int) -> None:
        body = len(s) - ICRC_LENGTH
        bth: Any = self.bth_and_depth()[0]
        if body < 0 or bth.came_trimmed():
            parts = [(Raw, s)]
        else:
            if pad > body:
                # A pad count that cannot be true names no padding.
                pad = 0
            parts = [(Raw, s[: body - pad]), (Pad, s[body - pad : body]), (ICRC, s[body:])]
        layer: Packet = self
        for kind, chunk in parts:
            if chunk:
                following = kind(chunk, _internal=1, _underlayer=layer)
                layer.add_payload(following)
                layer = following
