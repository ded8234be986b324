"""One line a packet: number, time, source, destination, path, and what it says, in words that read like tshark's.

Words about the transport are those of the Scapy layers' summaries. Only the fields that are shown are read, by the
layouts of `mrc.wire.headers`: this is the way through a capture of millions of packets.
"""

from __future__ import annotations

from collections.abc import Callable

from mrc.capture.ends import Ends, ends_of
from mrc.capture.frames import Record
from mrc.capture.names import ETHER_TYPES, IP_PROTOCOLS
from mrc.capture.transport import icrc_ok
from mrc.capture.walked import Walked
from mrc.wire.headers import HEADERS, unpack_header
from mrc.wire.names import MARKS, NACK_REASONS, OPERATIONS, SYNDROMES
from mrc.wire.opcodes import FIRST_MRC_OPCODE, OPCODES
from mrc.wire.profile import DEFAULT_WIRE_PROFILE, WireProfile
from mrc.wire.psn import PSN_MASK

Picker = Callable[[bytes, int], list[int]]
HEADING = ("no.", "time", "source", "destination", "path", "summary")
_FLOWS_KEPT = 4096


def picker(header: str, *names: str) -> Picker:
    """A function that reads these fields of the `header` at an offset in some bytes, signed ones as unsigned."""
    layout = HEADERS[header]
    length = layout.length
    by_name = {field.name: field for field in layout.fields}
    places = [(by_name[name].shift, (1 << by_name[name].bits) - 1) for name in names]

    def pick(data: bytes, at: int) -> list[int]:
        word = int.from_bytes(data[at : at + length], "big")
        return [word >> shift & mask for shift, mask in places]

    return pick


_BTH = picker("bth", "opcode", "dqp", "ackreq", "rtx", "psn")
_METH = picker("meth", "rqmsn", "msn")
_TSETH = picker("tseth", "tx_timestamp")
_RETH = picker("reth", "va", "dmalen")
_AETH = picker("aeth", "syndrome", "msn")
_SETH = picker("seth", "m", "pr", "ack_psn_offset", "entropy", "cack_psn", "sack_offset", "bitmap")
_CC_STATE = picker("cc_state", "ooo_count")
_NETH = picker("neth", "reason", "entropy", "nack_psn")
_PETH = picker("peth", "probe_id")
_ERTH = picker("erth", "op", "port_status_mask")
_UDP = picker("udp", "sport", "dport")


def _meth(data: bytes, at: int, profile: WireProfile) -> str:
    rqmsn, msn = _METH(data, at)
    return f"MSN={msn} RQMSN={rqmsn}" if rqmsn else f"MSN={msn}"


def _reth(data: bytes, at: int, profile: WireProfile) -> str:
    va, dmalen = _RETH(data, at)
    return f"VA=0x{va:x} Len={dmalen}"


def _aeth(data: bytes, at: int, profile: WireProfile) -> str:
    syndrome, msn = _AETH(data, at)
    return f"{'ACK' if syndrome < 0x20 else SYNDROMES.get(syndrome, f'syndrome 0x{syndrome:02x}')} MSN={msn}"


def _seth(data: bytes, at: int, profile: WireProfile) -> str:
    mark, probe_answer, offset, entropy, cack_psn, sack_offset, bitmap = _SETH(data, at)
    offset_or_id = f"probe_id={offset}" if probe_answer else f"ack={(cack_psn + _signed(offset)) & PSN_MASK}"
    words = f"cack={cack_psn} {offset_or_id} EV=0x{entropy:08x}"
    if mark:
        words += f" [{MARKS[mark]}]"
    return f"{words} bitmap={_signed(sack_offset):+d}:0x{bitmap:x}" if bitmap else words


def _signed(value: int) -> int:
    return value - 0x10000 if value & 0x8000 else value


def _cc_state(data: bytes, at: int, profile: WireProfile) -> str:
    (held,) = _CC_STATE(data, at)
    return f"ooo={held}" if held else ""


def _neth(data: bytes, at: int, profile: WireProfile) -> str:
    reason, entropy, nack_psn = _NETH(data, at)
    return f"{NACK_REASONS.get(reason, f'reason 0x{reason:02x}')} nack={nack_psn} EV=0x{entropy:08x}"


def _erth(data: bytes, at: int, profile: WireProfile) -> str:
    op, ports = _ERTH(data, at)
    return OPERATIONS.get(op, f"op {op}") + (f" ports=0x{ports:x}" if op == 0 else "")


def _eeth(data: bytes, at: int, profile: WireProfile) -> str:
    op = unpack_header("eeth", data[at : at + HEADERS["eeth"].length], profile)["op"]
    return OPERATIONS.get(op, f"op {op}")


def _one(header: str, field: str, form: str) -> Callable[[bytes, int, WireProfile], str]:
    pick = picker(header, field)
    return lambda data, at, profile: form.format(pick(data, at)[0])


_WORDS: dict[str, Callable[[bytes, int, WireProfile], str]] = {
    "meth": _meth,
    "tseth": _one("tseth", "tx_timestamp", "TS={}"),
    "reth": _reth,
    "immdt": _one("immdt", "data", "Imm=0x{:08x}"),
    "aeth": _aeth,
    "seth": _seth,
    "cc_state": _cc_state,
    "neth": _neth,
    "peth": _one("peth", "probe_id", "probe_id={}"),
    "erth": _erth,
    "eeth": _eeth,
    "atomiceth": _one("atomiceth", "va", "VA=0x{:x}"),
    "atomicacketh": _one("atomicacketh", "orig", "Orig={}"),
    "deth": _one("deth", "sqpn", "SQP=0x{:06x}"),
    "ieth": _one("ieth", "rkey", "Invalidate=0x{:08x}"),
}


