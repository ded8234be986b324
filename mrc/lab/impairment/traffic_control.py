# SPDX-License-Identifier: BSD-2-Clause
"""Traffic-control messages: the queueing disciplines and the filter of an interface, as bytes and back from them.

Attributes and structures are those of linux/rtnetlink.h, pkt_sched.h and pkt_cls.h.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from mrc import netlink
from mrc.lab.netlink import Request
from mrc.netlink import number, text

_NEWQDISC, _DELQDISC, _GETQDISC, _NEWTCLASS, _NEWTFILTER, _DELTFILTER, _GETTFILTER = 36, 37, 38, 40, 44, 45, 46
_REPLACE, _EXCLUSIVE, _CREATE = 0x100, 0x200, 0x400
_ENOENT, _EINVAL = 2, 22

_HEADER = struct.Struct("=BxxxiIII")
_KIND, _OPTIONS, _STATISTICS, _SIZE_TABLE = 1, 2, 7, 8
_SIZE_TABLE_BASE = 1
_SIZE_SPECIFICATION = struct.Struct("=BBhiIIII")
_STATISTICS_QUEUE = 3
_QUEUE_STATISTICS = struct.Struct("=IIIII")

ROOT = 0xFFFFFFFF
_CLSACT_PARENT, _CLSACT_HANDLE = 0xFFFFFFF1, 0xFFFF0000
_INGRESS, _EGRESS = 0xFFFFFFF2, 0xFFFFFFF3

_RATE = struct.Struct("=BBHhHI")
_ETHERNET = 1
_MOST_U32 = 0xFFFFFFFF
_TBF_PARAMETERS, _TBF_RATE64, _TBF_BURST = 1, 4, 6
_TBF_LIMIT_BUFFER_MTU = struct.Struct("=III")
_HTB_PARAMETERS, _HTB_INIT, _HTB_RATE64, _HTB_CEIL64 = 1, 2, 6, 7
_HTB_GLOBAL = struct.Struct("=IIIII")
_HTB_CLASS = struct.Struct("=IIIII")
_HTB_VERSION = 3
_BPF_DESCRIPTOR, _BPF_NAME, _BPF_FLAGS, _BPF_ID = 6, 7, 8, 11
_BPF_DIRECT_ACTION = 1
# Priority and handle of our filter, and every protocol: another's filter on the same interface is another one.
_FILTER_INFO = 0x4D52 << 16 | 0x0300
_FILTER_HANDLE = 1
# The filter of a delay comes first: what it takes has not met the program yet.
_REDIRECT_INFO = 0x4D51 << 16 | 0x0300
_U32_SELECTOR, _U32_ACTIONS = 5, 7
_U32_SELECTOR_FORM, _U32_KEY = struct.Struct("=BBBxHHhhI"), struct.Struct("=4s4sii")
_U32_TERMINAL = 1
# From the network header back to the source MAC address.
_SOURCE_MAC_AT = -8
_ACTION_KIND, _ACTION_OPTIONS, _MIRRED_PARAMETERS = 1, 2, 2
_MIRRED = struct.Struct("=IIiiiiI")
_STOLEN, _EGRESS_REDIRECT = 4, 1


@dataclass(frozen=True, slots=True)
class Discipline:
    """One queueing discipline found. `rate_bps` and `limit_bytes` are those of a tbf, 0 for other kinds; `options` are
    as the kernel sent them."""

    index: int
    handle: int
    parent: int
    kind: str
    dropped_packets: int
    backlog_bytes: int
    rate_bps: int
    limit_bytes: int
    options: bytes = b""

    @property
    def is_clsact(self) -> bool:
        return self.kind == "clsact"


def _message(kind: int, flags: int, index: int, handle: int, parent: int, info: int, attributes: bytes = b"") -> bytes:
    body = _HEADER.pack(0, index, handle, parent, info) + attributes
    return netlink.message(kind, flags, body)


def _rate(bytes_per_s: int) -> bytes:
    # With a known link layer the kernel reckons by itself and wants no table of times from us.
    return _RATE.pack(0, _ETHERNET, 0, 0, 0, min(bytes_per_s, _MOST_U32))


def discipline(what: str, index: int, handle: int, parent: int, kind: str, options: bytes, *, new: bool) -> Request:
    """A discipline of this kind: `new`, in place of what is at `parent` and all below that; else changed."""
    attributes = text(_KIND, kind) + netlink.attribute(_OPTIONS, options) + _sizes(parent)
    flags = netlink.ACK | (_CREATE | _REPLACE if new else 0)
    return Request(what, _message(_NEWQDISC, flags, index, handle, parent, 0, attributes))


def _sizes(parent: int) -> bytes:
    """For what is at the root, an empty size table: the length is taken anew there, where a trimmed packet has got
    shorter since the kernel did. What is below goes by that; newer kernels refuse it a table."""
    if parent != ROOT:
        return b""
    sizes = netlink.attribute(_SIZE_TABLE_BASE, _SIZE_SPECIFICATION.pack(0, 0, 0, 0, _ETHERNET, 0, 0, 0))
    return netlink.attribute(_SIZE_TABLE | netlink.NESTED, sizes)


def token_bucket(
    index: int, handle: int, parent: int, rate_bps: int, burst_bytes: int, limit_bytes: int, *, new: bool
) -> Request:
    """A tbf below `parent`: made, or (not `new`) changed with what waits in it left alone."""
    bytes_per_s = rate_bps // 8
    parameters = _rate(bytes_per_s) + _rate(0) + _TBF_LIMIT_BUFFER_MTU.pack(limit_bytes, 0, 0)
    options = (
        netlink.attribute(_TBF_PARAMETERS, parameters)
        + number(_TBF_BURST, burst_bytes)
        + netlink.attribute(_TBF_RATE64, struct.pack("=Q", bytes_per_s))
    )
    attributes = text(_KIND, "tbf") + netlink.attribute(_OPTIONS | netlink.NESTED, options) + _sizes(parent)
    flags = _CREATE | _EXCLUSIVE if new else 0
    data = _message(_NEWQDISC, netlink.ACK | flags, index, handle, parent, 0, attributes)
    return Request("give a link its rate", data)


def bands(index: int, handle: int, parent: int, default_class: int) -> Request:
    """An htb below `parent`, here only for its classes: they go in the order of their priority."""
    options = netlink.attribute(_HTB_INIT, _HTB_GLOBAL.pack(_HTB_VERSION, 10, default_class & 0xFFFF, 0, 0))
    attributes = text(_KIND, "htb") + netlink.attribute(_OPTIONS | netlink.NESTED, options)
    data = _message(_NEWQDISC, netlink.ACK | _CREATE | _EXCLUSIVE, index, handle, parent, 0, attributes)
    return Request("make the bands of a link's queue", data)


def band(index: int, classid: int, priority: int, rate_bps: int) -> Request:
    """A class of `bands`, of a rate that never holds anything back."""
    bytes_per_s = rate_bps // 8
    rate = _rate(bytes_per_s)
    options = (
        netlink.attribute(
            _HTB_PARAMETERS, rate + rate + _HTB_CLASS.pack(_MOST_U32 >> 8, _MOST_U32 >> 8, 1 << 16, 0, priority)
        )
        + netlink.attribute(_HTB_RATE64, struct.pack("=Q", bytes_per_s))
        + netlink.attribute(_HTB_CEIL64, struct.pack("=Q", bytes_per_s))
    )
    attributes = text(_KIND, "htb") + netlink.attribute(_OPTIONS | netlink.NESTED, options)
    parent = classid & 0xFFFF0000
    data = _message(_NEWTCLASS, netlink.ACK | _CREATE | _EXCLUSIVE, index, classid, parent, 0, attributes)
    return Request("make a band of a link's queue", data)


def fifo(index: int, handle: int, parent: int, limit_bytes: int, *, new: bool) -> Request:
    """A bfifo of `limit_bytes` below a class, made or changed."""
    attributes = text(_KIND, "bfifo") + netlink.attribute(_OPTIONS, struct.pack("=I", limit_bytes))
    flags = _CREATE | _EXCLUSIVE if new else 0
    data = _message(_NEWQDISC, netlink.ACK | flags, index, handle, parent, 0, attributes)
    return Request("give a link its queue", data)


def without(index: int, parent: int) -> Request:
    """Remove the discipline below `parent`, with all below it and all that waits. No error when there is none."""
    data = _message(_DELQDISC, netlink.ACK, index, 0, parent, 0)
    return Request("take a link's rate or delay away", data, frozenset({_ENOENT}))


def hook(index: int) -> Request:
    """The clsact that filters hang on. No error when it is there already."""
    attributes = text(_KIND, "clsact")
    data = _message(_NEWQDISC, netlink.ACK | _CREATE, index, _CLSACT_HANDLE, _CLSACT_PARENT, 0, attributes)
    return Request("make a place for an eBPF program on a link", data)


def without_hook(index: int) -> Request:
    """Remove the clsact and every filter on it. No error when there is none."""
    data = _message(_DELQDISC, netlink.ACK, index, _CLSACT_HANDLE, _CLSACT_PARENT, 0)
    return Request("take an eBPF program off a link", data, frozenset({_ENOENT, _EINVAL}))


def program_filter(index: int, program: int, name: str, *, egress: bool = True) -> Request:
    """Run the eBPF program behind the descriptor `program` on all that leaves, or on all that arrives.

    EEXIST when there is one of ours.
    """
    options = number(_BPF_DESCRIPTOR, program) + text(_BPF_NAME, name) + number(_BPF_FLAGS, _BPF_DIRECT_ACTION)
    attributes = text(_KIND, "bpf") + netlink.attribute(_OPTIONS | netlink.NESTED, options)
    flags = netlink.ACK | _CREATE | _EXCLUSIVE
    data = _message(_NEWTFILTER, flags, index, _FILTER_HANDLE, _where(egress), _FILTER_INFO, attributes)
    return Request("put an eBPF program on a link", data)


def without_filter(index: int) -> Request:
    """Take our filter off. No error when there is none."""
    data = _message(_DELTFILTER, netlink.ACK, index, _FILTER_HANDLE, _EGRESS, _FILTER_INFO, text(_KIND, "bpf"))
    return Request("take an eBPF program off a link", data, frozenset({_ENOENT, _EINVAL}))


def redirect_filter(index: int, to: int, source_mac: bytes) -> Request:
    """Let what leaves with this source MAC address (its first four bytes count) leave by the interface `to` instead.

    EEXIST when there is one of ours.
    """
    selector = _U32_SELECTOR_FORM.pack(_U32_TERMINAL, 0, 1, 0, 0, 0, 0, 0)
    selector += _U32_KEY.pack(b"\xff" * 4, source_mac[:4], _SOURCE_MAC_AT, 0)
    parameters = _MIRRED.pack(0, 0, _STOLEN, 0, 0, _EGRESS_REDIRECT, to)
    action = text(_ACTION_KIND, "mirred") + netlink.attribute(
        _ACTION_OPTIONS | netlink.NESTED, netlink.attribute(_MIRRED_PARAMETERS, parameters)
    )
    options = netlink.attribute(_U32_SELECTOR, selector) + netlink.attribute(
        _U32_ACTIONS | netlink.NESTED, netlink.attribute(1 | netlink.NESTED, action)
    )
    attributes = text(_KIND, "u32") + netlink.attribute(_OPTIONS | netlink.NESTED, options)
    flags = netlink.ACK | _CREATE | _EXCLUSIVE
    data = _message(_NEWTFILTER, flags, index, 0, _EGRESS, _REDIRECT_INFO, attributes)
    return Request("redirect what leaves by a link", data)


def without_redirect(index: int) -> Request:
    """Take the filter of a delay off. No error when there is none."""
    data = _message(_DELTFILTER, netlink.ACK, index, 0, _EGRESS, _REDIRECT_INFO, text(_KIND, "u32"))
    return Request("take the filter of a delay off a link", data, frozenset({_ENOENT, _EINVAL}))


def dump_disciplines() -> bytes:
    return _message(_GETQDISC, netlink.DUMP, 0, 0, 0, 0)


def dump_filters(index: int, *, egress: bool) -> bytes:
    return _message(_GETTFILTER, netlink.DUMP, index, 0, _where(egress), 0)


def _where(egress: bool) -> int:
    return _EGRESS if egress else _INGRESS


def parse_discipline(data: bytes) -> Discipline:
    """One answer to `dump_disciplines`."""
    _, index, handle, parent, _ = _HEADER.unpack_from(data, netlink.HEADER.size)
    found = netlink.attributes(data, netlink.HEADER.size + _HEADER.size)
    kind = found[_KIND].rstrip(b"\0").decode()
    _, backlog, dropped, _, _ = _QUEUE_STATISTICS.unpack_from(
        netlink.attributes(found.get(_STATISTICS, b"")).get(_STATISTICS_QUEUE, bytes(_QUEUE_STATISTICS.size))
    )
    rate_bps = limit = 0
    if kind == "tbf":
        options = netlink.attributes(found[_OPTIONS])
        *_, bytes_per_s = _RATE.unpack_from(options[_TBF_PARAMETERS])
        if _TBF_RATE64 in options:
            (bytes_per_s,) = struct.unpack("=Q", options[_TBF_RATE64])
        rate_bps = bytes_per_s * 8
        limit, _, _ = _TBF_LIMIT_BUFFER_MTU.unpack_from(options[_TBF_PARAMETERS], 2 * _RATE.size)
    return Discipline(index, handle, parent, kind, dropped, backlog, rate_bps, limit, found.get(_OPTIONS, b""))


def parse_filter(data: bytes) -> tuple[bool, int]:
    """(is it ours, the number of its eBPF program) of one answer to `dump_filters`; 0 for none.

    A dump names each priority once more, without a handle.
    """
    _, _, handle, _, info = _HEADER.unpack_from(data, netlink.HEADER.size)
    found = netlink.attributes(data, netlink.HEADER.size + _HEADER.size)
    options = netlink.attributes(found.get(_OPTIONS, b""))
    (program,) = struct.unpack("=I", options.get(_BPF_ID, bytes(4)))
    return info == _FILTER_INFO and handle == _FILTER_HANDLE, program
