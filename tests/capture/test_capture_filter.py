# SPDX-License-Identifier: BSD-2-Clause
"""Filters: what they let through, against a reading of the JSON documents; and what is said of mistakes in them."""

from __future__ import annotations

import functools
import io
import json
import operator
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from capture_forms import interface as described
from capture_forms import on_ethernet, pcap, section, simple
from draws import draws
from hypothesis import given, settings
from hypothesis import strategies as st
from packet_vectors import PACKETS
from test_capture_columns import IPV6, SRH, WHOLE, Item, capture, items, under_srv6
from vector_forms import ipv6_packet
from vectors import VECTORS

from mrc.capture.columns import Columns, read_columns
from mrc.capture.fields import packet_document
from mrc.capture.filter import Filter, FilterError
from mrc.capture.filter.names import FIELDS, MAC, NUMBER
from mrc.capture.filter.names import IPV4 as OLD_ADDRESS
from mrc.capture.filter.names import IPV6 as ADDRESS

Document = dict[str, Any]
SIGNS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
FRAMES = [on_ethernet(packet) for packet in (*WHOLE, under_srv6(IPV6[0], SRH))]
CUT, WRONG = FRAMES[1][:80], FRAMES[1][:-1] + bytes([FRAMES[1][-1] ^ 1])
MIXED = pcap([*FRAMES, CUT, WRONG])


@functools.lru_cache(maxsize=1)
def runs(data: bytes) -> list[Columns]:
    return list(read_columns(io.BytesIO(data), "it"))


def passed(data: bytes, text: str) -> list[int]:
    """Numbers of the packets that pass."""
    wanted = Filter(text)
    return [number for columns in runs(data) for number in columns.numbers[wanted.chosen(columns)].tolist()]


def documents(data: bytes) -> list[Document]:
    return [
        packet_document(columns.first + row, columns.frames.record(row), columns.walked(row))
        for columns in runs(data)
        for row in range(len(columns))
    ]


def values(document: Document, layer: str, field: str) -> list[Any]:
    """Each occurrence of a field in a document."""
    found = [each for each in document["layers"] if each["layer"] == layer]
    if layer == "payload":
        return [each["length"] for each in found]
    return [each["fields"][field] for each in found if field in each["fields"]]


def by_hand(data: bytes, layer: str, field: str, sign: str, wanted: Any) -> list[int]:
    """One comparison, read off the documents: it holds for one occurrence; != for all there are."""
    holds = SIGNS[sign]
    numbers = []
    for document in documents(data):
        there = values(document, layer, field)
        if there and (all if sign == "!=" else any)(holds(each, wanted) for each in there):
            numbers.append(document["number"])
    return numbers


COMPARED = [name for name in FIELDS.values() if name.layer and name.kind == NUMBER]


@settings(max_examples=draws(37))
@given(st.lists(items(), min_size=1, max_size=12), st.data())
def test_any_comparison_is_that_of_the_documents(packets: list[Item], data: st.DataObject) -> None:
    file = capture(packets)
    name = data.draw(st.sampled_from(COMPARED))
    seen = sorted({each for document in documents(file) for each in values(document, name.layer, name.field)})
    near = st.sampled_from(seen).flatmap(lambda value: st.integers(-1, 1).map(lambda more: value + more))
    wanted = data.draw(st.one_of(near, st.integers(-5, 1 << 64)) if seen else st.integers(-5, 300))
    sign = data.draw(st.sampled_from(sorted(SIGNS)))
    assert passed(file, f"{name.text} {sign} {wanted}") == by_hand(file, name.layer, name.field, sign, wanted)


def test_every_field_of_every_packet_finds_it() -> None:
    compared = set()
    for document in documents(MIXED):
        for layer in document["layers"]:
            name = layer["layer"]
            fields = layer.get("fields", {"length": layer.get("length")})
            assert document["number"] in passed(MIXED, name)
            for field, value in fields.items():
                for each in value if isinstance(value, list) else [value]:
                    assert document["number"] in passed(MIXED, f"{name}.{field} == {each}"), (name, field, each)
                    compared.add(f"{name}.{field}")
    missing = {name.text for name in FIELDS.values() if name.layer and not name.field.startswith("reserved")} - compared
    # No MRC vector rides on these.
    standard = {"atomiceth", "atomicacketh", "deth", "ieth", "rdeth", "xrceth"}
    tunnels = {"gre", "erspan2", "erspan3", "vxlan", "geneve", "mpls", "pppoe", "ppp", "ppp_short", "vntag"}
    assert {name.partition(".")[0] for name in missing} <= {"vlan", "sll", "null", "grh", *standard, *tunnels}
    assert {FIELDS[name].kind for name in compared} == {NUMBER, MAC, ADDRESS, OLD_ADDRESS}


