# SPDX-License-Identifier: BSD-2-Clause
"""The ICRC of many packets (wire.md section 9): what `mrc.capture.transport.icrc_ok` says of each."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mrc.capture.columns.stacks import Stack
from mrc.capture.frames import I64, U8, Frames, rows_at
from mrc.wire.crc import crcs
from mrc.wire.icrc import BTH_ICRC_MASK, ICRC_MASK, ICRC_SEED, IPV6_HEADER, IPV6_ICRC_MASK, TRANSPORT_ICRC_MASK
from mrc.wire.ipv4 import IPV4_HEADER, IPV4_ICRC_MASK
from mrc.wire.opcodes import ICRC_LENGTH
from mrc.wire.profile import WireProfile

I8 = npt.NDArray[np.int8]

RIGHT, WRONG, NOT_THERE = 1, 0, -1
# An IPv4 header and what follows it up to the BTH's reserved byte.
_IPV6_MASK: U8 = np.frombuffer(ICRC_MASK, np.uint8)
_GRH_MASK: U8 = np.frombuffer(IPV6_ICRC_MASK + BTH_ICRC_MASK, np.uint8)
_IPV4_MASK: U8 = np.frombuffer(IPV4_ICRC_MASK + TRANSPORT_ICRC_MASK, np.uint8)


def mask_of(stack: Stack, profile: WireProfile) -> U8 | None:
    """What counts as ones from the covered IP header on; None for stacks that need the slow way."""
    if not stack.ip or (profile.icrc_covers_outer and len(stack.ip) > 1):
        return None
    innermost = [name for name, at in stack.layers if at == stack.ip[-1] and name in ("ipv4", "ipv6", "grh")]
    if innermost == ["grh"] and stack.transport_at == stack.ip[-1] + IPV6_HEADER:
        return _GRH_MASK
    if innermost == ["ipv6"] and stack.udp_at == stack.ip[-1] + IPV6_HEADER:
        return _IPV6_MASK
    if innermost == ["ipv4"] and stack.udp_at == stack.ip[-1] + IPV4_HEADER:
        return _IPV4_MASK
    return None


def verdicts(frames: Frames, rows: I64, ip_at: int, mask: U8, icrc_at: I64) -> I8:
    """RIGHT or WRONG for each of `rows`, whose covered IP header is at `ip_at` and whose ICRC at `icrc_at` [rows]."""
    covered = len(mask)
    begin = frames.start[rows] + ip_at
    heads = rows_at(frames.data, begin, covered) | mask
    stop = frames.start[rows] + icrc_at
    sent = rows_at(frames.data, stop, ICRC_LENGTH).view("<u4")[:, 0]
    computed = np.full(len(rows), ICRC_SEED, np.uint32)
    head: I64 = np.arange(len(rows), dtype=np.int64) * covered
    crcs(heads.reshape(-1).data, head.data, (head + covered).data, computed.data)
    crcs(frames.data.data, (begin + covered).data, stop.data, computed.data)
    return np.asarray(computed == sent).astype(np.int8)
