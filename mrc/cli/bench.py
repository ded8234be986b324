# SPDX-License-Identifier: BSD-2-Clause
"""`mrc bench`: how fast it is, between two hosts or in a lab of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mrc.cli.bench_collectives import collective_commands
from mrc.cli.bench_lab import lab
from mrc.cli.commands import ErrorGroup
from mrc.cli.common import (
    DURATION,
    PATH_MTUS,
    Size,
    fabric_option,
    interrupted,
    json_option,
    note,
    options_of,
    print_json,
    wire_profile_option,
)
from mrc.cli.endpoint_options import (
    begin,
    fabric_for,
    line_rate_option,
    mode_options,
    profiles_option,
)
from mrc.cli.tickets import ticket_argument
from mrc.errors import MrcError

if TYPE_CHECKING:
    from mrc.bench.figures import LatencyResult, WriteResult
    from mrc.bench.server import ServedSession
    from mrc.net.ticket import Ticket

F = TypeVar("F", bound=Callable[..., Any])

_LARGEST_SWEPT = 8 << 20
_SECONDS = 3.0
_MOST = 1 << 30


@click.group(cls=ErrorGroup)
def bench() -> None:
    """Measure: goodput, message rate, latency and collective operations, between hosts or in a lab beside others.

    \b
    Examples:
      mrc bench lab --baseline udp
      mrc bench allreduce --baseline gloo
      mrc lab exec h1 -- mrc bench serve
      mrc lab exec h0 -- mrc bench write TICKET
      mrc lab exec h0 -- mrc bench latency TICKET
    """


bench.add_command(lab)
for _each in collective_commands:
    bench.add_command(_each)


@bench.command()
@profiles_option
@fabric_option
@mode_options
@wire_profile_option
@json_option
@click.option("-v", "--verbose", is_flag=True, help="Also the fabric, and what each client measured, on stderr.")
def serve(
    profiles: Path | None,
    fabric_file: str | None,
    mode: str | None,
    binds: tuple[str, ...],
    wire_options: tuple[str, ...],
    as_json: bool,
    verbose: bool,
) -> None:
    """Serve as the target of writes. Prints its ticket as one line on stdout and runs until it is interrupted.

    It serves any number of clients, one after another. The client sets all options of a measurement. With --json the
    ticket line is followed by one JSON document when it ends. Needs root or CAP_NET_RAW. Without a fabric it runs in
    udp mode.

    \b
    Examples:
      mrc lab exec h1 -- mrc bench serve
      mrc lab exec h1 -- mrc bench serve --json -v
      sudo mrc bench serve --bind 10.0.0.2
    """
    from mrc.bench.server import BenchServer
    from mrc.net.departure import Departure
    from mrc.net.node import Node
    from mrc.wire.profile import WireProfile

    def tell(session: ServedSession) -> None:
        if session.failure is not None:
            note(f"Error: client at {session.peer_address}: {session.failure}")
        if verbose:
            for each in session.measurements:
                note(f"client at {session.peer_address}: {each}")

    fabric = fabric_for(fabric_file, mode, binds)
    wire = WireProfile.from_option(wire_options, fabric.mode)
    with Node(fabric, wire=wire, program="mrc bench serve") as node:
        node.prepare_control()
        begin(node, profiles, verbose=verbose)
        with BenchServer(node, tell) as server, suppress(KeyboardInterrupt):
            click.echo(server.start().text)
            there = Departure(None if binds else fabric_file, [port.interface for port in fabric.ports])

            def over() -> bool:
                there.check()
                return False

            server.run(over)
    if as_json:
        print_json(_sessions(server.served))
    raise interrupted()


def _sessions(served: Sequence[ServedSession]) -> dict[str, object]:
    return {
        "sessions": [
            {"peer_address": each.peer_address, "measurements": each.measurements, "error": each.failure}
            for each in served
        ]
    }


def _client_options(test: str) -> Callable[[F], F]:
    """Options of the commands that measure, the first in --help last here."""
    least, default = (2, "2") if test == "latency" else (1, "1MiB")
    options: list[Callable[[F], F]] = [
        click.option("-v", "--verbose", is_flag=True, help="Also print each QP's share, and counters."),
        json_option,
        wire_profile_option,
        mode_options,
        fabric_option,
        profiles_option,
        click.option(
            "--paths", type=click.IntRange(1), metavar="N", help="Only the first N paths. [default: all there are]"
        ),
        click.option(
            "--mtu",
            type=PATH_MTUS,
            help="Path MTU: payload bytes of a full packet. [default: 4096, or the largest there is room for]",
        ),
        click.option(
            "--idle-qps", type=click.IntRange(0, 16384), default=0, show_default=True,
            help="Further queue pairs, connected but idle.",
        ),
        click.option("--seconds", type=DURATION, help="How long to measure each size. [default: 3s]"),
        click.option(
            "--sweep", is_flag=True,
            help="Every power of two from 2 bytes to " + ("the path MTU." if test == "latency" else "8 MiB."),
        ),
        click.option(
            "--size", type=Size(least, _MOST), default=default, show_default=True, help="Bytes per RDMA write."
        ),
    ]  # fmt: skip
    if test == "write":
        options[-3:-3] = [
            click.option("--bidir", is_flag=True, help="Write in both directions at once."),
            click.option("-R", "--reverse", is_flag=True, help="The server writes, this end takes it."),
        ]
    if test != "latency":
        options[-3:-3] = [
            click.option(
                "-i", "--interval", type=DURATION, metavar="TIME",
                help="Also print a line each so often, as iperf3 does: 1s.",
            ),
            click.option(
                "--packets", type=click.IntRange(1), metavar="N",
                help="End after so many packets, to the next whole write, not after a time.",
            ),
            click.option(
                "--bytes", "most_bytes", type=Size(1), metavar="SIZE",
                help="End after so many bytes, to the next whole write, not after a time: 10GiB.",
            ),
        ]  # fmt: skip
        options[-4:-4] = [
            line_rate_option,
            click.option(
                "--cq-mod", type=click.IntRange(1, 4096), metavar="N",
                help="A completion for each N writes of a QP. [default: an eighth of the depth]",
            ),
            click.option(
                "--depth", type=click.IntRange(1, 4096), metavar="N",
                help="Writes outstanding on each QP. [default: 8 MiB of them, 4 to 128]",
            ),
            click.option(
                "--qps", type=click.IntRange(1, 256), default=1, show_default=True,
                help="Queue pairs that write, 1 to 256.",
            ),
        ]  # fmt: skip
    return options_of(options)


@bench.command()
@ticket_argument("mrc bench serve")
@_client_options("write")
def write(**options: Any) -> None:
    """Measure bandwidth and message rate of RDMA writes, with the table of perftest's ib_write_bw.

    Each QP keeps --depth writes outstanding and repeats the same SIZE bytes. At the end the server's memory is compared
    with them. BW average is payload over the time from the first post to the last completion; BW peak is the best 50 ms
    of it. With --reverse the server writes to this end, with --bidir both write at once, each a row of its own.

    \b
    Examples:
      mrc lab exec h0 -- mrc bench write mrc1:AbC...
      mrc lab exec h0 -- mrc bench write mrc1:AbC... --size 64 --seconds 5s
      mrc lab exec h0 -- mrc bench write mrc1:AbC... --sweep --seconds 1s
      mrc lab exec h0 -- mrc bench write mrc1:AbC... --seconds 10s --interval 1s
      mrc lab exec h0 -- mrc bench write mrc1:AbC... --bytes 10GiB --reverse
      mrc lab exec h0 -- mrc bench write mrc1:AbC... --bidir
      mrc lab exec h0 -- mrc bench write mrc1:AbC... --qps 8 --idle-qps 1000 -v --json
    """
    _measure("write", **options)


@bench.command("write-imm")
@ticket_argument("mrc bench serve")
@_client_options("write-imm")
def write_imm(**options: Any) -> None:
    """Measure writes with immediate: the server takes a completion for each and posts its receive again.

    \b
    Examples:
      mrc lab exec h0 -- mrc bench write-imm mrc1:AbC...
      mrc lab exec h0 -- mrc bench write-imm mrc1:AbC... --size 64 --json
    """
    _measure("write-imm", **options)


@bench.command()
@ticket_argument("mrc bench serve")
@_client_options("latency")
def latency(**options: Any) -> None:
    """Measure latency by a ping-pong of small writes, with the table of perftest's ib_write_lat.

    Both ends watch their memory and answer each write with one of their own. The table shows half of the round trip, as
    perftest does; t_typical is the median. A write is one packet: 2 bytes to the path MTU.

    \b
    Examples:
      mrc lab exec h0 -- mrc bench latency mrc1:AbC...
      mrc lab exec h0 -- mrc bench latency mrc1:AbC... --sweep --seconds 1s
      mrc lab exec h0 -- mrc bench latency mrc1:AbC... --size 64 --json
    """
    _measure("latency", **options)


def _measure(
    test: str,
    ticket: Ticket,
    size: int,
    sweep: bool,
    seconds: float | None,
    idle_qps: int,
    mtu: str | None,
    paths: int | None,
    profiles: Path | None,
    fabric_file: str | None,
    mode: str | None,
    binds: tuple[str, ...],
    wire_options: tuple[str, ...],
    as_json: bool,
    verbose: bool,
    qps: int = 1,
    depth: int | None = None,
    cq_mod: int | None = None,
    line_rate: int | None = None,
    most_bytes: int | None = None,
    packets: int | None = None,
    interval: float | None = None,
    reverse: bool = False,
    bidir: bool = False,
) -> None:
    from mrc.bench.client import BenchClient, BenchOptions
    from mrc.bench.figures import latency_heading, latency_row, write_heading, write_row
    from mrc.bench.intervals import interval_text
    from mrc.bench.paths import first_paths
    from mrc.net.node import Node
    from mrc.wire.profile import WireProfile

    if 0 in (seconds, interval):
        raise click.UsageError("--seconds and --interval must be above 0")
    if len([each for each in (seconds, most_bytes, packets) if each is not None]) > 1:
        raise click.UsageError("a measurement ends once: give one of --seconds, --bytes and --packets")
    if reverse and bidir:
        raise click.UsageError("--bidir writes in both directions: leave out --reverse")
    given = click.get_current_context().get_parameter_source("size")
    if sweep and given is not click.core.ParameterSource.DEFAULT:
        raise click.UsageError("--sweep measures sizes of its own: leave out --size")
    if most_bytes is None and packets is None:
        seconds = seconds or _SECONDS
    fabric = fabric_for(fabric_file, mode, binds, ticket.addresses)
    evs = None if paths is None else first_paths(fabric, paths)
    heading, row = (latency_heading, latency_row) if test == "latency" else (write_heading, write_row)

    results: list[WriteResult | LatencyResult] = []

    def show(result: WriteResult | LatencyResult) -> None:
        results.append(result)
        if as_json:
            return
        if interval is not None and len(results) == 1:
            click.echo(heading())
        click.echo(row(result))  # type: ignore[arg-type]
        if verbose:
            _print_details(result)

    wire = WireProfile.from_option(wire_options, fabric.mode)
    program = f"mrc bench {test}"
    with Node(fabric, wire=wire, path_mtu=int(mtu) if mtu else None, ev_profile=evs, program=program) as node:
        begin(node, profiles, line_rate, verbose=verbose)
        largest = node.path_mtu if test == "latency" else _LARGEST_SWEPT
        sizes = tuple(1 << power for power in range(1, largest.bit_length())) if sweep else (size,)
        options = BenchOptions(
            *(test, sizes, seconds, qps, idle_qps, depth, cq_mod, most_bytes, packets),
            direction="both" if bidir else "reverse" if reverse else "forward",
            interval_s=interval,
        )
        cut_short = False
        failure: MrcError | None = None
        try:
            on_interval = (lambda each: None) if as_json else (lambda each: click.echo(interval_text(each)))
            with BenchClient(node, ticket, options, on_interval=on_interval) as client:
                # Behind the lines of intervals the heading comes with the row.
                if not as_json and interval is None:
                    click.echo(heading())
                client.measure(show)
        except KeyboardInterrupt:
            cut_short = True
            note("interrupted" + (": the last figures are those until then" if _cut_short(results) else ""))
        except MrcError as error:
            # What was measured until then is printed all the same.
            cut_short, failure = True, error
    if as_json and results:
        documents = [result.to_json() for result in results]
        if bidir and not sweep:
            print_json({"directions": documents, "interrupted": cut_short})
        else:
            print_json({"sizes": documents, "interrupted": cut_short} if sweep else documents[0])
    if failure is not None:
        raise failure
    if cut_short:
        raise interrupted()


def _cut_short(results: Sequence[WriteResult | LatencyResult]) -> bool:
    return bool(results) and results[-1].interrupted


def _seconds_text(seconds: float | None) -> str:
    return "an unknown number" if seconds is None else f"{seconds:.2f}"


def _print_details(result: WriteResult | LatencyResult) -> None:
    from mrc.bench.figures import WriteResult

    if isinstance(result, WriteResult):
        note(
            f"{result.kpps:.1f} thousand packets a second, {result.retransmitted_packets} retransmitted, CPU seconds "
            f"{result.sender_cpu_seconds:.2f} here and {_seconds_text(result.receiver_cpu_seconds)} at the server"
        )
        if len(result.per_qp_gbps) > 1:
            shares = " ".join(f"{share:.3f}" for share in result.per_qp_gbps)
            note(f"Gbit/s per QP: {shares}; the smallest is {result.per_qp_spread:.1%} below the largest")
    note(f"counters: {result.counters}")