def test_what_a_filter_knows_of_a_whole_packet_is_in_its_document_under_the_same_name() -> None:
    """But for time_relative: a document does not know the first packet's time. And the opcode goes by its word."""
    names = [name.text for name in FIELDS.values() if not name.layer and name.text != "time_relative"]
    assert {"number", "length", "ev", "path", "icrc_ok", "trimmed", "malformed"} <= set(names)
    compared = set()
    for document in documents(MIXED):
        for name in names:
            value = document[name]
            if isinstance(value, str):
                wanted = f'"{value.partition(":")[0]}"' if name == "malformed" else f'"{value}"'
            else:
                wanted = json.dumps(value)  # true, false, null for icrc_ok, or a number
            if value is None and name != "icrc_ok":
                # What a packet does not have makes every comparison false.
                assert document["number"] not in passed(MIXED, f"{name} == 3 or {name} != 3" if name == "ev" else name)
                continue
            assert document["number"] in passed(MIXED, f"{name} == {wanted}"), (name, value)
            compared.add(name)
        if document["opcode_name"] is not None:
            assert document["number"] in passed(MIXED, f"bth.opcode == {document['opcode_name']}")
    assert compared == set(names)


ALL = list(range(1, len(documents(MIXED)) + 1))
SACKS = passed(MIXED, "seth")


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("bth.psn > 100 and seth.m == 1", "seth.m == 1 and not bth.psn <= 100"),
        ("bth.psn > 100 && seth.m == 1", "bth.psn > 100 and seth.m == 1"),
        ("seth || neth", "not (not seth and not neth)"),
        ("!(seth or neth) and bth", "bth and !seth and !neth"),
        ("seth or neth and bth.psn < 0", "seth"),
        ("not seth and neth", "neth"),
        ("bth.opcode in {0xdc, 0xDD}", "seth or neth"),
        ("bth.opcode in (220, 221)", "bth.opcode in [220,221]"),
        ("bth.opcode in {0xc6 .. 0xcb}", "meth"),
        ("bth.opcode in {198..200, 201, 202..203}", "meth"),
        ("bth.opcode == SACK or bth.opcode == NACK", "seth or neth"),
        ("neth.reason in {TRIMMED, NO_BITMAP}", "neth.reason == 1 or neth.reason == 6"),
        ("erth.op == PORT_STATUS_UPDATE or eeth.op == EV_PROBE", "erth.op == 0 or eeth.op == 1"),
        ("bth.opcode & 0xfe == 0xdc", "seth or neth"),
        ("bth.opcode & 1", "bth.opcode & 0b1 == 1"),
        ("bth.opcode & 0x80 != 0", "bth.opcode >= 128"),
        ("ipv6.dst == fd00::2", "ipv6.dst in fd00::2/128"),
        ('ipv6.dst == "fd00::2"', "ipv6.dst == 'fd00:0::2'"),
        ("ipv6[0].dst in 5f00::/16", "ipv6[1].tc >= 0"),
        ("ipv6.dst in {fd00::1, fd00::2}", "ipv6.dst == fd00::1 or ipv6.dst == fd00::2"),
        ("ipv4.src in 192.0.2.0/24", "ipv4"),
        ("ether.dst == 2:0:0:0:0:2 and seth", "ether.dst == 02:00:00:00:00:02 and seth"),
        ("srh.segments == 5f00:0:4101::", "srh.segments in 5f00::/32"),
        ("number >= 3 and number < 7", "number in {3..6}"),
        ("seth.sack_offset < 0", "not seth.sack_offset >= 0 and seth"),
        ("bth.psn == seth.cack_psn", "seth and not bth.psn != seth.cack_psn"),
        ("ipv6[0].src == ipv6[-1].src", "ipv6 and not ipv6[0].src != ipv6[-1].src"),
        ("bth.psn & 0xff <= bth.pad", "bth.psn & 255 <= bth.pad"),
        ("icrc_ok == true", "icrc_ok"),
        ("icrc_ok == null", "icrc_ok != true and icrc_ok != false"),
        ("malformed", "malformed != nothing"),
        ("trimmed", "trimmed == true"),
        ("time > 1700000002.5", "number > 3"),
        ("time_relative > 2.5", "number > 3"),
        ("time >= '2023-11-14 22:13:22.000002'", "number >= 3"),
        ("time >= '2023-11-14T23:13:22.000002+01:00'", "number >= 3"),
        ("length == 62", "length in {62}"),
        ("payload", "payload.length > 0"),
        ("ev & 0xff000000", "ev >= 0x1000000"),
        ("bth.psn==1 or bth.psn==0x2", "bth.psn in {1,2}"),
        # As they are written in Wireshark.
        ("mrc.bth.psn == 1 || mrc.bth.psn == mrc.seth.cack_psn", "bth.psn == 1 or bth.psn == seth.cack_psn"),
        ("mrc.seth && !mrc.malformed", "seth and not malformed"),
        ("mrc.icrc_ok == false or mrc.ev == 0", "icrc_ok == false or ev == 0"),
    ],
)
def test_two_ways_to_say_it(text: str, same: str) -> None:
    chosen = passed(MIXED, text)
    assert chosen == passed(MIXED, same)
    assert 0 < len(chosen) < len(ALL)


