# SPDX-License-Identifier: BSD-2-Clause
"""The sending side of `mrc send`: a session with a receiver, in which files and packs of small ones are sent."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from mrc.endpoint.work import MAX_MESSAGE
from mrc.errors import CallerError, MrcError, PeerError, SystemRefused
from mrc.net.exchange.client import ExchangeClient, RefusedByPeer
from mrc.net.negotiation import text
from mrc.net.node import Node
from mrc.net.node_device import NodeDevice
from mrc.net.session.qps import TUNING, connect_qps, describe_qps, from_message, to_message
from mrc.net.ticket import Ticket
from mrc.net.transfer.ahead import Ahead
from mrc.net.transfer.background import Background
from mrc.net.transfer.names import shown
from mrc.net.transfer.outgoing import OutgoingFile, UnreadableFile
from mrc.net.transfer.packs import Filling, PackedFile, places_in, read_packed, refused_in
from mrc.net.transfer.report import (
    FileReport,
    TransferReport,
    counters_of,
    packets_per_path,
    path_reports,
    reported_duplicates,
)
from mrc.net.transfer.sending import REQUEST_TIMEOUT_S, SUM_TIMEOUT_S, FileSending
from mrc.net.transfer.sums import Sums
from mrc.net.transfer.terms import MAX_QPS_PER_SENDER, POSTED_PER_QP, TRANSFER_FEATURE, file_qps
from mrc.net.transfer.tree import Consignment, Outgoing, consignment
from mrc.net.transfer.window import OnePart, Part, opened_memory
from mrc.net.transfer.writing import Writing
from mrc.records import record
from mrc.verbs import QP, AccessFlag, Context
from mrc.whole_files import LineFile

STATS_INTERVAL_NS = 5_000_000


@record(frozen=True, slots=True)
class SendOptions:
    """How to send: bytes per write, path MTU in bytes, number of QPs, where statistics go, standard input's name."""

    message_size: int = 1 << 20
    path_mtu: int = 4096
    qps: int = 1
    stats: Path | None = None
    stdin_name: str = "stdin"

    def __post_init__(self) -> None:
        if not 1 <= self.message_size <= MAX_MESSAGE:
            raise CallerError(f"message size must be 1..{MAX_MESSAGE} bytes, got {self.message_size}")
        if not 1 <= self.qps <= MAX_QPS_PER_SENDER:
            raise CallerError(f"qps must be 1..{MAX_QPS_PER_SENDER}, got {self.qps}")


@record(slots=True)
class Progress:
    """Bytes done and in all, over all files, and the file at hand. `done`: acknowledged, or found to be there already.

    `total` None: standard input is among them. `files_done` of `files`, where there are several.
    """

    total: int | None
    done: int = 0
    file: str = ""
    files: int = 1
    files_done: int = 0


def send_files(
    node: Node,
    paths: Sequence[str | Path] | Consignment,
    ticket: Ticket,
    options: SendOptions,
    on_progress: Callable[[Progress], None] = lambda progress: None,
) -> TransferReport:
    """Send files and directories to the receiver of `ticket`, one file after another, and compare the sums.

    `-` is standard input. `on_progress` hears of bytes and files. Raises CallerError for what cannot be read, PeerError
    when the receiver refuses or cannot be reached, or a QP ends in error.
    """
    goods = paths if isinstance(paths, Consignment) else consignment(paths, options.stdin_name)
    with ExchangeClient(ticket, features=(TRANSFER_FEATURE,), on_lost=node.driver.wake) as exchange:
        return _Sending(node, exchange, options, on_progress, goods).run()


