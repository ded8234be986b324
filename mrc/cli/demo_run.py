# SPDX-License-Identifier: BSD-2-Clause
"""What the demo does: a lab, two processes in it, a cut at the right moment, and a judgement."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import tempfile
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mrc import CORE
from mrc.child import Child, forked, listen, python
from mrc.core import COMPILED
from mrc.errors import PeerError, SystemRefused
from mrc.fabric import Clos
from mrc.lab import Lab
from mrc.lab.children import start_on
from mrc.lab.scratch import scratch_directory
from mrc.net.transfer.report import FileReport, PathReport, TransferReport
from mrc.report.units import size_text
from mrc.untrusted import own_json
from mrc.whole_files import WholeFile, write_whole
from mrc.wire.usid import UsidTemplate, address_text

LAB_NAME = "demo"
# From when the cable was down: the kernel may take as long again to set it down. Time in which an end waits for a
# processor does not count: it cannot notice the cut then.
DEAD_PATH_LIMIT_S = 0.1
LEAST_TAIL_PACKETS = 1536  # four windows, 6 MiB
# A path that lost something is back once a probe of it was answered. Where probes are lost, too, the next come 10, 20,
# 40, 80 ms later.
LEAST_TAIL_NS = 200_000_000
_POLL_S = 0.004
_LOOK_NS = 20_000_000
_STALL_TIMEOUT_S = 30.0
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class DemoPlan:
    """Sizes in bytes; `cut_after` and `loss` as shares of 1. `cut_after` 1 cuts nothing."""

    size: int
    planes: int
    spines: int
    cut_after: float
    loss: float
    pcap: Path | None
    trace: Path | None = None
    events: Path | None = None

    def trace_of(self, end: str) -> list[str]:
        """The options that make one end, sender or receiver, write its trace."""
        return [] if self.trace is None else ["--trace", f"{self.trace.absolute()}.{end}"]

    @property
    def files(self) -> list[Path]:
        """Everything it is to leave behind."""
        traces = [] if self.trace is None else [Path(f"{self.trace}.{end}") for end in ("sender", "receiver")]
        return [path for path in (self.pcap, self.events, *traces) if path is not None]

    @property
    def cuts(self) -> bool:
        return self.cut_after < 1.0

    @property
    def cut_link(self) -> str:
        return f"p0l0-p0s{min(1, self.spines - 1)}"


@dataclass(frozen=True, slots=True)
class Failover:
    """`cut_at_s` counts from the first packet, `last_use_after_s` from the cut."""

    link: str
    cut_at_s: float
    last_use_after_s: float


@dataclass(frozen=True, slots=True)
class DemoPath:
    """One path and the data packets put on it before the cut, after it, and in the last tenth of the transfer."""

    report: PathReport
    address: str
    cut: bool
    before_cut: int
    after_cut: int
    last_tenth: int


@dataclass(slots=True)
class DemoResult:
    report: TransferReport
    paths: list[DemoPath]
    failovers: list[Failover]
    faults: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Cut:
    """CLOCK_MONOTONIC when the cable was to be set down, and when it was. Where other namespaces are made or removed
    meanwhile that takes up to a tenth of a second, and the path works until then."""

    began_ns: int
    done_ns: int


@dataclass(frozen=True, slots=True)
class _Sample:
    """One line of the sender's statistics."""

    monotonic_ns: int
    bytes_acked: int
    packets: list[int]


