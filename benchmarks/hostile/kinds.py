# SPDX-License-Identifier: BSD-2-Clause
"""The kinds of hostile packets, made from what was overheard: each says whom it is for and what is wrong with it."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from hostile.overheard import Overheard
from mrc.wire.headers import HEADERS, pack_header, unpack_header
from mrc.wire.icrc import icrc_bytes, icrc_ipv6
from mrc.wire.opcodes import ICRC_LENGTH, Op
from mrc.wire.packet import encode_transport
from mrc.wire.psn import PSN_MODULUS
from mrc.wire.rows import BTH_AT, EXTENSION_AT, UDP_AT, header_at

SENDER, RECEIVER = "sender", "receiver"
PAYLOAD_BYTES = 256
UDP_PORT = 4791
_TRAFFIC_CLASS_OF_DSCP = 2
# So far behind what was overheard, or ahead of it, that no window reaches it while one flood lasts.
_FAR = PSN_MODULUS // 4
_DSCP_TRIMMED = 12

Layers = list[tuple[str, dict[str, int]]]


@dataclass(frozen=True, slots=True)
class Kind:
    """`make(overheard, random)` gives one inner packet; `target` is the end it is thrown at."""

    name: str
    target: str
    says: str
    make: Callable[[Overheard, random.Random], bytes]


def packet(like: bytes, transport: bytes, *, source: bytes = b"", dscp: int = 0, good_icrc: bool = True) -> bytes:
    """An inner packet between the ends of `like` around `transport` (BTH to padding), with an ICRC."""
    length = HEADERS["udp"].length + len(transport) + ICRC_LENGTH
    ipv6 = unpack_header("ipv6", like) | {"tc": dscp << _TRAFFIC_CLASS_OF_DSCP, "fl": 0, "plen": length, "hlim": 64}
    if source:
        ipv6["src"] = int.from_bytes(source, "big")
    udp = unpack_header("udp", like[UDP_AT:]) | {"dport": UDP_PORT, "len": length, "chksum": 0}
    head = pack_header("ipv6", ipv6) + pack_header("udp", udp)
    icrc = icrc_ipv6(head + transport)
    return head + transport + icrc_bytes(icrc if good_icrc else icrc ^ 0xA5A5A5A5)


def bth_of(like: bytes) -> dict[str, int]:
    return unpack_header("bth", like[BTH_AT:])


def _from_the_other_end(like: bytes) -> bytes:
    """The packet with source and destination address exchanged."""
    ipv6 = unpack_header("ipv6", like)
    return pack_header("ipv6", ipv6 | {"src": ipv6["dst"], "dst": ipv6["src"]}) + like[UDP_AT:]


def _request(heard: Overheard, chance: random.Random, *, psn: int | None = None, dqp: int | None = None) -> bytes:
    """A request like the one overheard, with an own payload; its PSN far behind where nothing else is said."""
    bth = bth_of(heard.request)
    meth = unpack_header("meth", heard.request[header_at("meth") :])
    reth = unpack_header("reth", heard.request[header_at("reth", bool(bth["ts"])) :])
    old = (bth["psn"] - _FAR - chance.randrange(1 << 20)) % PSN_MODULUS
    layers: Layers = [
        ("bth", {"opcode": Op.WRITE_MIDDLE, "pkey": 0xFFFF, "dqp": bth["dqp"] if dqp is None else dqp,
                 "psn": old if psn is None else psn}),
        ("meth", meth),
        ("reth", reth | {"rkey": reth["rkey"] ^ chance.randrange(1, 1 << 32)}),
    ]  # fmt: skip
    return encode_transport(layers, chance.randbytes(PAYLOAD_BYTES))


def _noise(heard: Overheard, chance: random.Random) -> bytes:
    return chance.randbytes(BTH_AT + PAYLOAD_BYTES)


def _noise_to_the_port(heard: Overheard, chance: random.Random) -> bytes:
    return packet(heard.request, chance.randbytes(PAYLOAD_BYTES), good_icrc=False)


def _wrong_icrc(heard: Overheard, chance: random.Random) -> bytes:
    return packet(heard.request, _request(heard, chance), good_icrc=False)


def _unknown_qp(heard: Overheard, chance: random.Random) -> bytes:
    return packet(heard.request, _request(heard, chance, dqp=chance.randrange(0x10, 1 << 24)))


def _wrong_source(heard: Overheard, chance: random.Random) -> bytes:
    return packet(heard.request, _request(heard, chance), source=b"\xfd" + chance.randbytes(15))


def _bad_rkey(heard: Overheard, chance: random.Random) -> bytes:
    return packet(heard.request, _request(heard, chance))


def _beyond_window(heard: Overheard, chance: random.Random) -> bytes:
    psn = (bth_of(heard.request)["psn"] + _FAR + chance.randrange(1 << 20)) % PSN_MODULUS
    return packet(heard.request, _request(heard, chance, psn=psn))


def _probe(heard: Overheard, chance: random.Random) -> bytes:
    bth: dict[str, int] = {"opcode": Op.PROBE, "pkey": 0xFFFF, "dqp": bth_of(heard.request)["dqp"]}
    peth = {"probe_id": chance.randrange(1 << 16), "tx_timestamp": 1, "ftype": 1}
    return packet(heard.request, encode_transport([("bth", bth), ("peth", peth)]))


def _endpoint_request(heard: Overheard, chance: random.Random, source: bytes) -> bytes:
    bth: dict[str, int] = {"opcode": Op.ENDPOINT_REQUEST, "pkey": 0xFFFF, "dqp": 2, "psn": chance.randrange(1 << 16)}
    erth = {"op": 1, "tx_timestamp": 1, "ftype": 1}
    return packet(heard.request, encode_transport([("bth", bth), ("erth", erth)]), source=source)


def _ev_probe_of_a_stranger(heard: Overheard, chance: random.Random) -> bytes:
    return _endpoint_request(heard, chance, b"\xfd" + chance.randbytes(15))


def _ev_probe_of_the_peer(heard: Overheard, chance: random.Random) -> bytes:
    return _endpoint_request(heard, chance, b"")


def _trimmed(heard: Overheard, chance: random.Random) -> bytes:
    """Cut after the METH: no ICRC says that it was not made up."""
    whole = packet(heard.request, _request(heard, chance), dscp=_DSCP_TRIMMED)
    return whole[: EXTENSION_AT + 8]


def _sack(heard: Overheard, away: int) -> bytes:
    bth = bth_of(heard.sack)
    seth = unpack_header("seth", heard.sack[header_at("seth") :])
    cc_state = unpack_header("cc_state", heard.sack[header_at("cc_state") :])
    moved = {"cack_psn": (seth["cack_psn"] + away) % PSN_MODULUS}
    # From the receiver to the sender.
    like = _from_the_other_end(heard.request)
    bth["psn"] = moved["cack_psn"]
    transport = encode_transport([("bth", bth), ("seth", seth | moved), ("cc_state", cc_state)])
    return packet(like, transport)


def _sack_of_unsent(heard: Overheard, chance: random.Random) -> bytes:
    return _sack(heard, _FAR + chance.randrange(1 << 20))


def _stale_sack(heard: Overheard, chance: random.Random) -> bytes:
    return _sack(heard, -_FAR - chance.randrange(1 << 20))


def _replayed_sack(heard: Overheard, chance: random.Random) -> bytes:
    return _sack(heard, 0)


def _nack(heard: Overheard, chance: random.Random) -> bytes:
    bth = bth_of(heard.sack)
    seth = unpack_header("seth", heard.sack[header_at("seth") :])
    psn = (seth["cack_psn"] + _FAR + chance.randrange(1 << 20)) % PSN_MODULUS
    like = _from_the_other_end(heard.request)
    layers: Layers = [
        ("bth", bth | {"opcode": Op.NACK, "psn": psn}),
        ("neth", {"reason": 1, "nack_psn": psn, "entropy": seth["entropy"]}),
    ]
    return packet(like, encode_transport(layers))


KINDS = (
    Kind("noise", RECEIVER, "random bytes in an outer header", _noise),
    Kind("noise-4791", RECEIVER, "random bytes behind a UDP header to port 4791", _noise_to_the_port),
    Kind("wrong-icrc", RECEIVER, "requests to the QP with a wrong ICRC", _wrong_icrc),
    Kind("unknown-qp", RECEIVER, "good requests to QPs that do not exist", _unknown_qp),
    Kind("wrong-source", RECEIVER, "good requests to the QP from made-up addresses", _wrong_source),
    Kind("bad-rkey", RECEIVER, "the peer's address, old PSNs, wrong R_Keys", _bad_rkey),
    Kind("beyond-window", RECEIVER, "the peer's address, PSNs beyond the window", _beyond_window),
    Kind("trimmed", RECEIVER, "the peer's address, cut short as if by a switch", _trimmed),
    Kind("probes", RECEIVER, "reliability probes with the peer's address", _probe),
    Kind("ev-probes", RECEIVER, "EV probes to DQP 2 with the peer's address", _ev_probe_of_the_peer),
    Kind("ev-probes-stranger", RECEIVER, "EV probes to DQP 2 from made-up addresses", _ev_probe_of_a_stranger),
    Kind("sack-unsent", SENDER, "SACKs for what was never sent, with the peer's address", _sack_of_unsent),
    Kind("sack-stale", SENDER, "SACKs for what was sent long ago, with the peer's address", _stale_sack),
    Kind("sack-replayed", SENDER, "one SACK of the peer again and again", _replayed_sack),
    Kind("nack-unsent", SENDER, "NACKs for what was never sent, with the peer's address", _nack),
)
