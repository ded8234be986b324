# SPDX-License-Identifier: BSD-2-Clause
"""Trimmed packets of every kept size in captures, with every length a switch leaves: our dissection and tshark's.

wire.md section 13: "A trimmed packet has icrc_ok null and malformed null, and `trimmed` true."
"""

from __future__ import annotations

import io
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from capture_forms import enhanced, interface, on_ethernet, pcap, section
from test_capture_columns import columns_of, compare
from test_capture_wireshark import TRUE, Tshark
from trimmed_forms import CARRIAGES, EVERY_REWRITING, SIZES, Carriage, cut, marked

from mrc.capture.check import Check
from mrc.capture.fields import packet_document
from mrc.capture.files import read_capture
from mrc.capture.walk import walk
from mrc.wire.profile import DEFAULT_WIRE_PROFILE, WireProfile

OTHER = WireProfile(dscp_trimmed=48, dscp_trimmed_lasthop=50)
every_carriage = pytest.mark.parametrize("carriage", CARRIAGES, ids=[each.name for each in CARRIAGES])
needs_tshark = pytest.mark.skipif(
    shutil.which("tshark") is None and not os.environ.get("CI"), reason="tshark is not installed"
)


def cut_frames(carriage: Carriage, dscp: int = 12) -> list[bytes]:
    """Cut to every size (the METH is kept whole), with every choice of lengths."""
    least = carriage.bth + 16
    sizes = (least, least + 4, *(size for size in SIZES if size > least + 4), len(carriage.packet) - 1)
    return [on_ethernet(cut(carriage, size, rewritten, dscp)) for size in sizes for rewritten in EVERY_REWRITING]


def documents(data: bytes, profile: WireProfile = DEFAULT_WIRE_PROFILE) -> list[dict[str, Any]]:
    return [
        packet_document(number, record, walk(record.data, record.link_type, record.wire_length, profile), profile)
        for number, record in enumerate(read_capture(io.BytesIO(data), "it"), 1)
    ]


def fields_of(document: dict[str, Any], layer: str) -> dict[str, Any]:
    found: dict[str, Any] = next(each["fields"] for each in document["layers"] if each["layer"] == layer)
    return found


@every_carriage
@pytest.mark.parametrize("dscp", [12, 16])
def test_whatever_is_kept_and_whatever_the_lengths_say(carriage: Carriage, dscp: int) -> None:
    """MRC-TRIM-04, MRC-TRIM-05, MRC-NAME-06."""
    frames = cut_frames(carriage, dscp)
    for frame, document in zip(frames, documents(pcap(frames)), strict=True):
        assert (document["trimmed"], document["icrc_ok"], document["malformed"]) == (True, None, None)
        assert (fields_of(document, "bth")["psn"], fields_of(document, "meth")["msn"]) == (0xFF, 7)
        # What is left behind the last header that is whole: TSETH 4 and RETH 16 follow BTH 12 and METH 4.
        left = len(frame) - 14 - carriage.bth
        headers = max(size for size in (16, 20, 36) if size <= left)
        payload = [each["length"] for each in document["layers"] if each["layer"] == "payload"]
        assert payload == [left - headers] * (left > headers)
    (columns,) = columns_of(pcap(frames))
    assert compare(columns) > 0
    assert columns.trimmed.all()
    check = Check()
    check.add(columns)
    assert check.violations == []


@every_carriage
def test_what_passed_uncut_with_the_codepoint_is_ordinary(carriage: Carriage) -> None:
    """MRC-TRIM-06."""
    frames = [on_ethernet(marked(carriage.packet, dscp)) for dscp in (12, 16)]
    for document in documents(pcap(frames)):
        assert (document["trimmed"], document["icrc_ok"], document["malformed"]) == (False, True, None)
        assert document["layers"][-2] == {"layer": "payload", "length": 1024}
    (columns,) = columns_of(pcap(frames))
    assert compare(columns) > 0
    assert not columns.trimmed.any()


@every_carriage
def test_a_wrong_icrc_is_a_trim_under_the_codepoint_and_damage_without_it(carriage: Carriage) -> None:
    """MRC-TRIM-05."""
    damaged = carriage.packet[:-1] + bytes((carriage.packet[-1] ^ 1,))
    under, plain = documents(pcap([on_ethernet(marked(damaged, 12)), on_ethernet(damaged)]))
    assert (under["trimmed"], under["icrc_ok"]) == (True, None)
    assert (plain["trimmed"], plain["icrc_ok"]) == (False, False)


