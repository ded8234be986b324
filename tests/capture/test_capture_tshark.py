# SPDX-License-Identifier: BSD-2-Clause
"""Every field that tshark and we both know, in every packet of every capture there is: pcaps/ and shared/pcaps.

tshark's own dissectors for what carries a packet and for RoCEv2 RC, our Lua script for MRC.
"""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from test_capture_wireshark import FIELDS, TRUE, Tshark

from mrc.cli import main

pytestmark = [
    pytest.mark.tshark,
    pytest.mark.skipif(shutil.which("tshark") is None and not os.environ.get("CI"), reason="tshark is not installed"),
]

ROOT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("MRC_SHARED", ROOT.parent / "shared")) / "pcaps"
ENDINGS = (".pcap", ".pcapng", ".pcap.gz", ".pcapng.gz")
CAPTURES = sorted(
    path
    for root in (ROOT / "pcaps", SHARED)
    if root.is_dir()
    for path in root.rglob("*")
    if path.name.endswith(ENDINGS)
)
# tshark's name -> layer, field.
CARRIERS = {
    "eth.dst": ("ether", "dst"),
    "eth.src": ("ether", "src"),
    "vlan.id": ("vlan", "vid"),
    "vlan.priority": ("vlan", "pcp"),
    "vlan.etype": ("vlan", "type"),
    "sll.etype": ("sll", "protocol"),
    "ip.dsfield": ("ipv4", "tos"),
    "ip.len": ("ipv4", "len"),
    "ip.id": ("ipv4", "id"),
    "ip.flags": ("ipv4", "flags"),
    "ip.ttl": ("ipv4", "ttl"),
    "ip.proto": ("ipv4", "proto"),
    "ip.checksum": ("ipv4", "chksum"),
    "ip.src": ("ipv4", "src"),
    "ip.dst": ("ipv4", "dst"),
    "ipv6.tclass": ("ipv6", "tc"),
    "ipv6.flow": ("ipv6", "fl"),
    "ipv6.plen": ("ipv6", "plen"),
    "ipv6.nxt": ("ipv6", "nh"),
    "ipv6.hlim": ("ipv6", "hlim"),
    "ipv6.src": ("ipv6", "src"),
    "ipv6.dst": ("ipv6", "dst"),
    "ipv6.routing.nxt": ("srh", "nh"),
    "ipv6.routing.len": ("srh", "len"),
    "ipv6.routing.type": ("srh", "type"),
    "ipv6.routing.segleft": ("srh", "segleft"),
    "ipv6.routing.srh.last_entry": ("srh", "lastentry"),
    "ipv6.routing.srh.flags": ("srh", "flags"),
    "ipv6.routing.srh.tag": ("srh", "tag"),
    "ipv6.routing.srh.addr": ("srh", "segments"),
    "udp.srcport": ("udp", "sport"),
    "udp.dstport": ("udp", "dport"),
    "udp.length": ("udp", "len"),
    "udp.checksum": ("udp", "chksum"),
}
STANDARD = {
    "infiniband.bth.opcode": ("bth", "opcode"),
    "infiniband.bth.se": ("bth", "se"),
    "infiniband.bth.m": ("bth", "m"),
    "infiniband.bth.padcnt": ("bth", "pad"),
    "infiniband.bth.tver": ("bth", "tver"),
    "infiniband.bth.p_key": ("bth", "pkey"),
    "infiniband.bth.destqp": ("bth", "dqp"),
    "infiniband.bth.a": ("bth", "ackreq"),
    "infiniband.bth.psn": ("bth", "psn"),
    "infiniband.reth.va": ("reth", "va"),
    "infiniband.reth.r_key": ("reth", "rkey"),
    "infiniband.reth.dmalen": ("reth", "dmalen"),
    "infiniband.aeth.syndrome": ("aeth", "syndrome"),
    "infiniband.aeth.msn": ("aeth", "msn"),
    "infiniband.immdt": ("immdt", "data"),
    "infiniband.atomiceth.swapdt": ("atomiceth", "swap"),
    "infiniband.atomiceth.cmpdt": ("atomiceth", "compare"),
    "infiniband.atomicacketh.origremdt": ("atomicacketh", "orig"),
    "infiniband.deth.q_key": ("deth", "qkey"),
    "infiniband.deth.srcqp": ("deth", "sqpn"),
    "infiniband.ieth": ("ieth", "rkey"),
}
MRC = {name: (name.split(".")[1], name.split(".")[2]) for name in FIELDS}
VERDICTS = (
    "frame.time_epoch",
    "mrc.icrc_ok",
    "mrc.trimmed",
    "mrc.malformed",
    "mrc.icrc.crc",
    "infiniband.invariant.crc",
)
# tshark has one name for the address and the key of a RETH and of an AtomicETH.
ALSO = {("reth", "va"): "atomiceth", ("reth", "rkey"): "atomiceth"}


