# SPDX-License-Identifier: BSD-2-Clause
"""What the Lua dissector says of packets that belong together, against what the packets themselves show."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from crafted_flows import Crafted, ev_of

from mrc.capture.fields import packet_document
from mrc.capture.files import read_capture
from mrc.capture.walk import walk
from mrc.capture.wireshark import dissector_source, install
from mrc.wire.profile import DEFAULT_WIRE_PROFILE

pytestmark = [
    pytest.mark.tshark,
    pytest.mark.skipif(shutil.which("tshark") is None and not os.environ.get("CI"), reason="tshark is not installed"),
]

TOUR = [Path(__file__).parents[2] / "pcaps" / f"mrc-tour-{end}.pcap" for end in ("sender", "receiver")]
NAMES = ("stream", "retransmission_of", "acked_in", "ack_of", "nack_of", "ack_rtt")
PSNS = 1 << 24


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("home")
    install(dissector_source(), made / ".local" / "lib" / "wireshark" / "plugins")
    return made


def tshark(home: Path, *argv: str) -> str:
    environment = {**os.environ, "HOME": str(home), "XDG_CONFIG_HOME": str(home)}
    done = subprocess.run(["tshark", *argv], capture_output=True, text=True, check=True, env=environment, timeout=240)
    assert "lua" not in done.stderr.lower(), done.stderr
    return done.stdout


def packets(path: Path) -> dict[int, dict[str, dict[str, Any]]]:
    """The headers of each MRC packet by frame number."""
    found = {}
    with path.open("rb") as stream:
        for number, record in enumerate(read_capture(stream, str(path)), 1):
            walked = walk(record.data, record.link_type, record.wire_length, DEFAULT_WIRE_PROFILE)
            document = packet_document(number, record, walked, DEFAULT_WIRE_PROFILE)
            headers = {layer["layer"]: layer.get("fields", {}) for layer in document["layers"]}
            if headers.get("bth", {}).get("opcode", 0) >= 0xC0:
                found[number] = {**headers, "record": {"time_ns": record.time_ns, "trimmed": document["trimmed"]}}
    return found


def covers(seth: dict[str, Any], psn: int) -> bool:
    """Whether a SACK says that a PSN arrived: up to cack_psn, in the bitmap, or as the one that triggered it."""
    behind = (seth["cack_psn"] - psn) % PSNS
    if behind < PSNS // 2:
        return True
    bit = (psn - seth["cack_psn"] - seth["sack_offset"]) % PSNS
    triggered = not seth["pr"] and (seth["cack_psn"] + seth["ack_psn_offset"] - psn) % PSNS == 0
    return (bit < 64 and bool(seth["bitmap"] >> bit & 1)) or triggered


@pytest.mark.parametrize("path", TOUR, ids=lambda path: path.stem)
def test_every_link_between_packets_is_the_one_that_the_packets_show(home: Path, path: Path) -> None:
    columns = [word for name in NAMES for word in ("-e", f"mrc.{name}")]
    out = tshark(home, "-2", "-r", str(path), "-Y", "mrc", "-T", "fields", "-e", "frame.number", *columns)
    rows = {int(line.split("\t")[0]): dict(zip(NAMES, line.split("\t")[1:], strict=True)) for line in out.splitlines()}
    headers = packets(path)
    assert set(rows) == set(headers)
    data = {number: each for number, each in headers.items() if "meth" in each}
    sacks = {number: each["seth"] for number, each in headers.items() if "seth" in each}
    resent = acked = triggered = 0
    for number, each in data.items():
        psn, row = each["bth"]["psn"], rows[number]
        before = [earlier for earlier in data if earlier < number and data[earlier]["bth"]["psn"] == psn]
        expected = str(min(before)) if before and each["bth"]["rtx"] else ""
        assert row["retransmission_of"] == expected, number
        whole = not each["record"]["trimmed"]
        first = [later for later in sorted(sacks) if whole and later > number and covers(sacks[later], psn)]
        assert row["acked_in"] == (str(first[0]) if first else ""), number
        resent, acked = resent + bool(expected), acked + bool(first)
    for number, seth in sacks.items():
        psn = (seth["cack_psn"] + seth.get("ack_psn_offset", 0)) % PSNS
        sent = [earlier for earlier in data if earlier < number and data[earlier]["bth"]["psn"] == psn]
        row = rows[number]
        assert row["ack_of"] == (str(max(sent)) if sent and not seth["pr"] else ""), number
        if row["ack_rtt"]:
            # Of what was sent again nobody knows which transmission it answers; what the network doubled came last.
            assert not any(data[each]["bth"]["rtx"] for each in sent)
            took_ns = headers[number]["record"]["time_ns"] - headers[max(sent)]["record"]["time_ns"]
            assert float(row["ack_rtt"]) == pytest.approx(took_ns / 1e9, abs=2e-6)
            triggered += 1
    assert resent >= 5
    assert acked >= 50
    assert triggered >= 3
    assert {row["stream"] for number, row in rows.items() if number in data} == {"0"}


def test_a_table_of_conversations_is_printed_when_asked_for(home: Path) -> None:
    path = TOUR[0]
    assert tshark(home, "-q", "-r", str(path)) == ""
    heading, row = tshark(home, "-q", "-r", str(path), "-o", "mrc.conversations:TRUE").splitlines()
    assert heading.split() == ["stream", "from", "to", "QPN", "requests", "answers", "payload", "resent", "seconds"]
    headers = packets(path)
    data = [each for each in headers.values() if "meth" in each]
    stream, source, destination, qpn, requests, answers, _, resent, _ = row.split()
    assert (stream, qpn) == ("0", f"0x{data[0]['bth']['dqp']:06x}")
    assert source.startswith("fd4d:5243:")
    assert destination.startswith("fd4d:5243:")
    assert int(requests) == len(data)
    assert int(answers) == sum("seth" in each or "neth" in each for each in headers.values())
    assert int(resent) == sum(bool(each["bth"]["rtx"]) for each in data)


@pytest.mark.parametrize("of_data", [False, True])
def test_a_sack_follows_its_data_whichever_way_round_the_dcids_are(home: Path, tmp_path: Path, of_data: bool) -> None:
    """wire.md section 6: "in EM they are those of the packet itself, in FB those of the data"."""
    crafted = Crafted(dcids_of_data=of_data)
    crafted.data(1_000, 0, ev_of(0, 1))
    crafted.sack(101_000, 0, 0, ev_of(0, 1))
    path = tmp_path / "dcids.pcap"
    path.write_bytes(crafted.pcap())
    assert tshark(home, "-r", str(path), "-Y", "mrc.ack_of == 1", "-T", "fields", "-e", "frame.number").split() == ["2"]


def test_one_pass_finds_what_lies_behind(home: Path) -> None:
    out = tshark(home, "-r", str(TOUR[0]), "-Y", "mrc.retransmission_of", "-T", "fields", "-e", "frame.number")
    two = tshark(home, "-2", "-r", str(TOUR[0]), "-Y", "mrc.retransmission_of", "-T", "fields", "-e", "frame.number")
    assert out == two != ""
