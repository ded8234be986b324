"""The fields of packets in rows of bytes (`mrc.wire.rows`), as numpy reads and writes them.

The layouts are structured dtypes over such rows, so that a field of `n` packets is one strided array. Multi-byte fields
are big-endian in place; assigning to them encodes, reading them decodes. Words that pack several fields of the
specification into one load are named `*_word`; their bits are given beside them.

A transfer does without: numpy takes as long to load as all of the endpoint.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mrc.wire.profile import WireProfile
from mrc.wire.rows import HEADER_ROOM

U8 = npt.NDArray[np.uint8]
I64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Fields = npt.NDArray[np.void]
_U32 = npt.NDArray[np.uint32]

_COMMON: dict[str, tuple[str, int]] = {
    "ip_word": (">u4", 0),  # version(4) traffic class(8) flow label(20)
    "ip_plen": (">u2", 4),
    "ip_nh": ("u1", 6),
    "ip_hlim": ("u1", 7),
    "src_high": (">u8", 8),
    "src_low": (">u8", 16),
    "dst_high": (">u8", 24),
    "dst_low": (">u8", 32),
    "udp_sport": (">u2", 40),
    "udp_dport": (">u2", 42),
    "udp_len": (">u2", 44),
    "udp_chksum": (">u2", 46),
    "opcode": ("u1", 48),
    "flags": ("u1", 49),
    "pkey": (">u2", 50),
    "dqp_word": (">u4", 52),  # reserved(8) dqp(24)
    "psn_word": (">u4", 56),
}


def _row(**extension: tuple[str, int]) -> np.dtype[np.void]:
    fields = {**_COMMON, **extension}
    return np.dtype(
        {
            "names": list(fields),
            "formats": [kind for kind, _ in fields.values()],
            "offsets": [offset for _, offset in fields.values()],
            "itemsize": HEADER_ROOM,
        }
    )


def _request(reth: int) -> dict[str, tuple[str, int]]:
    return {
        "rqmsn": (">u2", 60),
        "msn": (">u2", 62),
        "va": (">u8", reth),
        "rkey": (">u4", reth + 8),
        "dmalen": (">u4", reth + 12),
        "immediate": (">u4", reth + 16),
    }


COMMON = _row()
REQUEST = _row(**_request(64))
# tseth_word: tsr(1) reserved(11) ftype(4)
REQUEST_TS = _row(tx_timestamp=(">u2", 64), tseth_word=(">u2", 66), **_request(68))
ACK = _row(aeth_word=(">u4", 60))  # syndrome(8) msn(24)
SACK = _row(
    seth_word=(">u2", 60),  # type(4) next(5) m(2) reserved(3) pr(1) reserved(1)
    ack_psn_offset=(">i2", 62),
    entropy=(">u4", 64),
    spdcid=(">u2", 68),
    dpdcid=(">u2", 70),
    cack_word=(">u4", 72),  # reserved(8) cack_psn(24)
    cc_type=("u1", 76),
    mpr=("u1", 77),
    sack_offset=(">i2", 78),
    bitmap=(">u8", 80),
    tx_timestamp=(">u2", 88),
    ooo_count=(">u2", 90),
    rcvd_word=(">u4", 92),  # restore_cwnd(1) rcv_cwnd_pen(7) rcvd_bytes(24)
)
NACK = _row(
    neth_word=(">u2", 60),
    reason=("u1", 62),
    vendor_info=("u1", 63),
    entropy=(">u4", 64),
    spdcid=(">u2", 68),
    dpdcid=(">u2", 70),
    nack_word=(">u4", 72),  # reserved(8) nack_psn(24)
    cc_type=("u1", 76),
    tx_timestamp=(">u2", 78),
)
PROBE = _row(
    peth_word=(">u2", 60),
    vendor_info=("u1", 63),
    probe_id=(">u2", 64),
    spdcid=(">u2", 68),
    dpdcid=(">u2", 70),
    tx_timestamp=(">u2", 72),
    tseth_word=(">u2", 74),
)
ENDPOINT_REQUEST = _row(
    erth_word=(">u2", 60),  # type(4) next(5) reserved(5) op(2)
    vendor_info=("u1", 63),
    port_status_mask=(">u4", 64),
    tx_timestamp=(">u2", 72),
    tseth_word=(">u2", 74),
)
ENDPOINT_RESPONSE = _row(eeth_word=(">u2", 60), tx_timestamp=(">u2", 88))


def fields_to_ev_array(source_ports: _U32, flow_labels: _U32, profile: WireProfile) -> _U32:
    """`mrc.wire.entropy.fields_to_ev` for many packets; both arrays hold 16-bit values."""
    if profile.ev_low_half_in_source_port:
        return flow_labels << np.uint32(16) | source_ports
    return source_ports << np.uint32(16) | flow_labels