class Waits:
    """How long the sender and the receiver waited for a processor, from the kernel's schedstat (proc(5)).

    `look` samples both while they run, every 20 ms at most. Without schedstat every wait is 0.
    """

    def __init__(self, pids: Sequence[int]) -> None:
        self._of: dict[int, dict[int, int]] = {pid: {} for pid in pids}
        self._at_ns: list[int] = []
        self._waited_ns: list[dict[int, dict[int, int]]] = []

    def look(self) -> None:
        """Take a sample, unless the last one is recent: it costs half a millisecond of processor time."""
        now = time.monotonic_ns()
        if self._at_ns and now - self._at_ns[-1] < _LOOK_NS:
            return
        for pid, waited_ns in self._of.items():
            with suppress(OSError):  # it has ended
                for thread in os.listdir(f"/proc/{pid}/task"):
                    with suppress(OSError, IndexError, ValueError):
                        said = Path(f"/proc/{pid}/task/{thread}/schedstat").read_text()
                        waited_ns[int(thread)] = int(said.split()[1])
        self.note(now, self._of)

    def note(self, at_ns: int, waited_ns: Mapping[int, Mapping[int, int]]) -> None:
        """Add a sample: the total wait of each thread of each process, in nanoseconds."""
        self._at_ns.append(at_ns)
        self._waited_ns.append({pid: dict(of_threads) for pid, of_threads in waited_ns.items()})

    def between(self, began_ns: int, ended_ns: int) -> int:
        """The waits of both processes, in nanoseconds. 0 where the end lies before the beginning.

        They are those from the last sample before `began_ns` to the first one after `ended_ns`.
        Each process counts with its thread that waited longest: threads may wait at the same time, and the samples do
        not show which one runs the endpoint.
        """
        if not self._at_ns or ended_ns <= began_ns:
            return 0
        before = self._waited_ns[max(0, bisect_right(self._at_ns, began_ns) - 1)]
        after = self._waited_ns[min(len(self._at_ns) - 1, bisect_left(self._at_ns, ended_ns))]
        return sum(
            max((ns - before.get(pid, {}).get(thread, 0) for thread, ns in of_threads.items()), default=0)
            for pid, of_threads in after.items()
        )


def run_demo(plan: DemoPlan, say: Callable[[str], None]) -> DemoResult:
    """Run it. Raises MrcError when the lab cannot be built or one of the two processes fails."""
    shape = Clos(planes=plan.planes, spines=plan.spines)
    for path in plan.files:
        _check_writable(path)
    _check_room(Path(tempfile.gettempdir()), plan.size)
    with scratch_directory("mrc-demo-") as scratch, Lab.up(LAB_NAME, shape) as lab:
        say(
            f"a fabric of {len(shape.nodes)} namespaces: {plan.planes} planes x {plan.spines} spines, "
            f"{plan.loss:.1%} loss on each of {len(list(shape.fabric_links()))} leaf-spine links"
        )
        if CORE.kind != COMPILED:
            say(f"the datapath runs interpreted and is slow ({CORE.why}): {CORE.advice}")
        if plan.loss:
            for link in shape.fabric_links():
                lab.impair(link.name, loss=plan.loss)
        source, target, stats = scratch / "demo.bin", scratch / "received", scratch / "stats"
        target.mkdir()
        _write_random(source, plan.size)
        try:
            with _recording(lab, plan.pcap, say):
                return _transfer(plan, lab, source, target, stats, say)
        finally:
            _keep_events(lab, plan.events)


def _transfer(
    plan: DemoPlan, lab: Lab, source: Path, target: Path, stats: Path, say: Callable[[str], None]
) -> DemoResult:
    # For both ends: they are forks of this process.
    import mrc.cli.recv
    import mrc.cli.send
    import mrc.cli.transfer_output
    import mrc.net.node
    import mrc.net.transfer.receiver
    import mrc.net.transfer.sender  # noqa: F401
    from mrc.net.forks import import_for_endpoints

    import_for_endpoints()
    receive = ["recv", "--once", "--json", "--dir", str(target), "--idle-timeout", "10s", *plan.trace_of("receiver")]
    with start_on(lab, "h1", "the receiver", python("mrc", *receive), start=forked) as receiving:
        send = ["send", str(source), receiving.started(), "--json", "--stats", str(stats), *plan.trace_of("sender")]
        with start_on(lab, "h0", "the sender", python("mrc", *send), start=forked) as sending:
            waits = Waits([each.process.pid for each in (sending, receiving)])
            cut, samples = _watch(plan, lab, sending, stats, say, waits)
            sent = sending.outcome(_STALL_TIMEOUT_S)
        received = receiving.outcome(_STALL_TIMEOUT_S)
    return _judge(plan, sent, received, cut, samples, waits)