def transport_words(walked: Walked, profile: WireProfile = DEFAULT_WIRE_PROFILE) -> str:
    """The transport headers in words: opcode, queue pair, PSN, then what each further header adds."""
    data = walked.data
    layers = walked.layers
    # Everything from the UDP header on was found in one go, the BTH first.
    bth = walked.transport_index
    if bth is None or bth >= len(layers):
        return "RoCEv2"
    value, dqp, ackreq, rtx, psn = _BTH(data, layers[bth][1])
    opcode = OPCODES.get(value)
    words = f"{opcode.name if opcode else f'Unknown opcode 0x{value:02x}'} QP=0x{dqp:06x} PSN={psn}"
    if ackreq:
        words += " [AckReq]"
    if rtx and value >= FIRST_MRC_OPCODE:
        words += " [rtx]"
    for name, at in layers[bth + 1 :]:
        more = _WORDS[name](data, at, profile)
        if more:
            words += " " + more
    return words


def info(walked: Walked, profile: WireProfile = DEFAULT_WIRE_PROFILE) -> str:
    """What a packet says and what is wrong with it."""
    if walked.transport_at is not None:
        words = transport_words(walked, profile)
        if walked.payload_length:
            words += f" Payload={walked.payload_length}"
        if icrc_ok(walked, profile) is False:
            words += " [ICRC wrong]"
        if walked.trimmed:
            words += " [trimmed]"
    else:
        words = _other_words(walked)
    return f"{words} [malformed: {walked.malformed}]" if walked.malformed else words


def _other_words(walked: Walked) -> str:
    """A packet that is not RoCE: what its last header says comes next."""
    if not walked.layers:
        return f"Length={walked.payload_length}"
    data = walked.data
    name, at = walked.layers[-1]
    length = walked.payload_length
    if name == "udp":
        sport, dport = _UDP(data, at)
        return f"UDP {sport} > {dport} Len={length}"
    if walked.ip:
        at = walked.ip[-1]
        kind = data[at + 9] if data[at] >> 4 == 4 else data[at + 6]
        if name == "srh":
            kind = data[walked.layers[-1][1]]
        return f"{IP_PROTOCOLS.get(kind, f'IP protocol {kind}')} Len={length}"
    # The Ethernet type is the last two bytes of each of these headers, and all of what "sll" points at.
    at += {"ether": 12, "vlan": 2, "sll": 0}[name]
    kind = data[at] << 8 | data[at + 1]
    return f"{ETHER_TYPES.get(kind, f'Ethernet type 0x{kind:04x}')} Len={length}"


class Summary:
    """Lines for the packets of one capture, columns as wide as the widest so far.

    Times are in seconds since the first packet. The path is that of `mrc.capture.ends`.
    """

    def __init__(self, profile: WireProfile = DEFAULT_WIRE_PROFILE) -> None:
        self._profile = profile
        self.start: int | None = None
        self._widths = [len(text) for text in HEADING[2:5]]
        self._last_ends: Ends | None = None
        self._last_text = ""
        self._flows: dict[bytes, Ends] = {}

    def heading(self) -> str:
        """The line to print above the one last made."""
        number, time, source, destination, path, words = HEADING
        return f"{number:>6} {time:>12}  {self.aligned((source, destination, path))}  {words}"

    def line(self, number: int, record: Record, walked: Walked) -> str:
        """The line for packet `number`, without a line break."""
        time = "-"
        if record.time_ns is not None:
            if self.start is None:
                self.start = record.time_ns
            time = f"{(record.time_ns - self.start) / 1e9:.6f}"
        ends = self.ends(walked)
        if ends is not self._last_ends:
            self.widen(ends)
            self._last_ends, self._last_text = ends, self.aligned(ends)
        return f"{number:>6} {time:>12}  {self._last_text}  {info(walked, self._profile)}"

    def widen(self, ends: Ends) -> bool:
        """Make the columns wide enough for these; whether they were not."""
        widths = [max(len(text), width) for text, width in zip(ends, self._widths, strict=True)]
        wider, self._widths = widths != self._widths, widths
        return wider

    def aligned(self, ends: Ends) -> str:
        """Source, destination and path as they stand in a line."""
        return "  ".join(text.ljust(width) for text, width in zip(ends, self._widths, strict=True))

    def ends(self, walked: Walked) -> Ends:
        """Source, destination and path of a packet."""
        data, ip = walked.data, walked.ip
        if len(ip) != 2 or ip[1] != ip[0] + 40 or data[ip[1]] >> 4 == 4:
            return ends_of(walked, self._profile)
        # By far the most common: one outer header. Its path follows from its destination alone.
        last = ip[1]
        key = data[last - 16 : last] + data[last + 8 : last + 40]
        flow = self._flows.get(key)
        if flow is None:
            if len(self._flows) >= _FLOWS_KEPT:
                self._flows.clear()
            flow = self._flows[key] = ends_of(walked, self._profile)
        return flow
