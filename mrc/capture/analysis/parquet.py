# SPDX-License-Identifier: BSD-2-Clause
"""Every packet of a capture as a row of a Parquet file, for people who bring their own tools (extra `parquet`).

A field that a packet does not have is null. docs/analyze.md lists the columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from mrc.capture.columns import LAST, NO_TIME, NOT_THERE, RIGHT, Columns
from mrc.capture.summary import Summary
from mrc.errors import CallerError
from mrc.whole_files import WholeFile
from mrc.wire.headers import HEADERS
from mrc.wire.opcodes import FIRST_MRC_OPCODE, OPCODES
from mrc.wire.profile import WireProfile
from mrc.wire.words import fields_of

if TYPE_CHECKING:
    from mrc.capture.columns.values import Values
    from mrc.capture.frames import I64, Bools

# Columns that have another name than layer_field; those of some layers are called by the field alone.
_NAMES = {
    ("immdt", "data"): "immediate",
    ("neth", "nack_psn"): "neth_psn",
    ("peth", "probe_id"): "probe_id",
    ("erth", "port_status_mask"): "port_status_mask",
    ("ipv6", "hlim"): "hop_limit",
}
_BY_FIELD_ALONE = ("bth", "meth", "tseth", "reth", "cc_state")
# Beside the fields that the words of each MRC header show.
_MORE = (("reth", "rkey"), ("seth", "mpr"), ("cc_state", "rcvd_bytes"), ("ipv6", "hlim"))


def _columns() -> dict[str, tuple[str, str, str]]:
    """Column -> layer, field and Arrow type."""
    headers = dict.fromkeys(["bth", *(header for op in OPCODES.values() if op.is_mrc for header in op.headers)])
    shown = [(header, field) for header in headers for field in fields_of(header)]
    found = {}
    for layer, field in (*shown, *_MORE):
        name = field if layer in _BY_FIELD_ALONE else f"{layer}_{field}"
        found[_NAMES.get((layer, field), name)] = layer, field, _kind(layer, field)
    return found


def _kind(layer: str, field: str) -> str:
    # The probe_id of a SETH lies where its ack_psn_offset does.
    place = HEADERS[layer].field("ack_psn_offset" if (layer, field) == ("seth", "probe_id") else field)
    if layer == "bth" and place.bits == 1:
        return "bool"
    bits = next(bits for bits in (8, 16, 32, 64) if bits >= place.bits)
    return f"{'int' if place.signed and field == place.name else 'uint'}{bits}"


_FIELDS = _columns()
_ROWS_A_GROUP = 1 << 17
_ENDS_KEPT = 1 << 16


class PacketTable:
    """The file; a context manager. Raises CallerError when pyarrow is not installed, SystemRefused when it cannot be
    written."""

    def __init__(self, path: Path, profile: WireProfile) -> None:
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError:
            raise CallerError("Parquet files need pyarrow: pip install 'softmrc[parquet]'") from None
        self._arrow, self._parquet = pyarrow, pyarrow.parquet
        self._ends = _Ends(profile)
        self._schema = self._make_schema()
        self._waiting: list[Any] = []
        self._rows = 0
        self._file = WholeFile(path)
        with self._refused():
            self._writer = pyarrow.parquet.ParquetWriter(self._file.part, self._schema, compression="zstd")

    def _make_schema(self) -> Any:
        arrow = self._arrow
        words = arrow.dictionary(arrow.int32(), arrow.string())
        kinds = {"bool": arrow.bool_()}
        own = {
            "number": arrow.int64(),
            "time": arrow.timestamp("ns", "UTC"),
            "length": arrow.int32(),
            "source": words,
            "destination": words,
            "path": words,
            "opcode_name": words,
            "ev": arrow.uint32(),
            "payload_length": arrow.int32(),
            "ce": arrow.bool_(),
            "trimmed": arrow.bool_(),
            "icrc_ok": arrow.bool_(),
            "malformed": arrow.string(),
        }
        fields = {name: kinds.get(kind) or getattr(arrow, kind)() for name, (_, _, kind) in _FIELDS.items()}
        return arrow.schema(list((own | fields).items()))

    def write(self, columns: Columns) -> None:
        """Take in the packets of a run."""
        self._waiting.append(self._batch(columns))
        self._rows += len(columns)
        if self._rows >= _ROWS_A_GROUP:
            self._flush()

    def _flush(self) -> None:
        if self._waiting:
            table = self._arrow.Table.from_batches(self._waiting, self._schema)
            with self._refused():
                self._writer.write_table(table)
        self._waiting, self._rows = [], 0

    def _batch(self, columns: Columns) -> Any:
        count = len(columns)
        everyone = np.arange(count)
        roce = columns.has("bth")
        ends = self._ends.of(columns)
        time_ns = columns.frames.time_ns
        opcode = columns.column("bth", "opcode")
        names = [OPCODES[each].name if each in OPCODES else None for each in range(256)]
        malformed: list[str | None] = [None] * count
        for row, reason in columns.malformed.items():
            malformed[row] = reason
        ev_rows, ev = columns.ev()
        made = {
            "number": columns.numbers,
            "time": self._arrow.array(time_ns, mask=time_ns == NO_TIME).cast(self._arrow.timestamp("ns", "UTC")),
            "length": columns.frames.wire_length,
            "source": [each[0] for each in ends],
            "destination": [each[1] for each in ends],
            "path": [each[2] for each in ends],
            "opcode_name": [
                names[each] if there else None for each, there in zip(opcode.tolist(), roce.tolist(), strict=True)
            ],
            "ev": self._of(count, ev_rows, ev, "uint32"),
            "payload_length": columns.payload_length,
            "ce": self._of(count, everyone, _marked(columns), "bool"),
            "trimmed": columns.trimmed,
            "icrc_ok": self._arrow.array(columns.icrc == RIGHT, mask=columns.icrc == NOT_THERE),
            "malformed": malformed,
        }
        for name, (layer, field, kind) in _FIELDS.items():
            rows, values = columns.values(layer, field)
            made[name] = self._of(count, rows, values, kind)
        arrays = []
        for field in self._schema:
            values = made[field.name]
            arrays.append(
                values
                if isinstance(values, self._arrow.Array)
                else self._arrow.array(values, self._plain(field.type)).cast(field.type)
            )
        return self._arrow.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _plain(self, kind: Any) -> Any:
        """What Python's words are before they become a dictionary."""
        return kind.value_type if self._arrow.types.is_dictionary(kind) else kind

    def _of(self, count: int, rows: I64, values: Values, kind: str) -> Any:
        whole = np.zeros(count, kind)
        whole[rows] = values.astype(kind)
        missing = np.ones(count, np.bool_)
        missing[rows] = False
        return self._arrow.array(whole, mask=missing)

    def __enter__(self) -> PacketTable:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._flush()
            # This writes the end of the file, without which no reader takes it.
            with self._refused() if kind is None else suppress(OSError):
                self._writer.close()
            if kind is None:
                self._file.commit()
        finally:
            self._file.discard()

    @contextmanager
    def _refused(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self._file.discard()
            raise self._file.refused(error) from error


class _Ends:
    """Source, destination and path of packets as `mrc dissect` words them; worked out once for packets alike."""

    def __init__(self, profile: WireProfile) -> None:
        self._summary = Summary(profile)
        self._known: dict[bytes, tuple[str, str, str]] = {}

    def of(self, columns: Columns) -> list[tuple[str, str, str]]:
        keys = self._keys(columns)
        # What the words come from besides: segments, and the addresses below IP.
        by_itself = columns.has("srh") | ~(columns.has("ipv6") | columns.has("ipv4"))
        made = []
        for row, (key, alone) in enumerate(zip(keys, by_itself.tolist(), strict=True)):
            ends = None if alone else self._known.get(key)
            if ends is None:
                ends = self._summary.ends(columns.walked(row))
                if not alone:
                    if len(self._known) >= _ENDS_KEPT:
                        self._known.clear()
                    self._known[key] = ends
            made.append(ends)
        return made

    def _keys(self, columns: Columns) -> list[bytes]:
        parts = np.zeros((len(columns), 12), np.uint64)
        for column, (field, occurrence) in enumerate((("dst", 0), ("dst", LAST), ("src", LAST))):
            rows, upper, lower = columns.addresses(field, occurrence)
            parts[rows, 2 * column], parts[rows, 2 * column + 1] = upper, lower
        for column, (field, occurrence) in enumerate((("dst", 0), ("dst", LAST), ("src", LAST)), 6):
            rows, values = columns.values("ipv4", field, occurrence)
            parts[rows, column] = values
        rows, ev = columns.ev()
        parts[rows, 9] = ev
        parts[:, 10] = columns.column("bth", "opcode") >= FIRST_MRC_OPCODE
        ip = np.array(
            [hash(tuple(layer for layer in each.layers if layer[0] in ("ipv4", "ipv6"))) for each in columns.stacks]
        )
        parts[:, 11] = ip[columns.stack].astype(np.int64).view(np.uint64) if len(ip) else 0
        keys: list[bytes] = parts.view("V96")[:, 0].tolist()
        return keys


def _marked(columns: Columns) -> Bools:
    marked = np.zeros(len(columns), np.bool_)
    for layer, field in (("ipv6", "tc"), ("ipv4", "tos")):
        for occurrence in (0, -1):
            rows, value = columns.values(layer, field, occurrence)
            marked[rows] |= value & 3 == 3
    return marked
