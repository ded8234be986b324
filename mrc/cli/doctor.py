"""`mrc doctor`: what works on this system, and what to do about the rest."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from mrc.cli.common import human_bytes, json_option, print_json

_NEEDED_RECEIVE_BUFFER = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Check:
    """One thing looked at. `needed_for` says what does not work without it; `advice` what to do then."""

    name: str
    ok: bool
    found: str
    needed_for: str
    advice: str = ""


@click.command()
@json_option
def doctor(as_json: bool) -> None:
    """Say what works on this system and what to do about the rest. Ends with 0 if the demo can run here.

    \b
    Examples:
      mrc doctor
      mrc doctor --json
    """
    checks = [_python(), _unshare(), *_inside(), _buffers(), _tshark()]
    runs = all(check.ok for check in checks if "demo" in check.needed_for)
    if as_json:
        print_json({"demo_can_run": runs, "checks": [asdict(check) for check in checks]})
    else:
        for check in checks:
            click.echo(f"{'ok     ' if check.ok else 'MISSING'}  {check.name}: {check.found}")
            if not check.ok:
                click.echo(f"         needed for {check.needed_for}: {check.advice}")
        click.echo("`mrc demo` can run here" if runs else "`mrc demo` cannot run here yet")
    if not runs:
        raise click.exceptions.Exit(1)


def _python() -> Check:
    return Check("Python", sys.version_info >= (3, 11), platform.python_version(), "demo", "install Python 3.11")


def _unshare() -> Check:
    found = shutil.which("unshare")
    return Check("unshare", found is not None, found or "not found", "demo", "install the package util-linux")


def _inside() -> list[Check]:
    """What the kernel lets us do inside namespaces of our own: tried there, not guessed from here."""
    from mrc.cli.isolation import isolated_command
    from mrc.errors import MrcError

    who = "root" if os.geteuid() == 0 else "an ordinary user"
    try:
        command = isolated_command([sys.executable, "-m", "mrc.cli.doctor_inside"])
    except MrcError as error:
        return [Check("namespaces", False, f"refused to {who}", "demo, lab", str(error))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    checks = [Check("namespaces", True, f"allowed to {who}", "demo, lab")]
    try:
        return checks + [Check(**item) for item in json.loads(done.stdout)]
    except ValueError:
        said = done.stderr.strip().splitlines()[-1:] or [f"exit status {done.returncode}"]
        return [*checks, Check("fabric", False, said[0], "demo, lab", "see the message")]


def _buffers() -> Check:
    most = int(Path("/proc/sys/net/core/rmem_max").read_text())
    enough = os.geteuid() == 0 or most >= _NEEDED_RECEIVE_BUFFER
    advice = f"as root: sysctl net.core.rmem_max={_NEEDED_RECEIVE_BUFFER}"
    found = f"at most {human_bytes(most)}" + (", root may exceed it" if os.geteuid() == 0 else "")
    return Check("receive buffers", enough, found, "full speed without root", advice)


def _tshark() -> Check:
    found = shutil.which("tshark")
    version = "not found"
    if found:
        said = subprocess.run([found, "--version"], capture_output=True, text=True, check=False).stdout
        version = said.splitlines()[0] if said else found
    return Check("tshark", found is not None, version, "some tests", "apt install tshark")
