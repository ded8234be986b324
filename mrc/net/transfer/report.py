# SPDX-License-Identifier: BSD-2-Clause
"""How a transfer went, for people and for `--json`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, field, fields
from itertools import zip_longest
from typing import Any

from mrc.endpoint.counters import Counters
from mrc.endpoint.paths.path_set import NEVER, PathSet
from mrc.endpoint.paths.states import EvState, worst
from mrc.errors import PeerError
from mrc.net.negotiation import integer
from mrc.records import record
from mrc.verbs.figures import QPFigures

# What only the sending half of a QP counts.
SENDER_COUNTERS = (
    "data_packets_sent",
    "data_bytes_sent",
    "retransmitted_packets",
    "spurious_retransmissions",
    "losses_by_hole",
    "losses_by_path_timer",
    "local_ack_timeouts",
    "tail_probes_sent",
    "path_probes_sent",
    "path_probes_failed",
)
_MAX_SECONDS = 1e9
_MAX_COUNT = 1 << 63
_MAX_PATHS = 4096


@record(frozen=True, slots=True)
class PathReport:
    """One path over all QPs of a transfer. Times are CLOCK_MONOTONIC ns of data packets; None: never used."""

    ev: int
    plane: int
    spine: int
    packets: int
    lost: int
    state: str
    first_use_ns: int | None
    last_use_ns: int | None

    @classmethod
    def from_json(cls, document: object) -> PathReport:
        """Raises PeerError for anything but whole numbers and the name of a state."""
        names = [field.name for field in fields(cls)]
        if not isinstance(document, dict) or set(document) != set(names):
            raise PeerError("the sender's report describes a path in another form")
        if not isinstance(document["state"], str) or document["state"] not in EvState.__members__:
            raise PeerError("the sender's report names an unknown path state")
        for name in names:
            value = document[name]
            if name != "state" and not _is_count(value) and not (value is None and name.endswith("_use_ns")):
                raise PeerError(f"the sender's report gives {name} of a path as something other than a number")
        return cls(**document)


@record(frozen=True, slots=True)
class FileReport:
    """One file, by its path below the receiver's directory. `sums_agree`: both ends have the same content, by a keyed
    sum of it. `skipped_bytes` were not sent: there already, or holes.
    """

    name: str
    bytes: int
    sums_agree: bool
    skipped_bytes: int = 0


@record(slots=True)
class TransferReport:
    """Figures of a transfer. `seconds` is what it took, from the first request to the last; `data_seconds` is the part
    of it in which data was on its way, from a file's first packet to its last acknowledgement.

    `refused` are files that the receiver did not take, each with the reason; the others are in `files`.
    `duplicates_received` is what the receiver counted until the transfer closed; None: it did not report it.
    """

    bytes: int = 0
    seconds: float = 0.0
    data_seconds: float = 0.0
    skipped_bytes: int = 0
    files: list[FileReport] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)
    paths: list[PathReport] = field(default_factory=list)
    counters: dict[str, int] = field(default_factory=dict)
    duplicates_received: int | None = None

    @property
    def goodput_gbps(self) -> float:
        """Of the data, while it was on its way."""
        return (self.bytes - self.skipped_bytes) * 8 / self.data_seconds / 1e9 if self.data_seconds else 0.0

    @property
    def sums_agree(self) -> bool:
        return all(file.sums_agree for file in self.files)

    @property
    def retransmitted_packets(self) -> int:
        return self.counters.get("retransmitted_packets", 0)

    @property
    def spurious_retransmissions(self) -> int:
        """By what both ends know; without the receiver's report, those that the sender noticed."""
        noticed = self.counters.get("spurious_retransmissions", 0)
        return spurious_retransmissions(self.retransmitted_packets, noticed, self.duplicates_received)

    def settle(self, duplicates: int | None) -> None:
        """Both ends have said what they know: from now on there is one number of spurious retransmissions."""
        self.duplicates_received = duplicates
        if spurious := self.spurious_retransmissions:
            self.counters["spurious_retransmissions"] = spurious

    def add_file(self, file: FileReport) -> None:
        """Count a file that is done."""
        self.files.append(file)
        self.bytes += file.bytes
        self.skipped_bytes += file.skipped_bytes

    def add(self, other: TransferReport) -> None:
        """Add another session's figures to these."""
        self.bytes += other.bytes
        self.skipped_bytes += other.skipped_bytes
        self.seconds += other.seconds
        self.data_seconds += other.data_seconds
        self.files += other.files
        self.refused += other.refused
        self.paths += other.paths
        for name, count in other.counters.items():
            self.counters[name] = self.counters.get(name, 0) + count
        if other.duplicates_received is not None:
            self.duplicates_received = (self.duplicates_received or 0) + other.duplicates_received

    def to_json(self) -> dict[str, Any]:
        """The document that `--json` prints."""
        return {
            "bytes": self.bytes,
            "skipped_bytes": self.skipped_bytes,
            "seconds": round(self.seconds, 6),
            "data_seconds": round(self.data_seconds, 6),
            "goodput_gbps": round(self.goodput_gbps, 4),
            "sums_agree": self.sums_agree,
            "retransmitted_packets": self.retransmitted_packets,
            "spurious_retransmissions": self.spurious_retransmissions,
            "duplicates_received": self.duplicates_received,
            "paths": [asdict(path) for path in self.paths],
            "failovers": [],
            "files": [asdict(file) for file in self.files],
            "refused": [{"name": name, "why": why} for name, why in self.refused],
            "counters": self.counters,
        }

    @classmethod
    def figures_from_json(cls, document: dict[str, Any]) -> TransferReport:
        """The sender's figures as it reported them. Raises PeerError when they are not of that form."""
        paths = [PathReport.from_json(path) for path in _list(document, "paths")]
        counters = document.get("counters")
        took = [_seconds(document, name) for name in ("seconds", "data_seconds")]
        if not isinstance(counters, dict) or not all(_is_count(count) for count in counters.values()):
            raise PeerError("the sender's report has no counters")
        known = {name: counters[name] for name in Counters().as_dict(zeros=True) if name in counters}
        return cls(seconds=took[0], data_seconds=took[1], paths=paths, counters=known)