def test_what_passes() -> None:
    assert passed(MIXED, "number > 0") == ALL
    assert passed(MIXED, "seth") == SACKS != []
    assert passed(MIXED, "icrc_ok == false") == [ALL[-1]]
    assert passed(MIXED, "malformed == short_packet") == passed(MIXED, "malformed") == [ALL[-2]]
    trimmed = [number for number, packet in enumerate(PACKETS, 1) if packet.trimmed]
    assert passed(MIXED, "trimmed") == trimmed != []
    by_name = {packet.name: number for number, packet in enumerate(PACKETS, 1)}
    assert by_name["srv6_write"] in passed(MIXED, "ev == 0x01000003 and ipv6[0].dst in 5f00::/16")
    assert passed(MIXED, "ipv4 and aeth")[0] == by_name["ipv4_acknowledge"]
    assert passed(MIXED, "srh and bth.ts == 1 and ipv6[1].plen > 0 or number == 1")[0] == 1


def test_the_answer_to_a_probe_has_the_probes_id() -> None:
    sacks = [on_ethernet(ipv6_packet(vector.transport)) for vector in VECTORS if "sack" in vector.name]
    data = pcap(sacks)
    answers, others = passed(data, "seth.pr == 1"), passed(data, "seth.pr == 0")
    assert passed(data, "seth.probe_id >= 0") == answers != []
    assert passed(data, "seth.ack_psn_offset >= -32768") == others != []


def test_a_packet_without_a_time_has_none() -> None:
    data = section() + described() + simple(FRAMES[0]) + simple(FRAMES[1])
    assert passed(data, "time > 0 or time <= 0 or time_relative == 0") == []
    assert passed(data, "number > 0") == [1, 2]


def test_times_count_from_the_first_packet_of_the_capture_in_every_run() -> None:
    data = pcap(FRAMES[:1] * 9000)
    assert passed(data, "time_relative > 8999") == [9000]


def test_soft_roce(softroce_capture: Path) -> None:
    data = softroce_capture.read_bytes()
    assert len(passed(data, "ipv4")) == len(passed(data, "ipv6")) == 106
    assert len(passed(data, "icrc_ok and not malformed")) == 212


def test_the_documentation_has_every_field_and_its_filters_are_filters() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "dissect.md").read_text()
    section_of_filters = page.partition("## Filters")[2].partition("## --check")[0]
    words = set(re.findall(r"\w+", section_of_filters))
    for name in FIELDS.values():
        assert name.field in words or name.field.startswith("reserved"), name.text
        assert not name.layer or name.layer in words
    cells = [line.split("|")[1] for line in section_of_filters.splitlines() if line.startswith("| `")]
    examples = [text for cell in cells for text in re.findall(r"`([^`]+)`", cell)]
    assert len(examples) > 20
    for text in examples:
        Filter(text)


def place(text: str) -> tuple[str, str]:
    """What is said of a wrong filter, and the part of it that is pointed at."""
    with pytest.raises(FilterError) as raised:
        Filter(text)
    message, shown, mark = str(raised.value).split("\n")
    assert shown == "  " + text
    start = mark.index("^")
    assert mark[start:] == "^" * max(1, raised.value.length)
    return message, shown[start : start + raised.value.length]


