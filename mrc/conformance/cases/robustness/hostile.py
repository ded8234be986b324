# SPDX-License-Identifier: BSD-2-Clause
"""What the cases of this group are written with: packets of every kind, broken in every way, and what has to hold after
them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from mrc.conformance.requirements import ROBUSTNESS
from mrc.conformance.script import Bench, Crafted, Heard, ms, pattern, us, wire
from mrc.conformance.script import case as any_case

# A case of this group, whichever its requirement belongs to.
case = partial(any_case, group=ROBUSTNESS)
BTH = 12
ICRC = 4
_AT_ONCE = 64
_ANSWERS = ("SACK", "ACK", "NAK", "NACK", "ENDPOINT_RESPONSE")


def every_kind(bench: Bench) -> dict[str, Crafted]:
    """A packet of every kind, each as it should be. Requests have no payload where their opcode allows it, and PSNs
    from 1 on, so that nothing of them is in order. The target has a write of its own out, PSN 0."""
    write = bench.written(0, pattern(16))
    make, mtu = bench.make, bench.mtu
    stranger = Heard(
        0, 0, b"", write.carriage, {"bth": {"opcode": wire.ENDPOINT_REQUEST, "psn": 77}, "erth": _ERTH}, b"", b"",
        None, bench.profile, 0,
    )  # fmt: skip
    return {
        "First": make.request(1, pattern(mtu), opcode=wire.FIRST, dmalen=2 * mtu),
        "Middle": make.request(2, pattern(mtu), opcode=wire.MIDDLE, dmalen=3 * mtu),
        "Last": make.request(3, pattern(9), opcode=wire.LAST, dmalen=mtu + 9),
        "Last with Immediate": make.request(4, pattern(9), opcode=wire.LAST, dmalen=mtu + 9, immediate=1),
        "Only": make.request(5),
        "Only with TSETH": make.request(6, timestamp=9),
        "Only with Immediate": make.request(7, immediate=2),
        "ACK": make.ack(0, msn=1),
        "NAK": make.aeth(0, wire.REMOTE_ACCESS_ERROR),
        "SACK": make.sack(0, to=write),
        "NACK": make.nack(write, wire.UNEXP_EVENT),
        "PROBE": make.probe(5),
        "ENDPOINT_REQUEST": make.endpoint_request(6, op=wire.PORT_STATUS_UPDATE, mask=0),
        "ENDPOINT_RESPONSE": make.endpoint_response(stranger),
    }


_ERTH = {"op": wire.EV_PROBE, "tx_timestamp": 0}


def transport(packet: Crafted) -> bytes:
    """A packet's bytes from its BTH up to its ICRC."""
    carried = packet.frame()
    return carried[len(carried) - (packet.size - 48) : -ICRC]


def headers_of(packet: Crafted) -> int:
    """Bytes from the BTH up to the payload."""
    return len(transport(packet)) - len(packet.payload) - (-len(packet.payload) % 4)


def know_ordinary_counters(bench: Bench) -> None:
    """On a connection of its own the target gets one packet of each kind that is as it should be: the counters that
    rise then say nothing of what was dropped."""
    other = bench.another()
    bench.mark_counters()
    other.request(0, pattern(8), ackreq=1)
    other.probe(1)
    other.endpoint_request(1)
    other.post_write(pattern(8))
    other.wait(us(100))
    other.nack(other.expect("WRITE", psn=0), wire.TRIMMED_LASTHOP)
    write = other.expect("WRITE", psn=0, rtx=1)
    other.wait(us(100))
    other.sack(0, to=write)
    other.post_write(pattern(8))
    other.wait(us(100))
    other.ack(1, msn=2)
    other.post_write(pattern(8))
    other.expect("WRITE", psn=2)
    other.nak(2, wire.INVALID_REQUEST)
    bench.wait(us(100))
    bench.read()
    bench.leave_out_risen_counters()


def send_all(bench: Bench, packets: Sequence[Crafted]) -> None:
    """Send these, some in a burst: whatever they are the target takes them or leaves them, and says nothing of it to
    the tester but in packets."""
    for first in range(0, len(packets), _AT_ONCE):
        bench.send(*packets[first : first + _AT_ONCE])
        bench.wait(us(1))


def expect_dropped(bench: Bench, packets: Iterable[Crafted]) -> None:
    """None of these is answered, and each is counted."""
    sent = list(packets)
    bench.read(*_ANSWERS)
    bench.mark_counters()
    send_all(bench, sent)
    bench.expect_dropped(len(sent))
    found = bench.read(*_ANSWERS)
    bench.check(not found, "no answer to any of them", f"there are {len(found)}: {found[0] if found else ''}")


def expect_unharmed(bench: Bench, psn: int = 0, *, cack_psn: int | None = None, write_out: bool = True) -> None:
    """The target works as before: nothing was written, PSN `psn` is the next one, the QP is in RTS. With `write_out`
    its write, PSN 0, is still out, and completes once it is acknowledged."""
    bench.expect_state("RTS")
    bench.expect_nothing_written()
    bench.expect_works(psn, cack_psn=cack_psn)
    bench.expect_no_completion()
    if write_out:
        bench.ack(0, msn=1)
        bench.wait(us(10))
        bench.expect_completion("WRITE")
    bench.read()
    bench.post_write(pattern(24))
    bench.expect("WRITE", payload=pattern(24), within=ms(1))