def spurious_retransmissions(resent: int, noticed: int, duplicates: int | None) -> int:
    """Retransmissions of packets that had arrived: as many as the receiver got twice, or as the sender noticed.

    Each count alone may be too small: a sender notices few, and a spurious retransmission that is lost is no duplicate.
    Duplicates that the network makes are not retransmissions, so there are never more than `resent`. `duplicates` None:
    the receiver did not report.
    """
    return min(resent, max(noticed, duplicates or 0))


def duplicates_received(qps: Iterable[QPFigures]) -> int:
    """Requests that came more than once, over these QPs of a receiver."""
    return sum(qp.counters.duplicates_received for qp in qps)


def reported_duplicates(document: Mapping[str, Any]) -> int | None:
    """The receiver's count in its closing answer; None for one that sends none. Raises PeerError for no count."""
    if "duplicates_received" not in document:
        return None
    return integer(document, "duplicates_received", 0, _MAX_COUNT)


def _is_count(value: object) -> bool:
    return type(value) is int and abs(value) < _MAX_COUNT


def _seconds(document: dict[str, Any], key: str) -> float:
    value = document.get(key)
    if not isinstance(value, int | float) or not 0 <= value < _MAX_SECONDS:
        raise PeerError(f"the sender's report says it took {value!r} seconds")
    return float(value)


def _list(document: dict[str, Any], key: str) -> list[Any]:
    value = document.get(key)
    if not isinstance(value, list) or len(value) > _MAX_PATHS:
        raise PeerError(f"the sender's report has no list of at most {_MAX_PATHS} {key}")
    return value


def path_reports(qps: Iterable[QPFigures]) -> list[PathReport]:
    """The paths of QPs, added up EV by EV; the worst state counts. One that a profile lost on the way is DENIED."""
    by_ev: dict[int, list[tuple[PathSet, int]]] = {}
    for qp in qps:
        if qp.paths is not None:
            for index, path in enumerate(qp.paths.paths):
                by_ev.setdefault(path.ev, []).append((qp.paths, index))
    return [_path_report(places) for places in by_ev.values()]


def _path_report(places: Sequence[tuple[PathSet, int]]) -> PathReport:
    path = places[0][0].paths[places[0][1]]
    tables = [(paths.table, index) for paths, index in places]
    firsts = [table.first_sent_at[index] for table, index in tables if table.first_sent_at[index] != NEVER]
    lasts = [table.last_sent_at[index] for table, index in tables if table.last_sent_at[index] != NEVER]
    return PathReport(
        ev=path.ev,
        plane=path.plane,
        spine=path.spine,
        packets=sum(table.packets[index] for table, index in tables),
        lost=sum(table.lost[index] for table, index in tables),
        state=worst(table.state[index] for table, index in tables).name,
        first_use_ns=min(firsts, default=None),
        last_use_ns=max(lasts, default=None),
    )


def packets_per_path(qps: Iterable[QPFigures]) -> list[int]:
    """Data packets put on each EV so far."""
    total: list[int] = []
    for qp in qps:
        if qp.paths is not None:
            # EVs keep their place; a profile that was replaced has more of them.
            total = [had + more for had, more in zip_longest(total, memoryview(qp.paths.table.packets), fillvalue=0)]
    return total


def counters_of(qps: Iterable[QPFigures], endpoint_counters: Counters, socket_drops: int) -> dict[str, int]:
    """Counters of QPs and their endpoint, and what the kernel dropped because its receive buffers were full."""
    total = Counters()
    total.add(endpoint_counters)
    for qp in qps:
        total.add(qp.counters)
    return total.as_dict() | ({"receive_buffer_drops": socket_drops} if socket_drops else {})
