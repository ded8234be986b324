# SPDX-License-Identifier: BSD-2-Clause
"""What a stranger without a key sends to a port: drawn frames, most of them nearly right."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import random
import ssl
import struct
import zlib

_WORDS = (
    *(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"POST /map.json HTTP/1.0\r\nContent-Length: 999999999\r\n\r\n", b"\x00"),
    *(b"[" * 60_000, b'{"a":' * 9000, b'{"id":1,"op":"hello"}\n', b'{"id":1e999,"op":1}\n', b'"\\ud800"\n', b"NaN\n"),
    *(
        b"9" * 5000 + b"\n",
        b"\xff" * 300,
        b"\r\n\r\n",
        b"GET /" + b"x" * 70_000,
        b"*1\r\n$4\r\nPING\r\n",
        b"SSH-2.0-x\r\n",
    ),
)


def client_hello() -> bytes:
    """What a TLS client says first."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing).do_handshake()
    return outgoing.read()


def damaged(draw: random.Random, whole: bytes) -> bytes:
    """A frame with a few bytes changed, cut, or as it is."""
    found = bytearray(whole)
    for _ in range(draw.choice((0, 1, 1, 3))):
        if found:
            found[draw.randrange(len(found))] = draw.randrange(256)
    return bytes(found[: draw.randrange(len(found) + 1)] if draw.random() < 0.3 else found)


def stream_frame(draw: random.Random) -> bytes:
    """For a TCP or Unix port: TLS hellos, lengths and JSON, requests of other protocols, noise."""
    kind = draw.randrange(4)
    if kind == 0:
        return damaged(draw, _HELLO)
    if kind == 1:
        content = json.dumps(
            {"type": draw.choice(["hello", "greeting", "request"]), "version": draw.randrange(3)}
        ).encode()
        return struct.pack("!I", draw.choice((len(content), 0, 1 << 20, 0xFFFFFFFF))) + damaged(draw, content)
    if kind == 2:
        return damaged(draw, draw.choice(_WORDS))
    return draw.randbytes(draw.randrange(1, 600))


def message(draw: random.Random) -> bytes:
    """For somebody inside TLS who has no ticket: a first message that is nearly a hello."""
    hello = {
        "type": "hello",
        "version": 1,
        "features": [],
        "attempt": 1,
        "resume": False,
        "session": draw.randbytes(16).hex(),
        "proof": draw.randbytes(32).hex(),
    }
    odd = draw.choice([None, -1, 10**39, 1e308, "x", [], {}, [[[]]], "\ud800", True, "x" * 3000])
    hello[draw.choice(list(hello))] = odd  # type: ignore[assignment]
    content = damaged(draw, json.dumps(hello).encode())
    return struct.pack("!I", len(content) if draw.random() < 0.8 else draw.choice((0, 4096, 1 << 31))) + content


def datagram(draw: random.Random, source: str, target: str, source_port: int) -> bytes:
    """For UDP 4791 over IPv6: what follows the UDP header of an MRC packet, with a right ICRC (wire.md section 9)."""
    if draw.random() < 0.1:
        return draw.randbytes(draw.randrange(1, 200))
    opcode = draw.choice((0xC6, 0xC7, 0xC8, 0xC9, 0xCA, 0xCB, 0xD1, 0xD8, 0xD9, 0xDC, 0xDD, 0xDE, draw.randrange(256)))
    dqp = draw.choice((1, 2, draw.randrange(1 << 24)))
    body = struct.pack(">BBHII", opcode, draw.randrange(4) << 4, 0xFFFF, dqp, draw.randrange(1 << 32))
    body += draw.randbytes(draw.choice((0, 8, 16, 24, 32, 36, 64, 600)))
    length = 8 + len(body) + 4
    head = b"\x6f\xff\xff\xff" + struct.pack(">HBB", length, 17, 255)
    head += ipaddress.IPv6Address(source).packed + ipaddress.IPv6Address(target).packed
    masked = bytearray(head + struct.pack(">HHHH", source_port, 4791, length, 0xFFFF) + body)
    masked[52] = 0xFF
    return body + zlib.crc32(b"\xff" * 8 + masked).to_bytes(4, "little")


_HELLO = client_hello()
