# SPDX-License-Identifier: BSD-2-Clause
"""Tables as Parquet files (extra `parquet`): the same tables give the same bytes."""

from __future__ import annotations

import io
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mrc.errors import CallerError, SystemRefused
from mrc.sim.results.tables import Table
from mrc.untrusted import parse_json

# The key of the files' metadata under which a JSON document says what they are.
METADATA = b"mrc"
SUFFIX = ".parquet"


def _arrow() -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise CallerError("results are Parquet files, which need pyarrow: pip install 'softmrc[parquet]'") from None
    return pyarrow


def check_pyarrow() -> None:
    """Raises CallerError where pyarrow is missing: before a long run, not after it."""
    _arrow()


def encode(table: Table, about: Mapping[str, Any]) -> bytes:
    """Write a table as the content of a Parquet file; `about` is JSON that goes into its metadata."""
    arrow = _arrow()
    arrays = {}
    for name, column in table.columns.items():
        mask = table.missing.get(name)
        array = arrow.array(column, mask=mask)
        if name in table.words:
            array = arrow.DictionaryArray.from_arrays(array.cast(arrow.int32()), arrow.array(table.words[name]))
        arrays[name] = array
    return _written(arrow, arrow.table(arrays), about)


def encode_all(tables: Mapping[str, Table], about: Mapping[str, Any]) -> dict[str, bytes]:
    """The content of each file, by its name."""
    return {name + SUFFIX: encode(table, about) for name, table in tables.items()}


def encode_rows(rows: Sequence[Mapping[str, Any]], about: Mapping[str, Any]) -> bytes:
    """Write rows of plain values; a column in which some are text is text."""
    arrow = _arrow()
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = {}
    for name in names:
        values = [row.get(name) for row in rows]
        if any(isinstance(value, str) for value in values):
            values = [None if value is None else str(value) for value in values]
        columns[name] = arrow.array(values)
    return _written(arrow, arrow.table(columns), about)


def _written(arrow: Any, table: Any, about: Mapping[str, Any]) -> bytes:
    content = io.BytesIO()
    made = table.replace_schema_metadata({METADATA: json.dumps(about, sort_keys=True).encode()})
    arrow.parquet.write_table(made, content, compression="zstd")
    return content.getvalue()


def read(path: Path, columns: list[str] | None = None) -> dict[str, Any]:
    """Read a file's columns as arrays of numpy; words as text. What is null is -1, NaN in
    a column of fractions, "" in one of words. Raises CallerError."""
    arrow = _arrow()
    try:
        table = _table(arrow, path, columns)
    except FileNotFoundError:
        raise CallerError(f"{path}: not there") from None
    except (arrow.ArrowInvalid, OSError) as error:
        raise CallerError(f"{path}: not a readable Parquet file: {str(error).splitlines()[0]}") from None
    return _columns(arrow, table)


def decode(content: bytes) -> dict[str, Any]:
    """Read the content of a file as `read` reads the file."""
    arrow = _arrow()
    return _columns(arrow, _table(arrow, arrow.BufferReader(content)))


def _table(arrow: Any, source: Any, columns: list[str] | None = None) -> Any:
    """Read by this thread. `read_table` starts others: where the process ends soon after, one of them that wants the
    interpreter's lock then aborts it, "terminate called without an active exception", one short program in six."""
    file = arrow.parquet.ParquetFile(source)
    if missing := {*(columns or ())} - {*file.schema_arrow.names}:
        raise arrow.ArrowInvalid(f"it has no column {', '.join(sorted(missing))}")
    return file.read(columns=columns, use_threads=False)


def _columns(arrow: Any, table: Any) -> dict[str, Any]:
    found = {}
    for name in table.column_names:
        column = table[name].combine_chunks()
        if arrow.types.is_dictionary(column.type):
            column = column.cast(arrow.string())
        if column.null_count and not arrow.types.is_floating(column.type):
            column = column.fill_null("" if arrow.types.is_string(column.type) else -1)
        found[name] = column.to_numpy(zero_copy_only=False)
    return found


def about(path: Path) -> dict[str, Any]:
    """What a file says it is. Raises CallerError for one that mrc did not write."""
    arrow = _arrow()
    try:
        metadata = arrow.parquet.read_schema(path).metadata or {}
        found: dict[str, Any] = parse_json(metadata[METADATA])
    except FileNotFoundError:
        raise CallerError(f"{path}: not there") from None
    except (arrow.ArrowInvalid, OSError, KeyError, ValueError):
        raise CallerError(f"{path}: not a result of mrc sim") from None
    return found


class ResultsDirectory:
    """A directory of results that is whole or not there: written beside its name, which it gets at the end.

    Raises CallerError where something is there already: results only are replaced, and only with `overwrite`.
    """

    def __init__(self, path: Path, *, overwrite: bool = False) -> None:
        self._path = path
        if path.exists() or path.is_symlink():
            if not overwrite:
                raise CallerError(f"{path} is there already: --overwrite replaces it, --out names another")
            if not path.is_dir() or any(not _is_ours(each) for each in path.iterdir()):
                raise CallerError(f"{path} has other files than results: name another directory with --out")

    def write(self, files: Mapping[str, bytes]) -> None:
        """Raises SystemRefused for what cannot be written; nothing is left then."""
        part = self._path.with_name(f".{self._path.name}.{os.getpid()}.part")
        try:
            part.mkdir(parents=True)
            for name, content in files.items():
                (part / name).write_bytes(content)
            if self._path.exists():
                _remove(self._path)
            part.rename(self._path)
        except OSError as error:
            raise SystemRefused(error.errno, f"{self._path}: cannot be written: {error.strerror}") from error
        finally:
            shutil.rmtree(part, ignore_errors=True)


def _is_ours(path: Path) -> bool:
    return path.suffix == SUFFIX and path.is_file()


def _remove(directory: Path) -> None:
    for each in list(directory.iterdir()):
        each.unlink()
    directory.rmdir()