@every_carriage
def test_the_codepoints_are_the_profiles(carriage: Carriage) -> None:
    """wire.md section 12: "so both are configuration everywhere". MRC-TRIM-08."""
    for dscp in (48, 50):
        capture = pcap(cut_frames(carriage, dscp))
        assert not any(document["trimmed"] for document in documents(capture))
        assert all(document["trimmed"] for document in documents(capture, OTHER))
        (columns,) = columns_of(capture, OTHER)
        assert columns.trimmed.all()
        assert compare(columns, OTHER) > 0


def test_of_what_the_capture_cut_short_the_lengths_alone_tell() -> None:
    """A header that says more than the packet had tells; where all lengths were rewritten only the ICRC would."""
    carriage = next(each for each in CARRIAGES if each.name == "ipv6")
    blocks, expected = [], []
    for rewritten in EVERY_REWRITING:
        frame = on_ethernet(cut(carriage, 256, rewritten))
        blocks.append(enhanced(frame[:120], 0, wire_length=len(frame)))
        # Either flag makes the one IP header right.
        expected.append(not (rewritten.udp and (rewritten.outer or rewritten.inner)))
    found = documents(section() + interface() + b"".join(blocks))
    assert [document["trimmed"] for document in found] == expected
    for document in found:
        assert document["icrc_ok"] is None
        left = 256 - 48 - 36
        assert document["layers"][-1] == {"layer": "payload", "length": left if document["trimmed"] else left - 4}


@needs_tshark
@pytest.mark.tshark
def test_tshark_says_the_same(tmp_path: Path) -> None:
    """wire.md section 12, in the Lua dissector, of every carriage. MRC-TRIM-05, MRC-TRIM-06."""
    tshark = Tshark(tmp_path)
    frames = [frame for carriage in CARRIAGES for dscp in (12, 16) for frame in cut_frames(carriage, dscp)]
    whole = [on_ethernet(packet) for each in CARRIAGES for packet in (marked(each.packet, 12), each.packet)]
    tshark.capture.write_bytes(pcap(frames + whole))
    ours = documents(tshark.capture.read_bytes())
    columns = ("mrc.trimmed", "mrc.icrc_ok", "mrc.malformed", "mrc.payload.length", "mrc.bth.psn", "mrc.meth.msn")
    # With the check of ICRCs switched off a codepoint still has its ICRC worked out.
    for options in ((), ("-o", "mrc.check_icrc:FALSE")):
        rows = tshark.rows(columns, *options)
        for row, document in zip(rows, ours, strict=True):
            number = document["number"]
            assert (row.get("mrc.trimmed") in TRUE) is document["trimmed"], number
            assert "mrc.malformed" not in row, number
            assert ("mrc.icrc_ok" in row) is (not document["trimmed"] and not options), number
            payload = [each["length"] for each in document["layers"] if each["layer"] == "payload"]
            assert int(row.get("mrc.payload.length", 0)) == sum(payload), number
        assert [row.get("mrc.trimmed") in TRUE for row in rows] == [True] * len(frames) + [False] * len(whole)


@needs_tshark
@pytest.mark.tshark
def test_tshark_takes_the_codepoints_from_a_profile_or_a_preference(tmp_path: Path) -> None:
    """MRC-TRIM-08."""
    carriage = CARRIAGES[0]
    frames = [*cut_frames(carriage, 48), *cut_frames(carriage, 50)]
    preferences = ("-o", "mrc.dscp_trimmed:48", "-o", "mrc.dscp_trimmed_lasthop:50")
    for folder, profile, options in (("built", OTHER, ()), ("set", DEFAULT_WIRE_PROFILE, preferences)):
        (tmp_path / folder).mkdir()
        tshark = Tshark(tmp_path / folder, profile)
        tshark.capture.write_bytes(pcap(frames))
        rows = tshark.rows(("mrc.trimmed",), *options)
        assert [row.get("mrc.trimmed") in TRUE for row in rows] == [True] * len(frames)
    rows = tshark.rows(("mrc.trimmed",))
    assert not any(row.get("mrc.trimmed") in TRUE for row in rows)
