# SPDX-License-Identifier: BSD-2-Clause
"""`mrc conformance serve`: this project's endpoint as a live target."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from mrc.cli.common import fabric_option, interrupt_on_signals, interrupted, note, usage_errors, wire_profile_option
from mrc.cli.endpoint_options import fabric_for, mode_options
from mrc.cli.live_line import LiveLine

if TYPE_CHECKING:
    from mrc.fabric.host_view import Fabric


@click.command()
@click.option(
    "--mutant",
    "mutant_name",
    metavar="NAME",
    help="Serve an endpoint that is wrong on purpose instead, interpreted. They are in tests/mutants of a checkout; an "
    "installed package has none. docs/conformance.md lists them.",
)
@click.option(
    "--qp-file",
    type=click.Path(dir_okay=False, exists=True, path_type=Path),
    metavar="FILE.yaml",
    help="Instead of a ticket: set up the QPs that FILE asks for (mrc conformance parameters) and write into it what "
    "they are, as the operator of a NIC would.",
)
@fabric_option
@mode_options
@wire_profile_option
def serve(
    mutant_name: str | None,
    qp_file: Path | None,
    fabric_file: str | None,
    mode: str | None,
    binds: tuple[str, ...],
    wire_options: tuple[str, ...],
) -> None:
    """Serve as a live target. Prints its ticket as one line on stdout and waits for testers, one at a time.

    It runs the endpoint, the sockets and the loop of `mrc recv`. Over the connection of the ticket a tester can ask it
    to post a write, show memory or take a port down. Needs root or CAP_NET_RAW.

    \b
    Examples:
      mrc lab exec h1 -- mrc conformance serve
      mrc lab exec h0 -- mrc conformance run --target mrc1:AbC...
      sudo mrc conformance serve --bind 10.0.0.2 --bind 10.1.0.2
      mrc lab exec h1 -- mrc conformance serve --mutant sack_echoes_another_ev
      mrc lab exec h1 -- mrc conformance serve --qp-file qps.yaml
    """
    if mutant_name is not None:
        _become(mutant_name)
    from mrc.conformance.live.server import TargetServer

    fabric = fabric_for(fabric_file, mode, binds)
    if qp_file is not None:
        _serve_by_hand(qp_file, fabric, wire_options)
        return
    if wire_options:
        raise click.UsageError("--wire-profile goes with --qp-file: with a ticket it is the tester that says it")

    with LiveLine() as line, TargetServer(fabric, on_case=lambda count: line.show(f"{count} cases")) as server:
        interrupt_on_signals(server.interrupt)
        try:
            click.echo(server.start().text)
            server.run()
        except KeyboardInterrupt:
            raise interrupted("interrupted") from None


def _serve_by_hand(path: Path, fabric: Fabric, wire_options: tuple[str, ...]) -> None:
    from mrc.conformance.live.hand_server import serve_qps
    from mrc.conformance.live.qp_file import read_qp_file, write_qp_file
    from mrc.wire.profile import WireProfile

    wire = WireProfile.from_option(wire_options, fabric.mode)
    session, filled_in = serve_qps(read_qp_file(path, filled_in=False), fabric, wire)
    interrupt_on_signals(session.node.driver.interrupt)
    try:
        write_qp_file(filled_in, path)
        note(f"{len(filled_in.qps)} QPs are up, {path} says which: mrc conformance run --target {path}")
        session.run()
    except KeyboardInterrupt:
        raise interrupted("interrupted") from None
    finally:
        session.node.driver.close()


def _become(mutant: str) -> None:
    """Make the endpoints of this process those of a mutant. Raises a usage error for one that cannot be served."""
    from mrc.conformance.wrong_endpoints import run_with_mutants, served_endpoint

    run_with_mutants()
    with usage_errors("--mutant: "):
        served_endpoint(mutant).take_over()
