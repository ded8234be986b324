# SPDX-License-Identifier: BSD-2-Clause
"""Has the target send a packet of every kind, for cases about what all packets have in common."""

from __future__ import annotations

from mrc.conformance.script import Bench, Heard, ms, pattern, us, wire

# Opcodes that the exercise below brings out of any target that can be told to write.
BROUGHT_OUT = frozenset(
    {wire.FIRST, wire.MIDDLE, wire.LAST, wire.ONLY, wire.PROBE, wire.SACK, wire.ACK, wire.ENDPOINT_RESPONSE}
)


def every_kind(bench: Bench) -> list[Heard]:
    """All the target sends when it writes, is left waiting, is written to and is probed. Fails when a kind lacks."""
    bench.post_write(pattern(2 * bench.mtu + 5))
    bench.post_write(pattern(3), offset=65536)
    bench.wait(ms(40))
    bench.ack(3, msn=2)
    bench.request(0, ackreq=1)
    bench.request(bench.window + 1)
    bench.probe(3)
    bench.endpoint_request(7, timestamp=1)
    bench.wait(us(100))
    found = bench.all_heard
    there = {packet.layers["bth"]["opcode"] for packet in found if "bth" in packet.layers}
    lacking = ", ".join(f"{opcode:#x}" for opcode in sorted(BROUGHT_OUT - there))
    bench.check(not lacking, "packets of every kind from the target", f"none came with opcode {lacking}")
    return found