class _Sending:
    """One session with a receiver."""

    def __init__(
        self,
        node: Node,
        exchange: ExchangeClient,
        options: SendOptions,
        on_progress: Callable[[Progress], None],
        goods: Consignment,
    ) -> None:
        self._node = node
        self._exchange = exchange
        self._options = options
        self._on_progress = on_progress
        self._goods = goods
        in_all = None if any(file.source is None for file in goods.files) else sum(file.size for file in goods.files)
        self._progress = Progress(in_all, files=len(goods.files))
        self._sums = Sums()
        self._summing = Background("mrc sum")
        self._context = Context(NodeDevice(node), tuning=TUNING)
        self._pd = self._context.pd()
        self._cq = self._context.cq(POSTED_PER_QP * options.qps)
        self._qps: list[QP] = []
        poll_s = STATS_INTERVAL_NS / 1e9 if options.stats is not None else 0.25
        self._writing = Writing(
            node.driver, self._cq, options.message_size, self._summing, poll_s, self._look, self._acked
        )
        self._stats: LineFile | None = None
        self._next_stats_ns = 0

    def run(self) -> TransferReport:
        report = TransferReport()
        started_ns = time.monotonic_ns()
        try:
            if self._options.stats is not None:
                self._stats = LineFile(self._options.stats)
            self._connect()
            for directory in self._goods.directories:
                body = {"path": list(directory.path), **directory.attributes}
                self._exchange.request("directory", body, REQUEST_TIMEOUT_S)
            with contextlib.closing(Ahead(self._loads())) as loads:
                for index, load in loads:
                    if isinstance(load, Outgoing):
                        self._send_one(index, load, report)
                    else:
                        self._send_pack(load, report)
            self._write_stats(time.monotonic_ns())
            report.data_seconds = self._writing.took_ns / 1e9
            figures_of = [qp.figures for qp in self._qps]
            report.paths = path_reports(figures_of)
            report.counters = counters_of(figures_of, self._node.endpoint.counters, self._node.driver.socket_drops())
        except OSError as error:
            if isinstance(error, MrcError):
                raise
            raise SystemRefused(error.errno, f"{error.filename or self._options.stats}: {error.strerror}") from None
        finally:
            if self._stats is not None:
                with contextlib.suppress(OSError):
                    self._stats.close()
            self._summing.close()
            self._context.close()
        document = report.to_json()
        # What is left is a word of the receiver's.
        report.seconds = (time.monotonic_ns() - started_ns) / 1e9
        figures = {
            "seconds": report.seconds,
            "data_seconds": report.data_seconds,
            "paths": document["paths"],
            "counters": report.counters,
        }
        report.settle(reported_duplicates(self._exchange.request("finish", figures, REQUEST_TIMEOUT_S)))
        return report

    def _loads(self) -> Iterator[tuple[int, Outgoing | list[PackedFile]] | None]:
        """What is sent by requests of its own, in order, each with the number of its first file: a file, or a pack of
        small ones. None after each file that was read into a pack."""
        pack = Filling()
        for index, file in enumerate(self._goods.files):
            packed = self._read_packed(index, file)
            if pack.files and (packed is None or not pack.takes(packed)):
                yield index - len(pack.files), pack.files
                pack = Filling()
            if packed is None:
                yield index, file
            else:
                pack.add(packed)
                yield None
        if pack.files:
            yield len(self._goods.files) - len(pack.files), pack.files

    def _read_packed(self, index: int, file: Outgoing) -> PackedFile | None:
        """A small file's content and sum. One that cannot be read travels alone, and fails there."""
        try:
            return read_packed(index, file, self._sums)
        except OSError:
            return None

    def _send_one(self, index: int, file: Outgoing, report: TransferReport) -> None:
        self._progress.file = shown(file.path)
        try:
            report.add_file(self._send_any(index, file))
        except RefusedByPeer as refused:
            # About this file alone: it may not replace what is there.
            if refused.error_class != CallerError.__name__:
                raise
            report.refused.append((shown(file.path), str(refused)))
        except UnreadableFile as error:
            report.refused.append((shown(file.path), str(error)))
        self._progress.files_done += 1
        self._on_progress(self._progress)

    def _send_pack(self, pack: list[PackedFile], report: TransferReport) -> None:
        """Send small files together, but for those that are there already."""
        self._progress.file = shown(pack[0].path)
        body = {"first": pack[0].index, "files": [file.to_json() for file in pack]}
        opened = self._exchange.request("pack", body, REQUEST_TIMEOUT_S)
        there = set(places_in(opened, "there", len(pack)))
        refused = refused_in(opened, len(pack))
        wanted = [number for number in range(len(pack)) if number not in there and number not in refused]
        if wanted:
            content = bytearray().join(pack[number].content for number in wanted)
            source = self._pd.mr(content, AccessFlag(0))
            self._writing.write(source, OnePart(Part(0, opened_memory(opened, len(content)))))
            source.close()
        answer = self._exchange.request("commit pack", {}, SUM_TIMEOUT_S)
        refused |= refused_in(answer, len(pack))
        wrong = answer.get("wrong")
        for number, file in enumerate(pack):
            if number in refused:
                report.refused.append((shown(file.path), refused[number]))
                continue
            match = isinstance(wrong, list) and shown(file.path) not in wrong
            skipped = file.size if number in there else 0
            report.add_file(FileReport(shown(file.path), file.size, match, skipped))
        self._progress.files_done += len(pack)
        self._advance(sum(file.size for number, file in enumerate(pack) if number not in wanted))
        self._on_progress(self._progress)

    def _connect(self) -> None:
        self._qps = file_qps(self._pd, self._cq, self._options.qps)
        ours = describe_qps(self._qps, self._options.path_mtu, dynamic_mpr=True)
        answer = self._exchange.request("connect", to_message(ours), REQUEST_TIMEOUT_S)
        if TRANSFER_FEATURE not in self._exchange.peer_features:
            raise PeerError("the receiver takes files in another way: use the same mrc release at both ends")
        self._sums = Sums.of_key(text(answer, "sum_key"))
        self._files = FileSending(
            self._exchange, self._pd, self._writing, self._sums, self._summing, self._node.driver.wake, self._advance
        )
        theirs = from_message(answer, MAX_QPS_PER_SENDER, self._options.path_mtu)
        self._writing.qps = self._qps
        connect_qps(self._qps, ours, [replace(their, mpr_dest=min(their.mpr_dest, TUNING.mpr)) for their in theirs])

    def _send_any(self, index: int, outgoing: Outgoing) -> FileReport:
        if outgoing.source is None:
            return self._files.send_stream(index, outgoing.path)
        with contextlib.closing(OutgoingFile(outgoing.source)) as file:
            if self._progress.total is not None:
                self._progress.total += file.size - outgoing.size
            return self._files.send(index, outgoing.path, file)

    def _advance(self, count: int) -> None:
        if count:
            self._progress.done += count
            self._on_progress(self._progress)

    def _look(self) -> None:
        """Between turns: is the receiver there, and are statistics due. Raises PeerError."""
        self._check_receiver()
        now = time.monotonic_ns()
        if now >= self._next_stats_ns:
            self._write_stats(now)

    def _acked(self, count: int) -> None:
        self._progress.done += count
        self._on_progress(self._progress)

    def _check_receiver(self) -> None:
        """Raise PeerError where the receiver has ended. It may have waited in vain: what this end cannot send is the
        cause then."""
        try:
            self._exchange.check()
        except PeerError as error:
            paths = self._qps[0].figures.paths
            cause = self._node.endpoint.why_no_port(paths.ports, self._options.path_mtu) if paths is not None else ""
            if cause:
                raise PeerError(f"{cause} ({error})") from None
            raise

    def _write_stats(self, now: int) -> None:
        self._next_stats_ns = now + STATS_INTERVAL_NS
        if self._stats is None:
            return
        line: dict[str, Any] = {
            "monotonic_ns": now,
            "bytes_acked": self._progress.done,
            "bytes_total": self._progress.done if self._progress.total is None else self._progress.total,
            "packets_per_path": packets_per_path(qp.figures for qp in self._qps),
        }
        self._stats.write(json.dumps(line))
