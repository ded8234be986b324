# SPDX-License-Identifier: BSD-2-Clause
"""What was found, in SQLite: faults for good, probes in sums of ten seconds, and the latest picture.

One process writes, any number read at the same time (WAL). Times are nanoseconds since 1970.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mrc.errors import CallerError, SystemRefused
from mrc.net.control.shapes import fault_in
from mrc.untrusted import NotJson, parse_json

_VERSION = 1
_SECOND = 1_000_000_000
SUM_NS = 10 * _SECOND
_SCHEMA = """
CREATE TABLE fault (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL, kind TEXT NOT NULL, plane INTEGER NOT NULL,
    since_unix_ns INTEGER NOT NULL, named_unix_ns INTEGER NOT NULL, until_unix_ns INTEGER,
    worst_loss_percent REAL NOT NULL, document TEXT NOT NULL
);
CREATE INDEX fault_by_end ON fault (until_unix_ns);
CREATE TABLE probes (
    at_unix_ns INTEGER NOT NULL, host INTEGER NOT NULL, plane INTEGER NOT NULL,
    back INTEGER NOT NULL, lost INTEGER NOT NULL,
    PRIMARY KEY (at_unix_ns, host, plane)
) WITHOUT ROWID;
CREATE TABLE picture (one INTEGER PRIMARY KEY CHECK (one = 1), at_unix_ns INTEGER NOT NULL, document TEXT NOT NULL);
"""


class History:
    """The file `path`, made when it is not there. From one thread at a time.

    Raises SystemRefused when the file cannot be used, CallerError when it is something else. A fault that an earlier
    process left open ends when that process last wrote, with `"interrupted": true`.
    """

    def __init__(self, path: Path) -> None:
        self._rows: dict[tuple[str, int], int] = {}
        self._sums: dict[tuple[int, int], tuple[int, int]] = {}
        self._sum_at = 0
        try:
            self._base = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        except sqlite3.Error as error:
            raise SystemRefused(f"cannot open {path}: {error}") from None
        try:
            self._base.execute("PRAGMA journal_mode=WAL")
            self._base.execute("PRAGMA synchronous=NORMAL")
            (version,) = self._base.execute("PRAGMA user_version").fetchone()
            tables = self._base.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
            if version == 0 and tables == 0:
                self._base.executescript(f"BEGIN; {_SCHEMA} PRAGMA user_version={_VERSION}; COMMIT;")
            elif version != _VERSION:
                raise CallerError(f"{path} is not a history of mrc map: name another file with --history")
            self._end_interrupted()
        except NotJson as error:
            self._base.close()
            raise CallerError(f"{path} is damaged ({error}): name another file with --history") from None
        except sqlite3.DatabaseError as error:
            self._base.close()
            if isinstance(error, sqlite3.OperationalError):
                raise SystemRefused(f"cannot write {path}: {error}") from None
            raise CallerError(f"{path} is not a history of mrc map ({error}): name another file") from None
        except BaseException:
            self._base.close()
            raise

    def _end_interrupted(self) -> None:
        row = self._base.execute("SELECT at_unix_ns FROM picture").fetchone()
        last = row[0] if row else 0
        for number, text in self._base.execute("SELECT id, document FROM fault WHERE until_unix_ns IS NULL").fetchall():
            document = _document(text)
            until = max(last, document["since_unix_ns"])
            document |= {"until_unix_ns": until, "interrupted": True}
            self._base.execute(
                "UPDATE fault SET until_unix_ns = ?, document = ? WHERE id = ?", (until, json.dumps(document), number)
            )

    def record(self, faults: list[dict[str, Any]]) -> None:
        """Write these faults (`picture.fault_document`): new ones, and changes of old ones. Raises SystemRefused."""
        try:
            with self._base:
                self._base.execute("BEGIN")
                for fault in faults:
                    self._record_one(fault)
        except sqlite3.Error as error:
            raise SystemRefused(f"the history cannot be written: {error}") from None

    def _record_one(self, fault: dict[str, Any]) -> None:
        key = fault["name"], fault["since_unix_ns"]
        values = (fault["until_unix_ns"], fault["loss_percent"], json.dumps(fault))
        if key in self._rows:
            self._base.execute(
                "UPDATE fault SET until_unix_ns = ?, worst_loss_percent = max(worst_loss_percent, ?), document = ? "
                "WHERE id = ?",
                (*values, self._rows[key]),
            )
        else:
            columns = (fault["name"], fault["kind"], fault["plane"], fault["since_unix_ns"], fault["named_unix_ns"])
            cursor = self._base.execute(
                "INSERT INTO fault (name, kind, plane, since_unix_ns, named_unix_ns, until_unix_ns, "
                "worst_loss_percent, document) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (*columns, *values),
            )
            self._rows[key] = int(cursor.lastrowid or 0)
        if fault["until_unix_ns"] is not None:
            del self._rows[key]

    def keep(self, document: Mapping[str, Any], counts: Mapping[tuple[int, int], tuple[int, int]]) -> None:
        """The latest picture; `counts`: (back, lost) by (host, plane) since the agents began. Raises SystemRefused."""
        at = int(document["at_unix_ns"])
        try:
            with self._base:
                self._base.execute("BEGIN")
                self._base.execute("INSERT OR REPLACE INTO picture VALUES (1, ?, ?)", (at, json.dumps(document)))
                if at // SUM_NS != self._sum_at:
                    self._sum_at = at // SUM_NS
                    self._add_sums(self._sum_at * SUM_NS, counts)
        except sqlite3.Error as error:
            raise SystemRefused(f"the history cannot be written: {error}") from None

    def _add_sums(self, at: int, counts: Mapping[tuple[int, int], tuple[int, int]]) -> None:
        for (host, plane), (back, lost) in counts.items():
            before = self._sums.get((host, plane), (0, 0))
            if back < before[0] or lost < before[1]:
                before = 0, 0  # the agent began anew
            new = back - before[0], lost - before[1]
            self._sums[host, plane] = back, lost
            if any(new):
                self._base.execute("INSERT OR REPLACE INTO probes VALUES (?, ?, ?, ?, ?)", (at, host, plane, *new))

    def forget(self, before_unix_ns: int) -> None:
        """Remove what was over before that. Raises SystemRefused."""
        try:
            with self._base:
                self._base.execute("DELETE FROM probes WHERE at_unix_ns < ?", (before_unix_ns,))
                self._base.execute("DELETE FROM fault WHERE until_unix_ns < ?", (before_unix_ns,))
        except sqlite3.Error as error:
            raise SystemRefused(f"the history cannot be written: {error}") from None

    def past(self, most: int) -> list[dict[str, Any]]:
        """The faults that were over last, latest end first. Raises SystemRefused."""
        try:
            return [_document(text) for (text,) in self._base.execute(_PAST, (0, most))]
        except (NotJson, sqlite3.Error) as error:
            raise SystemRefused(f"the history cannot be read: {error}") from None

    def close(self) -> None:
        self._base.close()


_PAST = "SELECT document FROM fault WHERE until_unix_ns >= ? ORDER BY until_unix_ns DESC LIMIT ?"


def read_history(path: Path, since_unix_ns: int, most: int = 1000) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """(the latest picture, the faults that were over since then, latest first) of a file that another process writes.

    Raises CallerError when there is no such file, or it is no history, or nothing was kept in it yet.
    """
    advice = "`mrc map serve` keeps one"
    if not path.is_file():
        raise CallerError(f"there is no history {path}: {advice}")
    try:
        base = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        try:
            # Its writer makes the file first and the tables a moment later.
            is_new = not base.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
            row = None if is_new else base.execute("SELECT document FROM picture").fetchone()
            picture = {} if row is None else _document(row[0], _PICTURE)
            rows = [] if is_new else base.execute(_PAST, (since_unix_ns, most))
            past = [_document(text) for (text,) in rows]
        finally:
            base.close()
    except (sqlite3.Error, ValueError) as error:
        raise CallerError(f"{path} is not a history of mrc map ({error}): {advice}") from None
    if row is None:
        raise CallerError(f"nothing is in {path} yet: {advice}, and it has only just begun")
    return picture, past


_NUMBER = (int, float)
_FAULT = {
    "name": str,
    "kind": str,
    "plane": int,
    "state": str,
    "toward": [str],
    "also": [str],
    "withdrawn": bool,
    "loss_percent": _NUMBER,
    "loss_percent_low": _NUMBER,
    "loss_percent_high": _NUMBER,
    "since_unix_ns": int,
    "named_unix_ns": int,
    "until_unix_ns": (int, None),
}
_PICTURE = {
    "fabric": str,
    "at_unix_ns": int,
    "leaves": int,
    "hosts_per_leaf": int,
    "faults": [_FAULT],
    "suspicions": [{"names": [str], "since_unix_ns": int}],
    "agents": [{"host": str, "silent": bool, "rate_per_s": int}],
}
_TIMES = ("since_unix_ns", "named_unix_ns", "until_unix_ns", "at_unix_ns")
_LATEST_NS = 1 << 62


def _document(text: object, shape: Any = _FAULT) -> dict[str, Any]:
    """One document of the file, a picture or a fault. Raises NotJson for what is none."""
    what = "a document in it"
    found = parse_json(text.encode(errors="replace") if isinstance(text, str) else b"", what)
    fault = fault_in(found, shape)
    if fault is not None:
        raise NotJson(f"{what} has no proper {fault or 'form'}")
    document: dict[str, Any] = found
    for each in document["faults"] if shape is _PICTURE else [document]:
        each.setdefault("until_unix_ns", None)
    for each in [document, *document.get("faults", ())]:
        for name in _TIMES:
            if not 0 <= (each.get(name) or 0) <= _LATEST_NS:
                raise NotJson(f"{what} has {name} {each[name]}, which is no time of a map")
    return document
