# SPDX-License-Identifier: BSD-2-Clause
"""The shortest packet of each opcode, against wire.md by hand, in an endpoint whose module is imported afresh.

The table of least lengths is worked out when the module is imported: a fresh copy works it out while the test runs.
"""

from __future__ import annotations

import importlib
import importlib.util
from types import ModuleType

from hand_peer import in_ipv6

from mrc.wire.received_batch import ReceivedBatch

HEAD = 40 + 8 + 12  # IPv6, UDP, BTH
ICRC = 4
# wire.md, sections 2 to 8: bytes between BTH and ICRC without TSETH, and whether a payload may follow.
METH, TSETH, RETH, IMMDT = 4, 4, 16, 4
LENGTHS = {
    0xC6: (METH + RETH, True),
    0xC7: (METH + RETH, True),
    0xC8: (METH + RETH, True),
    0xC9: (METH + RETH + IMMDT, True),
    0xCA: (METH + RETH, True),
    0xCB: (METH + RETH + IMMDT, True),
    0xD1: (4, False),
    0xD8: (16, False),
    0xD9: (36, False),
    0xDC: (36, False),
    0xDD: (20, False),
    0xDE: (16, False),
}


def _afresh() -> ModuleType:
    """A second copy of the module; the one everybody else has imported stays what it is."""
    spec = importlib.import_module("mrc.endpoint.endpoint").__spec__
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _counted(
    module: ModuleType, opcode: int, after_bth: int, *, ts: bool = False, beside: bytes = b""
) -> dict[str, int]:
    """What is counted for a packet to a QP nobody knows, with this many bytes between BTH and ICRC."""
    bth = bytes((opcode, 0, 0xFF, 0xFF, 0, 0x12, 0x34, 0x56, 0x10 if ts else 0, 0, 0, 0))
    packets = [in_ipv6(bth + bytes(after_bth)), *([beside] if beside else [])]
    endpoint = module.Endpoint()
    endpoint.receive(ReceivedBatch.from_packets(packets), 0)
    counted: dict[str, int] = endpoint.total_counters().as_dict()
    return counted


def test_a_packet_is_as_long_as_its_headers_at_least() -> None:
    """wire.md: "headers after the BTH" by opcode; control packets are exactly that long."""
    module = _afresh()
    taken, dropped = {"unknown_qp": 1}, {"bad_length": 1}
    for opcode, (length, payload) in LENGTHS.items():
        counted = [_counted(module, opcode, length + more) for more in (-1, 0, 1)]
        assert counted == [dropped, taken, taken if payload else dropped], hex(opcode)


def test_a_timestamp_makes_requests_longer_and_nothing_else() -> None:
    """wire.md section 4: TSETH, 4 bytes, where `ts` is set; control packets have none."""
    module = _afresh()
    for opcode, (length, request) in LENGTHS.items():
        longer = length + (TSETH if request else 0)
        counted = [_counted(module, opcode, longer + more, ts=True) for more in (-1, 0)]
        assert counted == [{"bad_length": 1}, {"unknown_qp": 1}], hex(opcode)


def test_an_unknown_opcode_has_no_length_at_all() -> None:
    """wire.md section 2: what is not in the table is dropped as such, short or long, alone or beside good packets."""
    module = _afresh()
    good = in_ipv6(bytes((0xD1, 0, 0xFF, 0xFF, 0, 0x12, 0x34, 0x56, 0, 0, 0, 0)) + bytes(4))
    for opcode in (0x00, 0x0A, 0x11, 0xC5, 0xCC, 0xD0, 0xFF):
        for after_bth in (0, 100, 4200):
            alone, both = (_counted(module, opcode, after_bth, beside=beside) for beside in (b"", good))
            assert alone == {"unknown_opcode": 1}, hex(opcode)
            assert both == {"unknown_opcode": 1, "unknown_qp": 1}, hex(opcode)


def test_a_packet_is_at_least_a_bth_and_an_icrc() -> None:
    """wire.md section 1: what has no room for them is too short to say anything."""
    packet = in_ipv6(bytes(12))
    assert len(packet) == HEAD + ICRC
    endpoint = _afresh().Endpoint()
    for cut in (1, 20, HEAD):
        endpoint.receive(ReceivedBatch.from_packets([packet[:-cut], packet[:-cut]]), 0)
    assert endpoint.total_counters().as_dict() == {"too_short": 6}
