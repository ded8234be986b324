# SPDX-License-Identifier: BSD-2-Clause
"""One packet through a link program, without a link (BPF_PROG_TEST_RUN): what comes out, and what it costs."""

from __future__ import annotations

import ctypes
import struct
from dataclasses import dataclass

from mrc.lab.bpf import libbpf
from mrc.lab.bpf.program import LinkProgram

_MOST_PACKET_BYTES = 1 << 16
# struct __sk_buff (linux/bpf.h) and where in it, in bytes, the fields lie that a caller may set or wants to see.
_CONTEXT_BYTES = 192
_MARK_AT, _PRIORITY_AT, _WIRE_LEN_AT, _GSO_SEGS_AT, _GSO_SIZE_AT = 8, 32, 160, 164, 176
_TC_ACT_OK = 0


@dataclass(frozen=True, slots=True)
class Trial:
    """What became of a packet: whether it goes on, as which frame, in which tc class, and the time one run took."""

    passed: bool
    frame: bytes
    tc_class: int
    ns: int


def run(program: LinkProgram, frame: bytes, *, repeat: int = 1, segment_bytes: int = 0) -> Trial:
    """Run `program` on a frame that begins with its Ethernet header. Its maps change as with a packet on a link.

    With `repeat` above 1 the same buffer goes through again and again, changed by what went before. `segment_bytes`:
    as a segment-offloaded packet of segments this long. Raises SystemRefused.
    """
    context = ctypes.create_string_buffer(_CONTEXT_BYTES)
    struct.pack_into("=I", context, _WIRE_LEN_AT, len(frame))
    if segment_bytes:
        struct.pack_into("=I", context, _GSO_SIZE_AT, segment_bytes)
        struct.pack_into("=I", context, _GSO_SEGS_AT, -(-len(frame) // segment_bytes))
    given = ctypes.create_string_buffer(frame, len(frame))
    result = ctypes.create_string_buffer(_MOST_PACKET_BYTES)
    options = libbpf.TestRunOptions(
        data_in=ctypes.addressof(given),
        data_size_in=len(frame),
        data_out=ctypes.addressof(result),
        data_size_out=_MOST_PACKET_BYTES,
        ctx_in=ctypes.addressof(context),
        ctx_size_in=_CONTEXT_BYTES,
        ctx_out=ctypes.addressof(context),
        ctx_size_out=_CONTEXT_BYTES,
        repeat=repeat,
    )
    libbpf.test_run(program.descriptor, options)
    (tc_class,) = struct.unpack_from("=I", context, _PRIORITY_AT)
    return Trial(options.retval == _TC_ACT_OK, result.raw[: options.data_size_out], tc_class, options.duration)