def dissected(path: Path) -> list[dict[str, Any]]:
    """What `mrc dissect --json` prints. A capture cut short fails with a line, after what was whole."""
    result = CliRunner().invoke(main, ["dissect", str(path), "--json"])
    assert result.exit_code == 0 or (result.exit_code == 1 and len(result.stderr.splitlines()) == 1), result.output
    found: list[dict[str, Any]] = json.loads(result.stdout)
    return found


def ours(packet: dict[str, Any], layer: str, field: str) -> list[Any]:
    """A field in each layer that has it, lists spread out."""
    names = {layer, ALSO.get((layer, field), layer)}
    values = [each["fields"][field] for each in packet["layers"] if each["layer"] in names and field in each["fields"]]
    return [one for value in values for one in (value if isinstance(value, list) else [value])]


def number(text: str) -> int:
    """tshark's spellings of numbers: decimal, 0x, True, bytes in hex."""
    if text in ("True", "False"):
        return int(text == "True")
    try:
        return int(text, 0)
    except ValueError:
        return int(text.replace(":", ""), 16)


BYTES = {"infiniband.immdt", "infiniband.ieth", "ipv6.routing.srh.tag"}


def theirs(name: str, text: str, like: list[Any]) -> list[Any]:
    parts = text.split(",")
    if like and isinstance(like[0], str):
        return parts
    return [int(part.replace(":", ""), 16) if name in BYTES else number(part) for part in parts]


def compare(packet: dict[str, Any], row: dict[str, str]) -> Counter[str]:
    """Holds a packet to tshark's row of it; which fields were compared."""
    compared: Counter[str] = Counter()
    broken = packet["malformed"] is not None
    transport = any(layer["layer"] == "bth" for layer in packet["layers"])
    is_mrc = transport and ours(packet, "bth", "opcode")[0] >= 0xC0
    names = {**CARRIERS, **(MRC if is_mrc else STANDARD if transport else {})}
    for name, (layer, field) in names.items():
        values = ours(packet, layer, field)
        text = row.get(name)
        if not values:
            continue
        where = f"packet {packet['number']}: {name}"
        if text is None:
            # Of what is broken one may read further than the other; a cut header tshark shows in part or not at all.
            assert broken, where
            continue
        found = theirs(name, text, values)
        if transport and not broken:
            assert found == values, where
        else:
            # Of what carries something else tshark reads on, in ICMP errors for one.
            common = min(len(found), len(values)) if broken else len(values)
            assert found[:common] == values[:common], where
        compared[name] += len(values)
    compared += verdicts(packet, row, is_mrc, transport)
    return compared


def verdicts(packet: dict[str, Any], row: dict[str, str], is_mrc: bool, transport: bool) -> Counter[str]:
    """Time, ICRC, trimmed and malformed."""
    assert packet["time"] == row["frame.time_epoch"]
    crc = next((layer["fields"]["crc"] for layer in packet["layers"] if layer["layer"] == "icrc"), None)
    name = "mrc.icrc.crc" if is_mrc else "infiniband.invariant.crc"
    if transport and crc is not None and name in row:
        # tshark's own dissector shows the four bytes in wire order.
        shown = number(row[name])
        assert shown == crc
    if is_mrc:
        assert (row.get("mrc.trimmed") in TRUE) == packet["trimmed"]
        assert row.get("mrc.malformed") == packet["malformed"]
        assert (row["mrc.icrc_ok"] in TRUE if "mrc.icrc_ok" in row else None) == packet["icrc_ok"]
    return Counter({"frame.time_epoch": 1, name: int(crc is not None)})


@pytest.mark.parametrize("path", CAPTURES, ids=[path.name for path in CAPTURES])
def test_every_field_is_tsharks(path: Path, tmp_path: Path) -> None:
    tshark = Tshark(tmp_path)
    columns = [*CARRIERS, *STANDARD, *MRC, *VERDICTS]
    rows = tshark.rows(columns, "-o", "udp.check_checksum:FALSE", capture=path)
    packets = dissected(path)
    assert len(rows) == len(packets) > 0
    compared: Counter[str] = Counter()
    for row, packet in zip(rows, packets, strict=True):
        compared += compare(packet, row)
    assert compared["frame.time_epoch"] == len(packets)
    assert sum(compared.values()) > len(packets)


def test_the_captures_are_all_there() -> None:
    assert ROOT / "pcaps" / "softroce-rc-ipv4-ipv6.pcap" in CAPTURES
    if not SHARED.is_dir():
        missing = "no shared/pcaps: set MRC_SHARED to the directory that has it"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    assert len([path for path in CAPTURES if path.is_relative_to(SHARED / "external")]) == 12
