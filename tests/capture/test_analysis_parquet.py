# SPDX-License-Identifier: BSD-2-Clause
"""The packet table: a row a packet, held to what `packet_document` says of the same packets."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import pytest
from analyzing import analysis_of
from crafted_flows import MICROSECOND, TRIMMED, Crafted, ev_of

from mrc.capture.columns import read_columns
from mrc.capture.fields import packet_document
from mrc.errors import SystemRefused
from mrc.wire.profile import DEFAULT_WIRE_PROFILE

ROOT = Path(__file__).resolve().parents[2]
parquet = pytest.importorskip("pyarrow.parquet")


def table_of(capture: bytes, path: Path) -> list[dict[str, Any]]:
    from mrc.capture.analysis.parquet import PacketTable

    with PacketTable(path, DEFAULT_WIRE_PROFILE) as table:
        for columns in read_columns(io.BytesIO(capture), "x"):
            table.write(columns)
    read = parquet.read_table(path)
    # Nanoseconds are more than Python's datetime holds.
    index = read.schema.get_field_index("time")
    rows: list[dict[str, Any]] = read.set_column(index, "time_ns", read["time"].cast("int64")).to_pylist()
    return rows


def test_rows_by_hand(tmp_path: Path) -> None:
    crafted, ev = Crafted(at="receiver"), ev_of(1, 3)
    crafted.data(5 * MICROSECOND, 7, ev, msn=2, rtx=True, ce=True)
    crafted.sack(6 * MICROSECOND, 6, 7, ev, received=(8,), m=1, held=1, own_ev=ev)
    crafted.nack(7 * MICROSECOND, 9, ev, TRIMMED)
    crafted.trimmed(8 * MICROSECOND, 9, ev)
    crafted.data(9 * MICROSECOND, 10, ev, corrupt=True)
    data, sack, nack, trimmed, corrupt = table_of(crafted.pcap(), tmp_path / "t.parquet")
    assert data == data | {
        "number": 1,
        "time_ns": 1_700_000_000_000_005_000,
        "length": 14 + 80 + 8 + 12 + 24 + 1024 + 4,
        "source": "fd4d:5243:1::1",
        "destination": "fd4d:5243:1::2",
        "path": "p1h1",
        "opcode": 0xC7,
        "opcode_name": "RDMA WRITE Middle",
        "ev": ev,
        "psn": 0xFFFFF7,
        "msn": 2,
        "rtx": True,
        "ce": True,
        "payload_length": 1024,
        "va": 0x100000 + 7 * 1024,
        "icrc_ok": True,
        "trimmed": False,
        "malformed": None,
        "seth_m": None,
    }
    assert sack == sack | {
        "seth_m": 1,
        "seth_entropy": ev,
        "seth_cack_psn": 0xFFFFF6,
        "seth_ack_psn_offset": 1,
        "seth_bitmap": 2,
        "seth_sack_offset": 1,
        "ooo_count": 1,
        "va": None,
        "payload_length": 0,
    }
    assert (nack["neth_reason"], nack["neth_entropy"], nack["neth_psn"]) == (TRIMMED, ev, 0xFFFFF9)
    assert (trimmed["trimmed"], trimmed["icrc_ok"], trimmed["psn"], trimmed["va"]) == (True, None, 0xFFFFF9, None)
    assert corrupt["icrc_ok"] is False


def test_rows_of_endpoint_operations_and_probes(tmp_path: Path) -> None:
    crafted, ev = Crafted(at="receiver"), ev_of(1, 3)
    crafted.port_status(5 * MICROSECOND, 7, 0b101)
    crafted.port_status_response(6 * MICROSECOND, 7)
    crafted.probe(7 * MICROSECOND, ev, 0x8001)
    update, response, probe = table_of(crafted.pcap(), tmp_path / "t.parquet")
    assert (update["erth_op"], update["port_status_mask"], update["eeth_op"]) == (0, 0b101, None)
    assert (response["erth_op"], response["port_status_mask"], response["eeth_op"]) == (None, None, 0)
    assert (probe["probe_id"], probe["seth_probe_id"], probe["erth_op"]) == (0x8001, None, None)


# docs/analyze.md names them; programs that read the tables rely on names and types.
COLUMNS = {
    "uint8": "opcode aeth_syndrome seth_m seth_pr seth_mpr neth_reason erth_op eeth_op hop_limit",
    "uint16": "msn rqmsn tx_timestamp ooo_count probe_id seth_probe_id",
    "int16": "seth_ack_psn_offset seth_sack_offset",
    "uint32": "dqp psn rkey dmalen immediate aeth_msn seth_entropy seth_cack_psn rcvd_bytes neth_entropy neth_psn "
    "port_status_mask ev",
    "uint64": "va seth_bitmap",
    "bool": "ackreq rtx ce trimmed icrc_ok",
    "int32": "length payload_length",
    "int64": "number",
    "string": "malformed",
    "timestamp[ns, tz=UTC]": "time",
    "dictionary<values=string, indices=int32, ordered=0>": "source destination path opcode_name",
}


def test_the_columns_and_their_types(tmp_path: Path) -> None:
    table_of(Crafted().pcap(), tmp_path / "t.parquet")
    schema = parquet.read_schema(tmp_path / "t.parquet")
    found: dict[str, set[str]] = {}
    for field in schema:
        found.setdefault(str(field.type), set()).add(field.name)
    assert found == {kind: set(names.split()) for kind, names in COLUMNS.items()}
    page = (ROOT / "docs" / "analyze.md").read_text().partition("## The packet table")[2]
    assert [name for name in schema.names if f"`{name}`" not in page] == []


def test_the_lines_of_the_page_need_pyarrow_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = table_of((ROOT / "pcaps" / "mrc-tour-sender.pcap").read_bytes(), tmp_path / "packets.parquet")
    page = (ROOT / "docs" / "analyze.md").read_text().partition("## The packet table")[2]
    *lines, last = re.findall(r"^>>> (.*)$", page.partition("\n## ")[0], re.MULTILINE)
    names: dict[str, Any] = {}
    exec("\n".join(lines), names)
    resent = {ev: sum(bool(row["rtx"]) for row in rows if row["ev"] == ev) for ev in {row["ev"] for row in rows}}
    assert {each["ev"]: each["rtx_sum"] or 0 for each in eval(last, names)} == resent


@pytest.mark.parametrize("name", ["mrc-tour-sender.pcap", "mrc-tour-receiver.pcap", "softroce-rc-ipv4-ipv6.pcap"])
def test_rows_agree_with_the_documents_of_the_same_packets(name: str, tmp_path: Path) -> None:
    capture = (ROOT / "pcaps" / name).read_bytes()
    rows = table_of(capture, tmp_path / "t.parquet")
    number = 0
    for columns in read_columns(io.BytesIO(capture), name):
        for row, record in enumerate(columns.frames.records()):
            document = packet_document(number + 1, record, columns.walked(row), DEFAULT_WIRE_PROFILE)
            layers = {layer["layer"]: layer.get("fields", {}) for layer in document["layers"]}
            found = rows[number]
            assert found["number"] == document["number"]
            assert found["time_ns"] == record.time_ns
            assert (found["psn"], found["dqp"]) == (layers["bth"]["psn"], layers["bth"]["dqp"])
            assert found["va"] == layers.get("reth", {}).get("va")
            assert found["seth_bitmap"] == layers.get("seth", {}).get("bitmap")
            assert found["icrc_ok"] == document["icrc_ok"]
            number += 1
    assert number == len(rows) == analysis_of(capture).packets


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(SystemRefused, match="cannot be written"):
        table_of(Crafted().pcap(), tmp_path / "no" / "t.parquet")
