"""The classic BPF program that tells what may be for a QP from what surely is not (wire.md sections 1 to 3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mrc.net.filters import Instruction
from mrc.net.ports import SRV6, UDP_IPV4, Framing
from mrc.wire.batch import BTH_AT, MIN_PACKET, P_KEY, TVER_MASK, UDP_AT
from mrc.wire.ipv4 import IPV4_HEADER, NO_OPTIONS
from mrc.wire.opcodes import Op

_LOAD_WORD, _LOAD_HALF, _LOAD_BYTE, _LOAD_LENGTH = 0x20, 0x28, 0x30, 0x80
_AND, _EQUAL, _AT_LEAST, _RETURN = 0x54, 0x15, 0x35, 0x06
_WHOLE = 0xFFFFFFFF
_NETWORK_HEADER = -0x100000 & _WHOLE  # SKF_NET_OFF: offsets from the (outer) IP header on
_IPV6_SOURCE_END, _IPV4_SOURCE = 20, 12  # the last four bytes of the source address
_VERSION_MASK, _IPV6, _UDP = 0xF0, 0x60, 17
_QPN_MASK = 0xFFFFFF
# A jump reaches 255 instructions: with more than so many of a kind it is not told apart here.
MOST = 64


@dataclass(frozen=True, slots=True)
class Lists:
    """What is let through: UDP ports, QPNs, source addresses (128 bit numbers, of which the last 32 are compared)."""

    udp_ports: Sequence[int]
    qpns: Sequence[int]
    sources: Sequence[int]


def flood_program(framing: Framing, lists: Lists, *, refused: bool = False) -> list[Instruction]:
    """Lets through, whole, what may be for a QP; with `refused` everything else instead."""
    # Where the socket's view of a packet has the (inner) IPv6 header that a row of a batch begins with.
    begin = {SRV6: 0, UDP_IPV4: IPV4_HEADER - UDP_AT}.get(framing, -UDP_AT)
    checks: list[tuple[list[tuple[int, int]], int, list[int]]] = []

    def one_of(loads: list[tuple[int, int]], values: Sequence[int], compare: int = _EQUAL) -> None:
        checks.append((loads, compare, sorted(set(values))))

    one_of([(_LOAD_LENGTH, 0)], [MIN_PACKET + begin], _AT_LEAST)
    if framing is SRV6:
        one_of([(_LOAD_BYTE, 0), (_AND, _VERSION_MASK)], [_IPV6])
        one_of([(_LOAD_BYTE, 6)], [_UDP])
    elif framing is UDP_IPV4:
        one_of([(_LOAD_BYTE, 0)], [NO_OPTIONS])
    one_of([(_LOAD_HALF, UDP_AT + 2 + begin)], lists.udp_ports)
    one_of([(_LOAD_BYTE, BTH_AT + begin)], [int(op) for op in Op])
    one_of([(_LOAD_BYTE, BTH_AT + 1 + begin), (_AND, TVER_MASK)], [0])
    one_of([(_LOAD_HALF, BTH_AT + 2 + begin)], [P_KEY])
    if len(set(lists.qpns)) <= MOST:
        one_of([(_LOAD_WORD, BTH_AT + 4 + begin), (_AND, _QPN_MASK)], lists.qpns)
    if len(set(lists.sources)) <= MOST:
        at = _IPV6_SOURCE_END if framing is SRV6 else _NETWORK_HEADER + _IPV6_SOURCE_END
        if framing is UDP_IPV4:
            at = _NETWORK_HEADER + _IPV4_SOURCE
        one_of([(_LOAD_WORD, at)], [source & _WHOLE for source in lists.sources])
    program: list[Instruction] = []
    length = sum(len(loads) + max(1, len(values)) for loads, _, values in checks)
    for loads, compare, values in checks:
        program += [(code, 0, 0, operand) for code, operand in loads]
        for number, value in enumerate(values):
            left = len(values) - 1 - number
            # The last instruction; the one before it lets through what passed every check.
            to_refusal = length - len(program) if not left else 0
            program.append((compare, left, to_refusal, value))
        if not values:
            program.append((_RETURN, 0, 0, _WHOLE if refused else 0))
    return [*program, (_RETURN, 0, 0, 0 if refused else _WHOLE), (_RETURN, 0, 0, _WHOLE if refused else 0)]
