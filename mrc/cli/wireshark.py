# SPDX-License-Identifier: BSD-2-Clause
"""`mrc wireshark`: the Lua dissector, printed or put where Wireshark looks for it."""

from __future__ import annotations

import os
from pathlib import Path

import click

from mrc.cli.common import json_option, note, print_json, wire_profile_option
from mrc.wire.profile import WireProfile


@click.group()
def wireshark() -> None:
    """Install or print a dissector of MRC for Wireshark and tshark.

    \b
    Examples:
      mrc wireshark install
      tshark -r capture.pcap -Y 'mrc.seth.m == 1' -T fields -e mrc.bth.psn -e mrc.ev
    """


@wireshark.command("print")
@json_option
@wire_profile_option
def print_script(as_json: bool, wire_options: tuple[str, ...]) -> None:
    """Print the Lua script.

    \b
    Examples:
      mrc wireshark print > mrc.lua
      tshark -X lua_script:mrc.lua -r capture.pcap
      mrc wireshark print --wire-profile eeth_op_shift=4 > other.lua
    """
    from mrc.capture.wireshark import dissector_source

    source = dissector_source(WireProfile.from_option(wire_options))
    if as_json:
        print_json({"lua": source})
    else:
        click.echo(source, nl=False)


@wireshark.command()
@click.option(
    "--dir",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="The plugin folder. Default: the user's own, as tshark names it.",
)
@json_option
@wire_profile_option
def install(folder: Path | None, as_json: bool, wire_options: tuple[str, ...]) -> None:
    """Write the Lua script into the plugin folder of Wireshark, as mrc.lua.

    A script of an earlier version is replaced. A file of that name that mrc did not write is not. The switches of
    --wire-profile are built into the script. To uninstall it, delete the file.

    \b
    Examples:
      mrc wireshark install
      mrc wireshark install --dir ~/.config/wireshark/plugins
      mrc wireshark install --wire-profile solicited_event_first=false
    """
    from mrc.capture.wireshark import dissector_source, personal_plugin_folder
    from mrc.capture.wireshark import install as install_script

    source = dissector_source(WireProfile.from_option(wire_options))
    installed = install_script(source, folder or personal_plugin_folder())
    if folder is None and os.geteuid() == 0:
        note("this is root's own folder: other users run it under their own names, or name a shared one with --dir DIR")
    if as_json:
        print_json({"path": str(installed.path), "written": installed.written, "bytes": len(source.encode())})
    else:
        click.echo(f"{installed.path}{'' if installed.written else ' (was there already)'}")
        note("restart Wireshark, or have it load Lua plugins anew (Ctrl+Shift+L)")
