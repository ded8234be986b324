# SPDX-License-Identifier: BSD-2-Clause
"""`mrc recv`: receive files."""

from __future__ import annotations

import sys
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mrc.cli.commands import check_stderr
from mrc.cli.common import (
    DURATION,
    fabric_option,
    interrupted,
    json_option,
    note,
    print_json,
    wire_profile_option,
)
from mrc.cli.endpoint_options import (
    begin,
    fabric_for,
    mode_options,
    profiles_option,
    trace_option,
    tracing,
)
from mrc.cli.starting import importing

# Kept for --json of what a receiver does for as long as it runs.
_MOST_FILES, _MOST_PATHS, _MOST_ERRORS = 10_000, 4096, 1000

if TYPE_CHECKING:
    from mrc.net.transfer.receiver import SessionOutcome


@click.command()
@click.argument("output", metavar="[-]", type=click.Choice(["-"]), required=False)
@click.option(
    "--dir",
    "directory",
    type=click.Path(exists=True, file_okay=False),
    help="Directory to write files to. [default: .]",
)
@click.option("--once", is_flag=True, help="End after the first sender's session.")
@click.option(
    "--idle-timeout",
    type=DURATION,
    default="30s",
    show_default=True,
    help="Give up on a sender that makes no progress for this long.",
)
@click.option("--overwrite", is_flag=True, help="Replace files that exist. Without it they are refused.")
@click.option(
    "--partial/--no-partial",
    default=True,
    show_default=True,
    help="Keep what arrived of a transfer that breaks, for the next attempt.",
)
@trace_option
@profiles_option
@fabric_option
@mode_options
@wire_profile_option
@json_option
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but the ticket and errors.")
@click.option("-v", "--verbose", is_flag=True, help="Each file with its sum, and the counters of each session.")
def recv(
    output: str | None,
    directory: str | None,
    once: bool,
    idle_timeout: float,
    overwrite: bool,
    partial: bool,
    trace: Path | None,
    profiles: Path | None,
    fabric_file: str | None,
    mode: str | None,
    binds: tuple[str, ...],
    wire_options: tuple[str, ...],
    as_json: bool,
    quiet: bool,
    verbose: bool,
) -> None:
    """Receive files. Prints its ticket as one line on stdout and waits; any number of senders may use it.

    A file appears under its name in DIR only when it is complete and both ends' sums agree, a directory when all in it
    is. What arrived of a transfer that breaks, 16 MiB or more of a file, stays as .NAME.mrc-part: the same `mrc send`
    goes on with it. With `-` one file is written to stdout as it comes, the ticket is on stderr, and the exit status
    says whether the sums agreed. With --json the ticket line is followed by one JSON document when the receiver ends.
    Ctrl-C ends it with exit status 130, SIGTERM with 143, a closed terminal with 129, the end of its lab with 1. Needs
    root or CAP_NET_RAW. Without a fabric it runs in udp mode on ordinary addresses.

    \b
    Examples:
      mrc lab exec h1 -- mrc recv --dir /tmp
      mrc lab exec h1 -- mrc recv --once --json
      mrc lab exec h1 -- mrc recv - | tar x
      mrc lab exec h1 -- mrc recv --once --trace receiver.trace
      mrc recv --fabric fabric.json --idle-timeout 5s --overwrite
      sudo mrc recv --dir /tmp --no-partial
      sudo mrc recv --mode udp --bind 10.0.0.2 --bind 10.1.0.2
    """
    with importing():
        from mrc.cli.transfer_output import print_report
        from mrc.net.departure import Departure
        from mrc.net.node import Node
        from mrc.net.transfer.directory import Directory
        from mrc.net.transfer.receiver import Receiver, outcome_error
        from mrc.net.transfer.streams import OutputStream
        from mrc.wire.profile import WireProfile

    total = AllSessions()

    def tell(outcome: SessionOutcome) -> None:
        error = outcome_error(outcome)
        total.add(outcome, error is not None, detailed=as_json)
        if error is not None:
            note(f"Error: sender at {outcome.peer_address}: {error}")
        elif not as_json and not quiet:
            print_report(outcome.report, err=True, verbose=verbose)
        if verbose:
            note(f"counters: {outcome.report.counters}")

    if output and (as_json or overwrite or directory):
        raise click.UsageError("with - what arrives goes to stdout: leave out --dir, --overwrite and --json")
    if quiet and verbose:
        raise click.UsageError("--quiet prints nothing: leave out -v")
    if not idle_timeout:
        raise click.UsageError("--idle-timeout must be above 0")
    fabric = fabric_for(fabric_file, mode, binds)
    wire = WireProfile.from_option(wire_options, fabric.mode)
    target: Directory | OutputStream
    if output:
        target = OutputStream(sys.stdout.fileno())
    else:
        target = Directory(directory or ".", overwrite=overwrite, keep_parts=partial)
    stopped = False
    with (
        tracing(trace, "mrc recv", "receiver") as tracer,
        Node(fabric, wire=wire, tracer=tracer, program="mrc recv") as node,
    ):
        begin(node, profiles, quiet=quiet, verbose=verbose)
        there = Departure(None if binds else fabric_file, [port.interface for port in fabric.ports])
        receiver = Receiver(
            node, target, once=once or bool(output), idle_timeout_s=idle_timeout, on_outcome=tell, check=there.check
        )
        with receiver:
            try:
                click.echo(receiver.start().text, err=bool(output))
                if output:
                    check_stderr()  # No sender can come without the ticket.
                receiver.run()
            except KeyboardInterrupt:
                stopped = True
    if as_json:
        print_json(total.document())
    if stopped:
        # A session that failed has had its line.
        raise interrupted("" if total.failed else "interrupted")
    if total.failed:
        raise click.exceptions.Exit(1)


class AllSessions:
    """What a receiver says of all its sessions when it ends: sums of all, and of the last of them each file and error.

    A receiver may run for years: what it remembers is bounded.
    """

    def __init__(self) -> None:
        from mrc.net.transfer.report import TransferReport

        self.failed = False
        self._sessions = self._files = 0
        self._sound = True
        self._total = TransferReport()
        self._errors: deque[str] = deque(maxlen=_MOST_ERRORS)

    def add(self, outcome: SessionOutcome, failed: bool, detailed: bool) -> None:
        """A session has ended. `detailed`: its figures will be asked for."""
        self.failed |= failed
        if not detailed:
            return
        self._sessions += 1
        self._files += len(outcome.report.files)
        self._sound &= outcome.failure is None and outcome.report.sums_agree
        if outcome.failure is not None:
            self._errors.append(outcome.failure)
        self._total.add(outcome.report)
        del self._total.files[:-_MOST_FILES], self._total.paths[:-_MOST_PATHS]

    def document(self) -> dict[str, object]:
        """All sessions as one report, the keys of `--json` for the whole."""
        document: dict[str, object] = self._total.to_json()
        document["sums_agree"] = self._sessions > 0 and self._sound
        document["sessions"] = self._sessions
        document["errors"] = list(self._errors)
        if self._files > len(self._total.files):
            document["files_left_out"] = self._files - len(self._total.files)
        return document
