# SPDX-License-Identifier: BSD-2-Clause
"""The layout of every header, bit by bit, as data (wire.md sections 3 to 8).

Each layout reads like the tables it comes from: `name:bits` in wire order, `s` marking a signed field. Names are
those of wire.md section 13; reserved fields are `reserved`, `reserved2`, ... Whatever else knows where a field lies has
it from here: lengths, the places of a row (`mrc.wire.rows`), numpy's layouts (`mrc.wire.fields`), Wireshark's fields.
The one-packet codec below is for captures, crafting and tests; the endpoint uses `mrc.wire.received_batch` and
`mrc.wire.transmit_batch`.
"""

from __future__ import annotations

from collections.abc import Mapping

from mrc.errors import CallerError, MalformedPacket
from mrc.records import record
from mrc.wire.profile import DEFAULT_WIRE_PROFILE, WireProfile


@record(frozen=True, slots=True)
class Field:
    """One field: `shift` is the distance of its lowest bit from the end of the header."""

    name: str
    shift: int
    bits: int
    signed: bool

    @property
    def reserved(self) -> bool:
        return self.name.startswith("reserved")


@record(frozen=True, slots=True)
class HeaderLayout:
    """A header of `length` bytes and its fields in wire order."""

    name: str
    length: int
    fields: tuple[Field, ...]

    @classmethod
    def parse(cls, name: str, text: str) -> HeaderLayout:
        fields: list[Field] = []
        for item in reversed(text.split()):
            field, _, width = item.partition(":")
            bits = width.removeprefix("s")
            if not field.isidentifier() or not bits.isdecimal():
                raise CallerError(f"layout of {name}: {item!r} is not name:bits")
            shift = fields[-1].shift + fields[-1].bits if fields else 0
            fields.append(Field(field, shift, int(bits), bits != width))
        total = fields[-1].shift + fields[-1].bits if fields else 0
        if not total or total % 8:
            raise CallerError(f"layout of {name} is not a whole number of bytes")
        return cls(name, total // 8, tuple(reversed(fields)))

    def field(self, name: str) -> Field:
        """The field of that name. Raises CallerError when there is none."""
        for field in self.fields:
            if field.name == name:
                return field
        raise CallerError(f"{self.name} has no field {name}")

    def span(self, first: Field, last: Field | None = None) -> tuple[int, int]:
        """(first byte, number of bytes) of what a field has bits in, or the fields from `first` to `last`."""
        at = self.length - -(-(first.shift + first.bits) // 8)
        return at, self.length - (last or first).shift // 8 - at

    def unpack(self, data: bytes | memoryview) -> dict[str, int]:
        """Every field of a header that starts `data`. Raises MalformedPacket when the bytes end before it does."""
        if len(data) < self.length:
            raise MalformedPacket("short_header", f"{self.name} takes {self.length} bytes, {len(data)} are left")
        word = int.from_bytes(data[: self.length], "big")
        values = {}
        for field in self.fields:
            value = word >> field.shift & (1 << field.bits) - 1
            if field.signed and value >> (field.bits - 1):
                value -= 1 << field.bits
            values[field.name] = value
        return values

    def pack(self, values: Mapping[str, int]) -> bytes:
        """The header's bytes; fields not named are 0. Raises CallerError for an unknown name or a value too wide."""
        word = 0
        left = dict(values)
        for field in self.fields:
            value = left.pop(field.name, 0)
            low, high = (-(1 << field.bits - 1), 1 << field.bits - 1) if field.signed else (0, 1 << field.bits)
            if not low <= value < high:
                raise CallerError(f"{self.name}.{field.name} must be {low}..{high - 1}, got {value}")
            word |= (value & (1 << field.bits) - 1) << field.shift
        if left:
            raise CallerError(f"{self.name} has no field {', '.join(left)}")
        return word.to_bytes(self.length, "big")


_TRANSPORT = {
    # section 3 (A; SE and M: C)
    "bth": "opcode:8 se:1 m:1 pad:2 tver:4 pkey:16 fecn:1 becn:1 reserved:6 dqp:24 "
    "ackreq:1 reserved2:1 rtx:1 ts:1 reserved3:4 psn:24",
    # section 4 (A)
    "meth": "rqmsn:16 msn:16",
    "tseth": "tx_timestamp:16 tsr:1 reserved:11 ftype:4",
    "reth": "va:64 rkey:32 dmalen:32",
    "immdt": "data:32",
    # section 5 (A)
    "aeth": "syndrome:8 msn:24",
    # section 6 (A; spdcid and dpdcid: C)
    "seth": "type:4 next:5 m:2 reserved:3 pr:1 reserved2:1 ack_psn_offset:s16 entropy:32 spdcid:16 dpdcid:16 "
    "reserved3:8 cack_psn:24 cc_type:4 cc_flags:4 mpr:8 sack_offset:s16 bitmap:64",
    "cc_state": "tx_timestamp:16 reserved:1 ooo_count:15 restore_cwnd:1 rcv_cwnd_pen:7 rcvd_bytes:24",
    # section 7 (A; cc_type: C)
    "neth": "type:4 next:5 reserved:7 reason:8 vendor_info:8 entropy:32 spdcid:16 dpdcid:16 reserved2:8 nack_psn:24 "
    "cc_type:4 cc_flags:4 reserved3:8 tx_timestamp:16",
    # section 8 (A; port numbering and op of the EETH: C)
    "peth": "type:4 next:5 reserved:7 reserved2:8 vendor_info:8 probe_id:16 reserved3:16 spdcid:16 dpdcid:16 "
    "tx_timestamp:16 tsr:1 reserved4:11 ftype:4",
    "erth": "type:4 next:5 reserved:5 op:2 reserved2:8 vendor_info:8 port_status_mask:32 reserved3:32 "
    "tx_timestamp:16 tsr:1 reserved4:11 ftype:4",
    "eeth": "type:4 next:5 reserved:3 op:2 reserved2:2 reserved3:208 tx_timestamp:16 reserved4:48",
    # standard RoCEv2 (IBTA chapter 9)
    "atomiceth": "va:64 rkey:32 swap:64 compare:64",
    "atomicacketh": "orig:64",
    "deth": "qkey:32 reserved:8 sqpn:24",
    "ieth": "rkey:32",
    "rdeth": "reserved:8 eec:24",
    "xrceth": "reserved:8 xrcsrq:24",
}
# What carries it; addresses are numbers here.
_CARRIERS = {
    "udp": "sport:16 dport:16 len:16 chksum:16",
    "ipv6": "version:4 tc:8 fl:20 plen:16 nh:8 hlim:8 src:128 dst:128",
    "ipv4": "version:4 ihl:4 tos:8 len:16 id:16 flags:3 frag:13 ttl:8 proto:8 chksum:16 src:32 dst:32",
    "srh": "nh:8 len:8 type:8 segleft:8 lastentry:8 flags:8 tag:16",
    "ether": "dst:48 src:48 type:16",
    "vlan": "pcp:3 dei:1 vid:12 type:16",
    # The global route header of RoCEv1 (IBTA 8.3), laid out like IPv6.
    "grh": "version:4 tc:8 fl:20 plen:16 nh:8 hlim:8 src:128 dst:128",
    # Of these two the one field that says what follows.
    "sll": "protocol:16",
    "null": "family:8",
    # What captures were carried or taken in; mrc.capture.carriers says what is inside. Of a header with options the
    # part that is always there.
    "vntag": "d:1 p:1 dvif:14 l:1 r:1 version:2 svif:12 type:16",
    "mpls": "label:20 tc:3 s:1 ttl:8",
    "pppoe": "version:4 type:4 code:8 session:16 len:16",
    "ppp": "protocol:16",
    "ppp_short": "protocol:8",
    "gre": "c:1 r:1 k:1 s:1 strict:1 recursion:3 a:1 reserved:4 version:3 protocol:16",
    "erspan2": "version:4 vlan:12 cos:3 en:2 t:1 session:10 reserved:12 index:20",
    "erspan3": "version:4 vlan:12 cos:3 bso:2 t:1 session:10 timestamp:32 sgt:16 p:1 ft:5 hw:6 d:1 gra:2 o:1",
    "vxlan": "flags:16 group:16 vni:24 reserved:8",
    "geneve": "version:2 optlen:6 o:1 c:1 reserved:6 protocol:16 vni:24 reserved2:8",
}

HEADERS: dict[str, HeaderLayout] = {
    name: HeaderLayout.parse(name, text) for name, text in (_TRANSPORT | _CARRIERS).items()
}
TRANSPORT_HEADERS = frozenset(_TRANSPORT)
BTH_LENGTH: int = HEADERS["bth"].length
# Bytes of each header that may follow a BTH.
HEADER_LENGTHS: dict[str, int] = {name: HEADERS[name].length for name in _TRANSPORT if name != "bth"}


def unpack_header(name: str, data: bytes | memoryview, profile: WireProfile = DEFAULT_WIRE_PROFILE) -> dict[str, int]:
    """Fields of one header as wire.md section 13 names them, the profile's grade-C switches applied."""
    values = HEADERS[name].unpack(data)
    if name == "seth" and values["pr"]:
        return {("probe_id" if k == "ack_psn_offset" else k): v & 0xFFFF if k == "ack_psn_offset" else v
                for k, v in values.items()}  # fmt: skip
    if name == "bth":
        standard = values["opcode"] < 0xC0
        if not profile.solicited_event_first and not standard:
            values["se"], values["m"] = values["m"], values["se"]
        if standard:
            # The rtx and ts bits do not exist in standard RoCEv2: there they are reserved.
            values["reserved3"] |= values["rtx"] << 5 | values["ts"] << 4
            values["rtx"] = values["ts"] = 0
    elif name == "eeth" and profile.eeth_op_shift == 4:
        bits = values["reserved"] << 4 | values["op"] << 2 | values["reserved2"]
        values["op"] = bits >> 4 & 3
        values["reserved"], values["reserved2"] = bits >> 6, bits & 0xF
    return values


def pack_header(name: str, values: Mapping[str, int], profile: WireProfile = DEFAULT_WIRE_PROFILE) -> bytes:
    """Bytes of one header from fields named as in wire.md section 13. Raises CallerError as HeaderLayout.pack."""
    values = dict(values)
    if name == "seth" and "probe_id" in values:
        probe_id = values.pop("probe_id")
        if not 0 <= probe_id <= 0xFFFF:
            raise CallerError(f"seth.probe_id must be 0..65535, got {probe_id}")
        values["ack_psn_offset"] = probe_id - (probe_id >> 15 << 16)
    elif name == "bth":
        standard = values.get("opcode", 0) < 0xC0
        if not profile.solicited_event_first and not standard:
            values["se"], values["m"] = values.get("m", 0), values.get("se", 0)
        if standard and values.get("reserved3", 0) > 0xF:
            bits = values["reserved3"]
            values |= {"rtx": bits >> 5 & 1, "ts": bits >> 4 & 1, "reserved3": bits & 0xF}
    elif name == "eeth" and profile.eeth_op_shift == 4:
        bits = values.get("reserved", 0) << 6 | values.get("op", 0) << 4 | values.get("reserved2", 0)
        values |= {"reserved": bits >> 4 & 7, "op": bits >> 2 & 3, "reserved2": bits & 3}
    return HEADERS[name].pack(values)


def shown(values: Mapping[str, int]) -> dict[str, int]:
    """The fields a person is shown: reserved ones only when not zero (wire.md section 13)."""
    return {name: value for name, value in values.items() if value or not name.startswith("reserved")}
