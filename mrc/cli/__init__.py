# SPDX-License-Identifier: BSD-2-Clause
"""The `mrc` command. Each subcommand is a module of this package, loaded when it is called."""

from __future__ import annotations

import importlib
import os
import threading
from typing import Any

import click

from mrc import CORE, __version__
from mrc.cli.commands import (
    COMPLETE_VARIABLE,
    ErrorGroup,
    buffer_output,
    discard_output,
    flush_output,
    open_what_is_closed,
)
from mrc.cli.common import ignore_signals, interrupt_on_signals
from mrc.threads import a_thread_failed, end_with_any_thread

# name -> (module, attribute, one line for the overview): help is printed without loading anything.
_COMMANDS: dict[str, tuple[str, str, str]] = {
    "demo": ("mrc.cli.demo", "demo", "Send a file over every path of a private fabric while a cable is cut."),
    "lab": ("mrc.cli.lab", "lab", "Build, break and mend a fabric of network namespaces."),
    "recv": ("mrc.cli.recv", "recv", "Receive files from senders that have its ticket."),
    "send": ("mrc.cli.send", "send", "Send files to the receiver that printed a ticket."),
    "bench": ("mrc.cli.bench", "bench", "Measure goodput, message rate and latency, beside other transports."),
    "drill": ("mrc.cli.drill", "drill", "Run the experiments of the MRC papers: break a fabric under load, and judge."),
    "sim": ("mrc.cli.sim", "sim", "Plan large fabrics and simulate them, one by one or in a sweep."),
    "map": ("mrc.cli.map", "map_group", "Find the faulty link, switch or host port of a fabric."),
    "top": ("mrc.cli.top", "top", "Show running endpoints live, and deny or allow an EV."),
    "ctl": ("mrc.cli.ctl", "ctl", "See and steer running endpoints: profiles, EVs, probes, events, ports."),
    "capi": ("mrc.cli.capi", "capi", "Build and run C programs over this endpoint, through libibverbs."),
    "dissect": ("mrc.cli.dissect", "dissect", "Show the packets of a capture."),
    "analyze": ("mrc.cli.analyze", "analyze", "Say what happened to the connections in a capture."),
    "trace": ("mrc.cli.trace", "trace", "Export traces to Perfetto's viewer or to qlog."),
    "craft": ("mrc.cli.craft", "craft", "Build packets from field=value pairs."),
    "wireshark": ("mrc.cli.wireshark", "wireshark", "Install a dissector of MRC for Wireshark and tshark."),
    "conformance": (
        "mrc.cli.conformance",
        "conformance",
        "Test an MRC endpoint against the requirements, case by case.",
    ),
    "completion": ("mrc.cli.completion", "completion", "Print what completes these commands in bash, zsh or fish."),
    "doctor": ("mrc.cli.doctor", "doctor", "Check what works on this system and what to do about the rest."),
}


class _Commands(ErrorGroup):
    """Loads subcommands on demand."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, attribute, _ = _COMMANDS[cmd_name]
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, _, summary) in _COMMANDS.items()])

    def main(self, *args: Any, **kwargs: Any) -> Any:
        if threading.current_thread() is threading.main_thread():
            interrupt_on_signals()
            end_with_any_thread()
        open_what_is_closed()
        if COMPLETE_VARIABLE in os.environ:
            from mrc.cli.completion import complete_quietly

            complete_quietly()
        buffer_output()
        try:
            return super().main(*args, **kwargs)
        except SystemExit:
            if a_thread_failed():
                raise SystemExit(1) from None
            raise
        finally:
            # What comes now, while the interpreter ends, must not change how the command ended.
            ignore_signals()
            try:
                flush_output()
            except OSError:
                discard_output()


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="mrc", message=f"%(prog)s, version %(version)s, core: {CORE}")
def main() -> None:
    """MRC, Multipath Reliable Connection: a user-space endpoint, its lab and its tools.

    \b
    A first look, no second machine needed:
      mrc demo
    \b
    By hand:
      mrc lab up
      mrc lab exec h1 -- mrc recv --dir /tmp
      mrc lab exec h0 -- mrc send FILE TICKET

    Exit status: 0 done, 1 failed, 2 wrong usage, 130 ended by Ctrl-C, 143 by SIGTERM, 129 by a closed terminal.

    Pages that help names, such as docs/lab.md, lie in the source distribution of a release and in a checkout.
    """
