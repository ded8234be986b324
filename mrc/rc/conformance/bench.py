# SPDX-License-Identifier: BSD-2-Clause
"""The tester's side of an RC connection: MRC's bench, whose packets lose what RC does not have.

MRC is a superset of RC: its opcodes are RC's with the two upper bits set, its headers RC's with a METH, and an RETH in
every packet where RC has one in the first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from mrc.conformance.bench import Bench
from mrc.conformance.codec.headers import OpcodeTable
from mrc.conformance.codec.rc import RC, RC_OPCODES
from mrc.conformance.crafting import Layers, PacketMaker
from mrc.conformance.packets import Crafted, Heard

_MRC_BITS = 0xC0


class RcPacketMaker(PacketMaker):
    """Makes RC's packets by what MRC's are made with; opcodes are given as RC has them."""

    def request(self, psn: int, payload: bytes = b"", *, opcode: int = 0x0A, **fields: Any) -> Crafted:
        """A write request, or what `opcode` says; see `PacketMaker.request`."""
        return super().request(psn, payload, opcode=opcode | _MRC_BITS, **fields)

    def _made(
        self, layers: Layers, dscp: int, ecn: int, first_psn: int, payload: bytes, fields: Mapping[str, Any]
    ) -> Crafted:
        return super()._made(_as_rc(layers), 0, 0, first_psn, payload, fields)


def _as_rc(layers: Layers) -> Layers:
    bth = dict(layers[0][1])
    bth["opcode"] &= ~_MRC_BITS
    had = dict(layers)
    return [("bth", bth), *((name, had[name]) for name in RC_OPCODES[bth["opcode"]].headers if name in had)]


class RcBench(Bench):
    """One connection between the tester and an RC target. It has one plane and one EV."""

    table: ClassVar[OpcodeTable] = RC
    maker: ClassVar[type[PacketMaker]] = RcPacketMaker

    def expect_works(self, psn: int, *, cack_psn: int | None = None) -> Heard:
        """See that the target still answers: a zero-length write with AckReq gets its ACK. For the end of scripts that
        expect silence, which a dead target keeps too."""
        self.read()
        self.request(psn, ackreq=1)
        return self.expect("ACK", psn=psn if cack_psn is None else cack_psn)

    def expect_ack(self, psn: int, **fields: Any) -> Heard:
        """Wait for the ACK of this PSN; an ACK of fewer, which an endpoint may send besides, is passed over."""
        while True:
            answer = self.expect("ACK")
            if answer.psn >= psn:
                wrong = [name for name, value in {"psn": psn, **fields}.items() if answer.value(name) != value]
                wanted = f"an ACK of psn {psn} with {fields}"
                self.check(not wrong, wanted, f"at {answer.at} ns came {answer}")
                return answer
