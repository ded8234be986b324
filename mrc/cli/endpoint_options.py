# SPDX-License-Identifier: BSD-2-Clause
"""Options of commands that run an endpoint: on a fabric or between ordinary hosts, and with a trace."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mrc.cli.common import LINE_RATE, interrupt_on_signals, note

if TYPE_CHECKING:
    from mrc.fabric.host_view import Fabric
    from mrc.net.node import Node
    from mrc.trace.writer import TraceWriter

F = TypeVar("F", bound=Callable[..., Any])


def mode_options(function: F) -> F:
    """--mode and --bind, passed on as `mode` and `binds`."""
    function = click.option(
        "--bind",
        "binds",
        multiple=True,
        metavar="ADDR",
        help="An address of this host, IPv4 or IPv6, for udp and stev modes. Each address is a plane: repeat the "
        "option, in the same order at both ends. [default: the address of the route to the other end]",
    )(function)
    return click.option(
        "--mode",
        type=click.Choice(["srv6", "srv6-srh", "stev", "udp"]),
        help="How the network chooses a packet's path: srv6 by uSIDs, srv6-srh by uSIDs with the second half of "
        "them in a segment routing header, stev by fields of the EV, udp by a hash over the UDP source port (ECMP). "
        "Both ends must agree. [default: the mode of the fabric, udp without a fabric]",
    )(function)


def trace_option(function: F) -> F:
    """--trace, passed on as `trace`."""
    return click.option(
        "--trace",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Write what the endpoint does into this file: losses, path states, probes, congestion (docs/trace.md).",
    )(function)


def profiles_option(function: F) -> F:
    """--profiles, passed on as `profiles`."""
    return click.option(
        "--profiles",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Load the EV and congestion control profiles of this YAML file first. Those numbered 0 are used "
        "(docs/control.md).",
    )(function)


def line_rate_option(function: F) -> F:
    """--line-rate, passed on as `line_rate`: bits a second, or None."""
    return click.option(
        "--line-rate",
        type=LINE_RATE,
        metavar="RATE",
        help="What the network carries to the other end over all planes, such as 1gbit. Congestion control begins with "
        "it, measures what arrives, and never takes the network for more: too high a rate fills queues at first, too "
        "low a rate starves the transfer. [default: 10gbit]",
    )(function)


def begin(
    node: Node, profiles: Path | None, line_rate_bps: int | None = None, *, quiet: bool = False, verbose: bool = False
) -> None:
    """Do what --profiles says, then --line-rate. Have signals end the loop of the node, and say what there is to say of
    it: what is wrong unless `quiet`, what it is if `verbose`. Raises CallerError."""
    if profiles is not None:
        from mrc.net.profile_file import load_profiles

        load_profiles(node, profiles)
    if line_rate_bps is not None:
        from mrc.net.profile_file import tell_line_rate

        tell_line_rate(node, line_rate_bps)
    interrupt_on_signals(node.driver.interrupt)
    for interface in () if quiet else node.small_buffers:
        note(f"the receive buffer of {interface} is small (no privilege to raise it): expect losses")
    if verbose:
        note(node.summary)


@contextmanager
def tracing(path: Path | None, title: str, vantage_point: str) -> Iterator[TraceWriter | None]:
    """A trace file for the endpoint made in the block, or None. What is wrong with it is said, and fails nothing.

    Raises SystemRefused when the file cannot be made.
    """
    if path is None:
        yield None
        return
    from mrc.trace.writer import TraceWriter

    writer = TraceWriter.open(path, title=title, vantage_point=vantage_point)
    try:
        yield writer
    finally:
        writer.close()
        if writer.failure is not None:
            note(f"{path}: {writer.failure.strerror}: the trace ends early")
        elif writer.dropped:
            note(f"{path}: {writer.dropped} events are missing: the disk was too slow")


def mode_of(fabric_file: str | None, mode: str | None, binds: Sequence[str]) -> str | None:
    """The mode that `fabric_for` would run in, as far as the options say it; None: they say nothing."""
    from mrc.fabric.host_view import Fabric

    if mode is not None or not fabric_file:
        return mode or ("udp" if binds else None)
    return "udp" if binds else Fabric.load(fabric_file).mode


def fabric_for(
    fabric_file: str | None, mode: str | None, binds: Sequence[str], peer: Sequence[str] | None = None
) -> Fabric:
    """The fabric to run on: that of the file, or this host on its ordinary addresses.

    `peer`: the addresses of the other end where they are known. Raises CallerError when there is none, SystemRefused
    when an address is not this host's, UsageError for options that contradict each other.
    """
    from mrc.errors import CallerError
    from mrc.fabric.host_view import USID_MODES, Fabric

    if binds and mode in USID_MODES:
        raise click.UsageError(f"--bind goes with --mode udp or stev; in {mode} mode the fabric file names the ports")
    if fabric_file and not binds:
        fabric = Fabric.load(fabric_file)
        return replace(fabric, mode=mode) if mode else fabric
    if mode in USID_MODES:
        raise CallerError(
            f"no fabric: {mode} mode runs inside a lab (`mrc lab up`, then `mrc lab exec h0 -- mrc ...`) or on the "
            "fabric that --fabric FILE describes"
        )
    from mrc.net.hosts import addresses_towards, default_addresses, host_fabric

    addresses = binds or (addresses_towards(peer) if peer is not None else default_addresses())
    return host_fabric(addresses, mode or "udp")