def _watch(
    plan: DemoPlan, lab: Lab, sending: Child, stats: Path, say: Callable[[str], None], waits: Waits
) -> tuple[_Cut | None, list[_Sample]]:
    """Follow the sender's statistics and cut the cable at the right moment."""
    samples: list[_Sample] = []
    cut: _Cut | None = None
    moved_at = time.monotonic()
    acked = at = 0
    while True:
        ended = sending.silent
        waits.look()
        lines, at = _new_lines(stats, at)
        samples += [_Sample(line["monotonic_ns"], line["bytes_acked"], line["packets_per_path"]) for line in lines]
        if samples and samples[-1].bytes_acked > acked:
            acked, moved_at = samples[-1].bytes_acked, time.monotonic()
        if plan.cuts and cut is None and not ended and plan.size > acked >= plan.cut_after * plan.size:
            cut = _Cut(lab.cut(plan.cut_link), time.monotonic_ns())
            say(f"cut {plan.cut_link} with {acked / plan.size:.0%} acknowledged")
        if ended:
            return cut, samples
        if time.monotonic() - moved_at > _STALL_TIMEOUT_S:
            raise PeerError(f"the sender has made no progress for {_STALL_TIMEOUT_S:.0f} s")
        # Read on: with many paths its document is more than a pipe takes.
        listen([sending], _POLL_S)


