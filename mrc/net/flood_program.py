# SPDX-License-Identifier: BSD-2-Clause
"""The classic BPF program that separates what may be for a QP from what surely is not (wire.md sections 1 to 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from mrc.net.filters import Instruction, row_begin
from mrc.net.ports import SRV6, UDP_IPV4, Framing
from mrc.records import record
from mrc.wire.ipv4 import NO_OPTIONS
from mrc.wire.opcodes import Op
from mrc.wire.rows import MIN_PACKET, P_KEY, TVER_MASK, fields_at, offsets_in

_LOAD_WORD, _LOAD_HALF, _LOAD_BYTE, _LOAD_LENGTH, _LOAD_KEPT, _KEEP = 0x20, 0x28, 0x30, 0x80, 0x60, 0x02
_ADD, _AND, _JUMP, _EQUAL, _AT_LEAST, _RETURN = 0x04, 0x54, 0x05, 0x15, 0x35, 0x06
_WHOLE = 0xFFFFFFFF
_NETWORK_HEADER = -0x100000 & _WHOLE  # SKF_NET_OFF: offsets from the (outer) IP header on
_RANDOM = -0x1000 + 56 & _WHOLE  # SKF_AD_OFF + SKF_AD_RANDOM: loads 32 random bits
# The last four bytes of the source address.
_IPV6_SOURCE_END, _IPV4_SOURCE = offsets_in("ipv6", "dst")[0] - 4, offsets_in("ipv4", "src")[0]
_VERSION_MASK, _IPV6, _UDP = 0xF0, 0x60, 17
_WORD_MASK = 0xFFFFFF  # QPN and PSN, below a byte of something else
(_NEXT_HEADER_AT,) = fields_at("ipv6", "nh")
(_DPORT_AT,) = fields_at("udp", "dport")
_OPCODE_AT, _FLAGS_AT, _PKEY_AT, _QPN_AT, _PSN_AT = fields_at("bth", "opcode se pkey reserved ackreq")
_REQUESTS = (int(Op.WRITE_FIRST), int(Op.WRITE_ONLY_WITH_IMMEDIATE))
# A jump reaches 255 instructions: with more than so many of a kind it does not distinguish them.
MOST = 64
# PSNs a request may have, from epsn on. No window has more than 255 x 128 PSNs: a filter is good while epsn moves on
# by what they leave over.
BEHIND, AHEAD = 1 << 16, 1 << 17
# Of probes one in so many comes in while a flood of them is kept out. Of 100,000 a second that is 3,000: an answer
# costs both ends more than all else about a probe, and 5,000 of them took a fifth of a QP's goodput.
PROBES_SAMPLED = 32


@record(frozen=True, slots=True)
class Lists:
    """What is let through: UDP ports, QPNs, source addresses (128 bit numbers, of which the last 32 are compared).

    Requests to a QPN in `epsns` have PSNs around its epsn; with `few_probes` one probe in PROBES_SAMPLED, at random.
    """

    udp_ports: Sequence[int]
    qpns: Sequence[int]
    sources: Sequence[int]
    epsns: Mapping[int, int] = field(default_factory=dict)
    few_probes: bool = False


def flood_program(framing: Framing, lists: Lists, *, refused: bool = False) -> list[Instruction]:
    """Lets through, whole, what may be for a QP; with `refused` everything else instead."""
    begin = row_begin(framing)
    accept, refuse = _WHOLE, 0
    if refused:
        accept, refuse = refuse, accept
    program: list[Instruction] = []

    def one_of(loads: Sequence[tuple[int, int]], values: Sequence[int], compare: int = _EQUAL) -> None:
        values = sorted(set(values))
        program.extend((code, 0, 0, operand) for code, operand in loads)
        program.extend((compare, len(values) - number, 0, value) for number, value in enumerate(values))
        program.append((_RETURN, 0, 0, refuse))

    one_of([(_LOAD_LENGTH, 0)], [MIN_PACKET + begin], _AT_LEAST)
    if framing is SRV6:
        one_of([(_LOAD_BYTE, 0), (_AND, _VERSION_MASK)], [_IPV6])
        one_of([(_LOAD_BYTE, _NEXT_HEADER_AT)], [_UDP])
    elif framing is UDP_IPV4:
        one_of([(_LOAD_BYTE, 0)], [NO_OPTIONS])
    one_of([(_LOAD_HALF, _DPORT_AT + begin)], lists.udp_ports)
    one_of([(_LOAD_BYTE, _OPCODE_AT + begin)], [int(op) for op in Op])
    one_of([(_LOAD_BYTE, _FLAGS_AT + begin), (_AND, TVER_MASK)], [0])
    one_of([(_LOAD_HALF, _PKEY_AT + begin)], [P_KEY])
    if len(set(lists.sources)) <= MOST:
        at = _IPV6_SOURCE_END if framing is SRV6 else _NETWORK_HEADER + _IPV6_SOURCE_END
        if framing is UDP_IPV4:
            at = _NETWORK_HEADER + _IPV4_SOURCE
        one_of([(_LOAD_WORD, at)], [source & _WHOLE for source in lists.sources])
    if lists.few_probes:
        program += [
            (_LOAD_BYTE, 0, 0, _OPCODE_AT + begin),
            (_EQUAL, 0, 3, int(Op.PROBE)),
            (_LOAD_WORD, 0, 0, _RANDOM),
            (_AT_LEAST, 0, 1, (1 << 32) // PROBES_SAMPLED),
            (_RETURN, 0, 0, refuse),
        ]
    if len(set(lists.qpns)) <= MOST:
        one_of([(_LOAD_WORD, _QPN_AT + begin), (_AND, _WORD_MASK)], lists.qpns)
        if lists.epsns:
            program += _requests_in_range(begin, lists.epsns, accept, refuse)
    return [*program, (_RETURN, 0, 0, accept)]


def _requests_in_range(begin: int, epsns: Mapping[int, int], accept: int, refuse: int) -> list[Instruction]:
    """Ends the program for requests to these QPNs, by their PSN. All else goes on behind it."""
    of_requests: list[Instruction] = [
        (_LOAD_WORD, 0, 0, _PSN_AT + begin),
        (_KEEP, 0, 0, 0),
        (_LOAD_WORD, 0, 0, _QPN_AT + begin),
        (_AND, 0, 0, _WORD_MASK),
    ]
    for qpn, epsn in epsns.items():
        of_requests += [
            (_EQUAL, 0, 6, qpn),
            (_LOAD_KEPT, 0, 0, 0),
            (_ADD, 0, 0, BEHIND - epsn & _WORD_MASK),
            (_AND, 0, 0, _WORD_MASK),
            (_AT_LEAST, 0, 1, BEHIND + AHEAD),
            (_RETURN, 0, 0, refuse),
            (_RETURN, 0, 0, accept),
        ]
    first, last = _REQUESTS
    return [
        (_LOAD_BYTE, 0, 0, _OPCODE_AT + begin),
        (_AT_LEAST, 0, 1, first),
        (_AT_LEAST, 0, 1, last + 1),
        (_JUMP, 0, 0, len(of_requests)),
        *of_requests,
    ]