@pytest.mark.parametrize(
    ("text", "said", "part"),
    [
        ("bth.pns > 3", "there is no field bth.pns: did you mean bth.psn", "bth.pns"),
        ("psn > 3", "there is no field psn: did you mean bth.psn?", "psn"),
        ("bht", "there is no field bht: did you mean bth", "bht"),
        ("reth and cack_psn == 3", "did you mean seth.cack_psn?", "cack_psn"),
        ("xyzzy.plugh == 1", "there is no field xyzzy.plugh; docs/dissect.md lists them", "xyzzy.plugh"),
        ("bth.psn = 3", "'=' is no comparison: write ==", "="),
        ("bth.psn >", "a value should come here", ""),
        ("bth.psn > and seth", "a value should come here", "and"),
        ("(bth.psn > 3", "a closing parenthesis is missing", ""),
        ("bth.psn > 3)", "')' where there is no such sign here", ")"),
        ("bth seth", "'seth' where and, or, or the end should come", "seth"),
        ("", "a field or a layer should come here", ""),
        ("not", "a field or a layer should come here", ""),
        ("3 == bth.psn", "a field or a layer should come here", "3"),
        ("bth.psn @ 3", "'@' is no part of a filter", "@"),
        ("bth.psn == 3x4", "'3x4' is no part of a filter", "3x4"),
        ("bth.psn == 'a", "a text without its closing quotation mark", "'a"),
        ("bth.psn == fd00::1", "bth.psn is compared with a whole number, not fd00::1", "fd00::1"),
        ("bth.psn == 1.5", "bth.psn is compared with a whole number, not 1.5", "1.5"),
        ("bth.opcode == SAK", "or one of WRITE_FIRST,", "SAK"),
        ("ipv6.dst == 3", "ipv6.dst is compared with an IPv6 address such as fd00::1", "3"),
        ("ipv6.dst == 10.0.0.1", "ipv6.dst is compared with an IPv6 address", "10.0.0.1"),
        ("ipv4.dst == fd00::1", "ipv4.dst is compared with an IPv4 address", "fd00::1"),
        ("ipv4.dst == 10.0.0.1/33", "ipv4.dst is compared with an IPv4 address", "10.0.0.1/33"),
        ("ether.src == fd00::1", "ether.src is compared with an address such as 02:", "fd00::1"),
        ("ipv6.dst < fd00::1", "addresses are compared with ==, != and in", "<"),
        ("icrc_ok > 0", "icrc_ok is compared with == and !=", ">"),
        ("icrc_ok == yes", "icrc_ok is true, false or null", "yes"),
        ("malformed == 3", "malformed is compared with a reason", "3"),
        ("time > soon", "time is compared with seconds such as 1.25 or a moment", "soon"),
        ("time > 'soon'", "time is compared with seconds such as 1.25 or a moment", "'soon'"),
        ("bth.psn & 0x1000000", "bth.psn has 24 bits, 0x1000000 goes beyond them", "0x1000000"),
        ("bth.psn & seth", "a number should follow &", "seth"),
        ("ipv6.dst & 3", "ipv6.dst has no bits to choose", "3"),
        ("bth.psn in {1, 2", "a comma or } is missing", ""),
        ("bth.psn in {}", "a value should come here", "}"),
        ("ipv6.dst in {fd00::1..fd00::2}", "addresses are compared with ==, != and in", "fd00::1"),
        ("ipv6[0] and bth", "a field of ipv6 should follow, as in ipv6[0].tc", "ipv6[0]"),
        ("number[0] > 1", "an index says which of several layers", "number[0]"),
        ("ipv6[65].tc == 1", "an index says which of several layers", "ipv6[65].tc"),
        ("bth.psn == ipv6.src", "ipv6.src cannot be compared with bth.psn", "ipv6.src"),
        ("(" * 150 + "bth" + ")" * 150, "more than 100 levels of parentheses", "("),
        ("__import__('os')", "there is no field __import__", "__import__"),
    ],
)
def test_a_mistake_is_named_and_pointed_at(text: str, said: str, part: str) -> None:
    message, pointed = place(text)
    assert said in message
    assert pointed == part


WORDS = ["bth", "seth.m", "ipv6[0].dst", "and", "or", "not", "in", "(", ")", "{", "}", "[", "]", "==", "!=", "<", ">"]
WORDS += ["&", "..", ",", "1", "-3", "0x10", "2.5", "fd00::1", "10.0.0.0/8", "'x'", "malformed", "icrc_ok", "time"]
WORDS += ["true", "null"]


@settings(max_examples=draws(75))
@given(
    st.one_of(
        st.text(max_size=40),
        st.lists(
            st.sampled_from(WORDS),
            max_size=12,
        ).map(" ".join),
    )
)
def test_any_text_is_a_filter_or_an_error_with_its_place(text: str) -> None:
    try:
        wanted = Filter(text)
    except FilterError as error:
        message, shown, mark = str(error).split("\n")
        assert message
        assert len(mark) <= len(shown) + 1
        return
    for columns in runs(MIXED):
        chosen = wanted.chosen(columns)
        assert chosen.shape == (len(columns),)
        assert chosen.dtype == bool
