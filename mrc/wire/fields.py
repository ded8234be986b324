# SPDX-License-Identifier: BSD-2-Clause
"""The fields of packets in rows of bytes (`mrc.wire.rows`), as numpy reads and writes them.

The layouts are structured dtypes over such rows, so that a field of `n` packets is one strided array. Multi-byte fields
are big-endian in place; assigning to them encodes, reading them decodes. Words that pack several fields of the
specification into one load are named `*_word`: the fields they go from and to are given.

A transfer does without: numpy takes as long to load as all of the endpoint.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mrc.wire.headers import HEADERS
from mrc.wire.profile import WireProfile
from mrc.wire.rows import HEADER_ROOM, header_at

U8 = npt.NDArray[np.uint8]
I64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Fields = npt.NDArray[np.void]
_U32 = npt.NDArray[np.uint32]

Places = dict[str, tuple[str, int]]


def _place(header: str, first: str, last: str | None = None, ts: bool = False) -> tuple[str, int]:
    """Type and place of a field, or of the word from a field `first` to a field `last`."""
    layout = HEADERS[header]
    field = layout.field(first)
    at, length = layout.span(field, layout.field(last or first))
    return f">{'i' if field.signed else 'u'}{length}", header_at(header, ts) + at


def _fields(header: str, names: str, ts: bool = False) -> Places:
    """Whole fields under the names they have in the header."""
    return {name: _place(header, name, ts=ts) for name in names.split()}


def _halves(header: str, name: str) -> Places:
    """An address as two words of 64 bits."""
    at = _place(header, name)[1]
    return {f"{name}_high": (">u8", at), f"{name}_low": (">u8", at + 8)}


def _prefixed(prefix: str, places: Places) -> Places:
    return {f"{prefix}_{name}": place for name, place in places.items()}


_COMMON: Places = {
    "ip_word": _place("ipv6", "version", "fl"),
    **_prefixed("ip", _fields("ipv6", "plen nh hlim")),
    **_halves("ipv6", "src"),
    **_halves("ipv6", "dst"),
    **_prefixed("udp", _fields("udp", "sport dport len chksum")),
    **_fields("bth", "opcode pkey"),
    "flags": _place("bth", "se", "tver"),
    "dqp_word": _place("bth", "reserved", "dqp"),
    "psn_word": _place("bth", "ackreq", "psn"),
}


def _row(extension: Places) -> np.dtype[np.void]:
    fields = {**_COMMON, **extension}
    return np.dtype(
        {
            "names": list(fields),
            "formats": [kind for kind, _ in fields.values()],
            "offsets": [offset for _, offset in fields.values()],
            "itemsize": HEADER_ROOM,
        }
    )


def _request(ts: bool) -> Places:
    immediate = {"immediate": _place("immdt", "data", ts=ts)}
    return _fields("meth", "rqmsn msn") | _fields("reth", "va rkey dmalen", ts) | immediate


def _tseth(header: str, ts: bool = False) -> Places:
    """A time stamp and the word behind it, of a TSETH or of the header that has the like."""
    return _fields(header, "tx_timestamp", ts) | {"tseth_word": _place(header, "tsr", "ftype", ts)}


COMMON = _row({})
REQUEST = _row(_request(ts=False))
REQUEST_TS = _row(_request(ts=True) | _tseth("tseth", ts=True))
ACK = _row({"aeth_word": _place("aeth", "syndrome", "msn")})
SACK = _row(
    {
        "seth_word": _place("seth", "type", "reserved2"),
        **_fields("seth", "ack_psn_offset entropy spdcid dpdcid mpr sack_offset bitmap"),
        "cack_word": _place("seth", "reserved3", "cack_psn"),
        "cc_type": _place("seth", "cc_type", "cc_flags"),
        "tx_timestamp": _place("cc_state", "tx_timestamp"),
        "ooo_count": _place("cc_state", "reserved", "ooo_count"),
        "rcvd_word": _place("cc_state", "restore_cwnd", "rcvd_bytes"),
    }
)
NACK = _row(
    {
        "neth_word": _place("neth", "type", "reserved"),
        **_fields("neth", "reason vendor_info entropy spdcid dpdcid tx_timestamp"),
        "nack_word": _place("neth", "reserved2", "nack_psn"),
        "cc_type": _place("neth", "cc_type", "cc_flags"),
    }
)
PROBE = _row(
    {
        "peth_word": _place("peth", "type", "reserved"),
        **_fields("peth", "vendor_info probe_id spdcid dpdcid"),
        **_tseth("peth"),
    }
)
ENDPOINT_REQUEST = _row(
    {
        "erth_word": _place("erth", "type", "op"),
        **_fields("erth", "vendor_info port_status_mask"),
        **_tseth("erth"),
    }
)
ENDPOINT_RESPONSE = _row({"eeth_word": _place("eeth", "type", "reserved2"), **_fields("eeth", "tx_timestamp")})


def fields_to_ev_array(source_ports: _U32, flow_labels: _U32, profile: WireProfile) -> _U32:
    """`mrc.wire.entropy.fields_to_ev` for many packets; both arrays hold 16-bit values."""
    if profile.ev_low_half_in_source_port:
        return flow_labels << np.uint32(16) | source_ports
    return source_ports << np.uint32(16) | flow_labels
