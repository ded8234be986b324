"""The sending side of `mrc send`: files cut into writes, spread over QPs, summed at both ends."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from mrc.endpoint.work import MAX_MESSAGE
from mrc.errors import CallerError, MrcError, PeerError, SystemRefused
from mrc.net.exchange.client import ExchangeClient
from mrc.net.negotiation import integer
from mrc.net.node import Node
from mrc.net.node_device import NodeDevice
from mrc.net.session.qps import TUNING, connect_qps, describe_qps, from_message, to_message
from mrc.net.ticket import Ticket
from mrc.net.transfer.files import OutgoingFile, outgoing_size
from mrc.net.transfer.report import (
    FileReport,
    TransferReport,
    counters_of,
    packets_per_path,
    path_reports,
    reported_duplicates,
)
from mrc.net.transfer.terms import MAX_QPS_PER_SENDER, POSTED_PER_QP, TRANSFER_FEATURE, file_qps
from mrc.records import record
from mrc.verbs import MR, QP, AccessFlag, Context, RemoteMemory, SendWR, WCStatus
from mrc.whole_files import LineFile

REQUEST_TIMEOUT_S = 15.0
SUM_TIMEOUT_S = 600.0
STATS_INTERVAL_NS = 5_000_000
_SUMMED_AT_ONCE = 1 << 20


@record(frozen=True, slots=True)
class SendOptions:
    """How to send: bytes per write, path MTU in bytes, number of QPs, where statistics go."""

    message_size: int = 1 << 20
    path_mtu: int = 4096
    qps: int = 1
    stats: Path | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.message_size <= MAX_MESSAGE:
            raise CallerError(f"message size must be 1..{MAX_MESSAGE} bytes, got {self.message_size}")
        if not 1 <= self.qps <= MAX_QPS_PER_SENDER:
            raise CallerError(f"qps must be 1..{MAX_QPS_PER_SENDER}, got {self.qps}")


@record(slots=True)
class _Progress:
    """Bytes acknowledged and when the data began and ended, over all files."""

    total: int
    acked: int = 0
    transfer_ns: int = 0


def send_files(
    node: Node,
    paths: Sequence[str | Path],
    ticket: Ticket,
    options: SendOptions,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> TransferReport:
    """Send files to the receiver of `ticket`, one after another, and compare the sums.

    `on_progress(done, total)` hears of bytes. Raises CallerError for files that cannot be read, PeerError when the
    receiver refuses or cannot be reached, or a QP ends in error.
    """
    _check_names(paths)
    # Each is opened when its turn comes: thousands would not fit the limits of descriptors, nor memory.
    sizes = [outgoing_size(path) for path in paths]
    with ExchangeClient(ticket, features=(TRANSFER_FEATURE,)) as exchange:
        return _Sending(node, exchange, options, on_progress, paths, sizes).run()


def _check_names(paths: Sequence[str | Path]) -> None:
    """A receiver puts files side by side under their base names."""
    names: dict[str, str | Path] = {}
    for path in paths:
        name = Path(path).name
        if name in names:
            raise CallerError(
                f"{names[name]} and {path} would be one file at the receiver: rename one, or send it apart"
            )
        names[name] = path


class _Sending:
    """One session with a receiver."""

    def __init__(
        self,
        node: Node,
        exchange: ExchangeClient,
        options: SendOptions,
        on_progress: Callable[[int, int], None],
        paths: Sequence[str | Path],
        sizes: Sequence[int],
    ) -> None:
        self._node = node
        self._exchange = exchange
        self._options = options
        self._on_progress = on_progress
        self._paths = paths
        self._sizes = sizes
        self._progress = _Progress(sum(sizes))
        self._context = Context(NodeDevice(node), tuning=TUNING)
        self._pd = self._context.pd()
        self._cq = self._context.cq(POSTED_PER_QP * options.qps)
        self._qps: list[QP] = []
        self._stats: LineFile | None = None
        self._next_stats_ns = 0

    def run(self) -> TransferReport:
        report = TransferReport()
        try:
            if self._options.stats is not None:
                self._stats = LineFile(self._options.stats)
            self._connect()
            for index, path in enumerate(self._paths):
                with contextlib.closing(OutgoingFile(path)) as file:
                    self._progress.total += file.size - self._sizes[index]
                    report.files.append(self._send(index, file))
                    report.bytes += file.size
            self._write_stats(time.monotonic_ns())
            report.seconds = self._progress.transfer_ns / 1e9
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
            self._context.close()
        document = report.to_json()
        figures = {"seconds": report.seconds, "paths": document["paths"], "counters": report.counters}
        report.duplicates_received = reported_duplicates(self._exchange.request("finish", figures, REQUEST_TIMEOUT_S))
        return report

    def _connect(self) -> None:
        self._qps = file_qps(self._pd, self._cq, self._options.qps)
        ours = describe_qps(self._qps, self._options.path_mtu, dynamic_mpr=True)
        answer = self._exchange.request("connect", to_message(ours), REQUEST_TIMEOUT_S)
        if TRANSFER_FEATURE not in self._exchange.peer_features:
            raise PeerError("the receiver takes files in another way: use the same mrc release at both ends")
        theirs = from_message(answer, MAX_QPS_PER_SENDER, self._options.path_mtu)
        connect_qps(self._qps, ours, [replace(their, mpr_dest=min(their.mpr_dest, TUNING.mpr)) for their in theirs])

    def _send(self, index: int, file: OutgoingFile) -> FileReport:
        opened = self._exchange.request(
            "open", {"index": index, "name": file.name, "size": file.size}, REQUEST_TIMEOUT_S
        )
        if file.map is not None:
            source = self._pd.mr(file.map, AccessFlag(0))
            begin = 0
            while True:
                length = integer(opened, "length", 1, file.size - begin + 1)
                va, rkey = integer(opened, "va", 0, 1 << 62), integer(opened, "rkey", 0, 1 << 32)
                self._write(file, source, begin, RemoteMemory(va, length, rkey))
                begin += length
                if begin == file.size:
                    break
                opened = self._exchange.request("extend", {"index": index}, REQUEST_TIMEOUT_S)
            source.close()
        return self._compare_sums(index, file)

    def _compare_sums(self, index: int, file: OutgoingFile) -> FileReport:
        """Compare the sums of both ends; the receiver names the file only if they agree.

        Both ends sum a large file at the same time. A small one is summed in less time than a round trip takes.
        """
        if file.size <= _SUMMED_AT_ONCE:
            file.check()
            ours = _sum_of(file)
            file.check_unchanged()
        else:
            ours = self._summed_at_both_ends(index, file)
        answer = self._exchange.request("commit", {"index": index, "sha256": ours}, SUM_TIMEOUT_S)
        return FileReport(file.name, file.size, ours, answer.get("match") is True)

    def _summed_at_both_ends(self, index: int, file: OutgoingFile) -> str:
        ours: list[str] = []

        def add_up() -> None:
            with contextlib.suppress(CallerError):
                ours.append(_sum_of(file))

        summing = threading.Thread(target=add_up, daemon=True)
        summing.start()
        file.check()
        self._exchange.request("sum", {"index": index}, SUM_TIMEOUT_S)
        summing.join()
        file.check_unchanged()
        if not ours:
            raise CallerError(f"{file.path} could not be read to the end")
        return ours[0]

    def _write(self, file: OutgoingFile, source: MR, begin: int, target: RemoteMemory) -> None:
        """Write the file from byte `begin` on to `target`, all of it, in messages, round robin over the QPs. Wait until
        all are acknowledged."""
        size, step = target.length, self._options.message_size
        cq, qps, progress = self._cq, self._qps, self._progress
        count = -(-size // step)
        posted = finished = 0
        acked_before = progress.acked

        def post() -> None:
            nonlocal posted
            while posted < count and posted - finished < POSTED_PER_QP * len(qps):
                offset = posted * step
                piece = source.sge(begin + offset, min(step, size - offset))
                request = SendWR(posted, sge=piece, remote_addr=target.addr + offset, rkey=target.rkey)
                qps[posted % len(qps)].post_send(request)
                posted += 1

        def done() -> bool:
            nonlocal finished
            file.check()
            completions = cq.poll(cq.cqe)
            if completions:
                for completion in completions:
                    if completion.status != WCStatus.SUCCESS:
                        self._raise_failure(completion.status)
                    finished += 1
                    progress.acked += completion.byte_len
                post()
                file.follow(begin + progress.acked - acked_before)
                self._on_progress(progress.acked, progress.total)
            now = time.monotonic_ns()
            if now >= self._next_stats_ns:
                self._write_stats(now)
            return finished == count

        started = time.monotonic_ns()
        post()
        self._node.driver.run(done, _stats_poll_s(self._stats is not None))
        progress.transfer_ns += time.monotonic_ns() - started

    def _raise_failure(self, status: WCStatus) -> None:
        failed = next((qp for qp in self._qps if qp.error), self._qps[0])
        raise PeerError(f"the transfer failed: {failed.explain(status)}")

    def _write_stats(self, now: int) -> None:
        self._next_stats_ns = now + STATS_INTERVAL_NS
        if self._stats is None:
            return
        line: dict[str, Any] = {
            "monotonic_ns": now,
            "bytes_acked": self._progress.acked,
            "bytes_total": self._progress.total,
            "packets_per_path": packets_per_path(qp.figures for qp in self._qps),
        }
        self._stats.write(json.dumps(line))


def _sum_of(file: OutgoingFile) -> str:
    try:
        return file.sha256()
    except (OSError, EOFError):
        raise CallerError(f"{file.path} could not be read to the end") from None


def _stats_poll_s(wanted: bool) -> float:
    return STATS_INTERVAL_NS / 1e9 if wanted else 0.25