def _judge(
    plan: DemoPlan,
    sent: dict[str, Any],
    received: dict[str, Any],
    cut: _Cut | None,
    samples: list[_Sample],
    waits: Waits,
) -> DemoResult:
    cut_at_ns = None if cut is None else cut.began_ns
    report = TransferReport(
        bytes=sent["bytes"],
        seconds=sent["seconds"],
        data_seconds=sent["data_seconds"],
        files=[FileReport(**file) for file in sent["files"]],
        paths=[PathReport(**path) for path in sent["paths"]],
        counters=sent["counters"],
        duplicates_received=sent["duplicates_received"],
    )
    faults = []
    if not (sent["sums_agree"] and received["sums_agree"]):
        faults.append("the sums differ")
    template = UsidTemplate(source_leaf=0, destination_leaf=1, destination_host=1)
    all_packets = sum(path.packets for path in report.paths)
    # The statistics come every 5 ms: the last ones before the last tenth of the packets begins. A short transfer's
    # last tenth is less than one window, in which no path that lost something can be back.
    tail = max(all_packets // 10, min(LEAST_TAIL_PACKETS, all_packets))
    last_tenth = next((s for s in reversed(samples) if sum(s.packets) <= all_packets - tail), None)
    at_cut = (
        None if cut_at_ns is None else max((s for s in samples if s.monotonic_ns <= cut_at_ns), key=_time, default=None)
    )
    too_short = plan.cuts and cut_at_ns is None
    paths, failovers = [], []
    started = min((path.first_use_ns for path in report.paths if path.first_use_ns is not None), default=0)
    ended = max((path.last_use_ns for path in report.paths if path.last_use_ns is not None), default=0)
    used_since = 0
    if last_tenth is not None:
        least_ns = LEAST_TAIL_NS + waits.between(ended - LEAST_TAIL_NS, ended)
        used_since = min(last_tenth.monotonic_ns, ended - least_ns)
    for number, path in enumerate(report.paths):
        dead = cut_at_ns is not None and f"p{path.plane}l0-p{path.plane}s{path.spine}" == plan.cut_link
        before = at_cut.packets[number] if at_cut is not None else path.packets
        tenth = path.packets - last_tenth.packets[number] if last_tenth is not None else 0
        address = address_text(template.address(path.plane, path.spine))
        paths.append(DemoPath(path, address, dead, before, path.packets - before, tenth))
        name = f"plane {path.plane} spine {path.spine}"
        if cut_at_ns is not None and (path.first_use_ns is None or path.first_use_ns >= cut_at_ns):
            faults.append(f"{name} was not used before the cut")
        if dead and cut is not None:
            last_use_ns = path.last_use_ns or cut.began_ns
            since_cut = (cut.began_ns - started) / 1e9, (last_use_ns - cut.began_ns) / 1e9
            failovers.append(Failover(plan.cut_link, *since_cut))
            late_ns, waited_ns = last_use_ns - cut.done_ns, waits.between(cut.done_ns, last_use_ns)
            if late_ns - waited_ns > DEAD_PATH_LIMIT_S * 1e9:
                waited = f"; the two ends waited {waited_ns / 1e6:.0f} ms for a processor" if waited_ns >= 1e6 else ""
                faults.append(f"{name} got data {late_ns / 1e6:.0f} ms after it was cut{waited}")
        elif plan.size and not too_short and (path.last_use_ns or 0) < used_since:
            faults.append(f"{name} was not in use at the end")
    if too_short:
        faults.append("the transfer was over before the cut: send more with --size")
    return DemoResult(report, paths, failovers, faults)


def _time(sample: _Sample) -> int:
    return sample.monotonic_ns


# ---------------------------------------------------------------------- processes and files


@contextmanager
def _recording(lab: Lab, pcap: Path | None, say: Callable[[str], None]) -> Iterator[None]:
    """Record the sender's ports into `pcap` while the block runs."""
    if pcap is None:
        yield
        return
    interfaces = [f"p{plane}" for plane in range(lab.topology.planes)]
    file = WholeFile(pcap)
    try:
        command = python("mrc.capture.record", str(file.part.absolute()), *interfaces)
        with start_on(lab, "h0", "the recorder", command) as recorder:
            try:
                recorder.started("ready")
            except PeerError:
                raise SystemRefused(f"{pcap}: cannot be recorded: {recorder.why()}") from None
            yield
            recorder.process.send_signal(signal.SIGTERM)
            out = recorder.rest(_STALL_TIMEOUT_S, None)
            if recorder.status() != 0:
                raise SystemRefused(f"{pcap}: cannot be recorded: {recorder.why()}; the partial file was removed")
        file.commit()
        written, dropped = out.split()
        say(f"{pcap}: {written} packets" + (f", {dropped} more were dropped by the kernel" if dropped != "0" else ""))
    finally:
        file.discard()


def _check_writable(path: Path) -> None:
    """Before anything is built. Raises SystemRefused for a file that cannot be written, and leaves none behind."""
    existed = path.exists()
    if existed and not path.is_file():
        return  # a pipe's reader would take the look for the end
    try:
        path.open("ab").close()
        if not existed:
            path.unlink()
    except OSError as error:
        raise SystemRefused(f"{path}: cannot be written: {error.strerror}") from None


def _keep_events(lab: Lab, path: Path | None) -> None:
    """The lab's event log goes with the lab."""
    if path is None:
        return
    write_whole(path, b"".join(event.to_line() for event in lab.events.read()[0]))


def _new_lines(path: Path, at: int) -> tuple[list[dict[str, Any]], int]:
    """Whole JSON lines written since offset `at`, and the new offset."""
    try:
        with open(path, "rb") as file:
            file.seek(at)
            data = file.read()
    except FileNotFoundError:
        return [], at
    whole = data.rfind(b"\n") + 1
    return [own_json(line) for line in data[:whole].splitlines()], at + whole


def _check_room(directory: Path, size: int) -> None:
    """Raise SystemRefused where a file of `size` bytes and its copy have no room."""
    free = shutil.disk_usage(directory).free
    if 2 * size > free:
        raise SystemRefused(
            errno.ENOSPC,
            f"{directory} has {size_text(free)} free, the file and its copy take {size_text(2 * size)}: "
            "send less with --size, or set TMPDIR to another directory",
        )


def _write_random(path: Path, size: int) -> None:
    """A cipher's stream: the kernel's takes as long as it takes to send it."""
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.algorithms import AES
    from cryptography.hazmat.primitives.ciphers.modes import CTR

    stream, zeros = Cipher(AES(os.urandom(16)), CTR(bytes(16))).encryptor(), bytes(_CHUNK)
    with open(path, "wb") as file:
        for start in range(0, size, _CHUNK):
            file.write(stream.update(zeros[: size - start]))
