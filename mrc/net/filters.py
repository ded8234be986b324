# SPDX-License-Identifier: BSD-2-Clause
"""Classic BPF filters: what the kernel is not even to queue for a raw socket."""

from __future__ import annotations

import ctypes
import socket
import struct
from collections.abc import Collection, Sequence

from mrc.net.ports import SRV6, SRV6_SRH, UDP_IPV4, Framing
from mrc.wire.ipv4 import IPV4_HEADER, NO_OPTIONS
from mrc.wire.rows import MIN_PACKET, UDP_AT, fields_at, masks_in, offsets_in
from mrc.wire.srh import SRH_HEAD, SRH_LENGTH

SO_ATTACH_FILTER, SO_DETACH_FILTER = 26, 27
_UDP = 17
(_UDP_DPORT,) = offsets_in("udp", "dport")
(_QPN_AT,) = fields_at("bth", "reserved")
(_QPN_MASK,) = masks_in("bth", "dqp")

# An instruction: (code, jump if true, jump if false, operand).
_LOAD_WORD, _LOAD_HALF, _LOAD_BYTE, _LOAD_LENGTH, _AND = 0x20, 0x28, 0x30, 0x80, 0x54
_JUMP_IF_EQUAL, _JUMP_IF_AT_LEAST, _RETURN = 0x15, 0x35, 0x06
_WHOLE = 0xFFFFFFFF
(_NEXT_HEADER,) = offsets_in("ipv6", "nh")
Instruction = tuple[int, int, int, int]
DROP_ALL: list[Instruction] = [(_RETURN, 0, 0, 0)]


def accept_ports(udp_ports: Sequence[int], *, ipv4: bool) -> list[Instruction]:
    """A filter for a raw UDP socket: whole packets to one of these destination ports, IPv4 ones without options."""
    ports = sorted(set(udp_ports))
    # A raw IPv4 socket sees the IP header, a raw IPv6 socket begins with UDP.
    program: list[Instruction] = []
    if ipv4:
        program += [(_LOAD_BYTE, 0, 0, 0), (_JUMP_IF_EQUAL, 0, len(ports) + 1, NO_OPTIONS)]
    program.append((_LOAD_HALF, 0, 0, _UDP_DPORT + (IPV4_HEADER if ipv4 else 0)))
    program += [(_JUMP_IF_EQUAL, len(ports) - number, 0, port) for number, port in enumerate(ports)]
    return [*program, (_RETURN, 0, 0, 0), (_RETURN, 0, 0, _WHOLE)]


def attach_filter(sock: socket.socket, program: Sequence[Instruction]) -> None:
    """Give a socket a classic BPF filter (struct sock_fprog)."""
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *each) for each in program))
    sock.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, struct.pack("@HP", len(program), ctypes.addressof(code)))


def detach_filter(sock: socket.socket) -> None:
    """Let a socket have everything again."""
    sock.setsockopt(socket.SOL_SOCKET, SO_DETACH_FILTER, 0)


def accept_srh() -> list[Instruction]:
    """A filter for a raw socket for routing headers: a segment routing header of one segment without TLV, nothing left
    of it, IPv6 behind it."""
    # Its first four bytes, segments left taken off.
    (head,) = struct.unpack_from("!I", SRH_HEAD)
    return [
        # What is not there cannot be loaded, and ends the program with a refusal.
        (_LOAD_BYTE, 0, 0, SRH_LENGTH - 1),
        (_LOAD_WORD, 0, 0, 0),
        (_JUMP_IF_EQUAL, 1, 0, head & ~0xFF),
        (_RETURN, 0, 0, 0),
        (_RETURN, 0, 0, _WHOLE),
    ]


def only_qpns(
    base: Sequence[Instruction], framing: Framing, udp_ports: Sequence[int], qpns: Collection[int]
) -> list[Instruction]:
    """What `base` lets through, but for MRC packets to other QPNs. `base` ends with the instruction that accepts.

    What is too short to have a QPN, or not to one of these UDP ports, is let through: the endpoint counts it.
    """
    begin = row_begin(framing)
    accept: Instruction = (_RETURN, 0, 0, _WHOLE)
    program: list[Instruction] = [
        *base[:-1],
        (_LOAD_LENGTH, 0, 0, 0),
        (_JUMP_IF_AT_LEAST, 1, 0, MIN_PACKET + begin),
        accept,
    ]
    if framing.outer:
        # The sockets of other framings are given UDP to these ports only.
        ports = sorted(set(udp_ports))
        program += [
            (_LOAD_BYTE, 0, 0, _NEXT_HEADER + begin),
            (_JUMP_IF_EQUAL, 1, 0, _UDP),
            accept,
            (_LOAD_HALF, 0, 0, UDP_AT + _UDP_DPORT + begin),
            *((_JUMP_IF_EQUAL, len(ports) - number, 0, port) for number, port in enumerate(ports)),
            accept,
        ]
    program += [(_LOAD_WORD, 0, 0, _QPN_AT + begin), (_AND, 0, 0, _QPN_MASK)]
    for qpn in sorted(qpns):
        program += [(_JUMP_IF_EQUAL, 0, 1, qpn), accept]
    return [*program, (_RETURN, 0, 0, 0)]


def row_begin(framing: Framing) -> int:
    """Where a socket's view of a packet has the (inner) IPv6 header that a row of a batch begins with."""
    if framing is SRV6:
        return 0
    if framing is SRV6_SRH:
        return SRH_LENGTH
    return IPV4_HEADER - UDP_AT if framing is UDP_IPV4 else -UDP_AT
