# SPDX-License-Identifier: BSD-2-Clause
"""`mrc doctor`: what works on this system, and what to do about the rest."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import socket
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from mrc import CORE, __version__
from mrc.child import forked, python
from mrc.cli.common import json_option, print_json
from mrc.cli.doctor_checks import Check, as_root, install, is_root_of_all, who
from mrc.cli.isolation import leave
from mrc.core import COMPILED, VARIABLE, in_checkout
from mrc.errors import SystemRefused
from mrc.net.ports import grow
from mrc.report.tables import aligned
from mrc.report.units import size_text
from mrc.threads import in_thread
from mrc.untrusted import own_json

_NEEDED_RECEIVE_BUFFER = 4 * 1024 * 1024
# By extra: the module that shows whether it is installed, and what it is for.
EXTRAS = {
    "plot": ("matplotlib", "plots of `mrc drill` and `mrc sim`"),
    "parquet": ("pyarrow", "analyze --parquet, results of `mrc sim`"),
    "metrics": ("prometheus_client", "ctl metrics, /metrics of `mrc map serve`"),
    "zstd": ("zstandard", "captures compressed with zstd"),
    "lz4": ("lz4", "captures compressed with lz4"),
    "bfloat16": ("ml_dtypes", "bfloat16 in collectives"),
    "torch": ("torch", "PyTorch jobs, drill training --torch"),
    "ray": ("ray", "sim sweep --ray"),
}


@dataclass(frozen=True, slots=True)
class Usable:
    """Whether this user can run commands here, and inside `mrc lab shell`; `advice` is what mends `here`.

    Without advice nothing needs mending.
    """

    commands: str
    here: bool
    in_lab_shell: bool
    advice: str = ""


@click.command()
@json_option
def doctor(as_json: bool) -> None:
    """Check what works on this system and what to do about the rest. Exit status 0 if the demo can run here.

    For each lack there is one command that mends it; where none does, it says why. Extras are not needed by most users.

    The table of commands is for the current user: here, and inside `mrc lab shell`, which needs no root.

    \b
    Examples:
      mrc doctor
      mrc doctor --json
    """
    here = [_python(), _raw_sockets(), _namespaces_here()]
    inside = _inside()
    runs = all(check.ok for check in here + inside if "demo" in check.needed_for)
    usable = _usable(here, inside, runs)
    checks = [*here, *inside, _core(), _buffers(), _tshark(), *_extras()]
    if as_json:
        documents = {"checks": [asdict(check) for check in checks], "usable": [asdict(each) for each in usable]}
        print_json({"demo_can_run": runs, **documents})
    else:
        for check in checks:
            click.echo(f"{check.mark:7}  {check.name}: {check.found}")
            if not check.ok:
                click.echo(f"         needed for {check.needed_for}: {check.remedy}")
        _show_usable(usable)
        click.echo("`mrc demo` can run here" if runs else "`mrc demo` cannot run here yet")
    if not runs:
        raise click.exceptions.Exit(1)


def _python() -> Check:
    ok = sys.version_info >= (3, 11)
    return Check("Python", ok, platform.python_version(), "demo", "", "Python 3.11 or newer: Debian 12 has it")


def _mrc() -> str:
    """This program as `sudo` finds it, which has a search path of its own."""
    found = shutil.which(sys.argv[0]) if Path(sys.argv[0]).name == "mrc" else None
    return found or f"{sys.executable} -m mrc"


def _raw_sockets() -> Check:
    name, needed_for = "raw sockets here", "send, recv, bench and conformance serve outside of labs"
    try:
        socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_UDP).close()
    except OSError as error:
        found = f"refused to {who()}: {error.strerror}"
        if is_root_of_all():
            return Check(name, False, found, needed_for, "", _container("NET_RAW"))
        return Check(name, False, found, needed_for, f"sudo {_mrc()} recv ...")
    return Check(name, True, f"allowed to {who()}", needed_for)


def _namespaces_here() -> Check:
    """Labs that other programs of this system see need namespaces without a user namespace around them."""
    name, needed_for = "network namespaces here", "lab outside of `mrc lab shell`"
    try:
        in_thread(leave)
    except SystemRefused:
        if is_root_of_all():
            return Check(name, False, "refused to root", needed_for, "", _container("SYS_ADMIN"))
        return Check(name, False, f"refused to {who()}", needed_for, "mrc lab shell")
    return Check(name, True, f"allowed to {who()}", needed_for)


def _container(capability: str) -> str:
    """What to do where root is refused what root may do."""
    return f"no command mends it: this container keeps it from root; start it with --cap-add {capability}"


def _usable(here: list[Check], inside: list[Check], demo_runs: bool) -> list[Usable]:
    """What all that means, command by command."""
    allowed = {check.name: check for check in here + inside}

    def row(commands: str, needs_here: str, *needs_inside: str) -> Usable:
        check = allowed[needs_here]
        in_shell = all(name in allowed and allowed[name].ok for name in ("namespaces", *needs_inside))
        return Usable(commands, check.ok, in_shell, "" if check.ok else check.remedy)

    advice = next((check.remedy for check in here + inside if "demo" in check.needed_for and not check.ok), "")
    return [
        Usable("demo, drill, bench lab", demo_runs, demo_runs, advice),
        row("lab, map serve", "network namespaces here", "uSID switching"),
        row("send, recv, bench serve, bench write, conformance serve", "raw sockets here", "raw sockets in a lab"),
        Usable("dissect, analyze, craft, conformance run, ctl, top", True, True),
    ]


def _show_usable(usable: list[Usable]) -> None:
    rows = [[f"as {who()}:", "here", "in `mrc lab shell`"]]
    rows += [[each.commands, _yes(each.here), _yes(each.in_lab_shell)] for each in usable]
    heading, *lines = aligned(rows)
    click.echo(f"\n{heading}")
    for line, each in zip(lines, usable, strict=True):
        click.echo(line)
        if not each.here:
            click.echo(f"  to run it here: {each.advice}")
    click.echo()


def _yes(ok: bool) -> str:
    return "yes" if ok else "no"


def _inside() -> list[Check]:
    """What the kernel lets us do inside namespaces of our own: tried there, not guessed from here."""
    command = python("mrc.cli.doctor_inside")
    with forked(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as inside:
        out, err = inside.communicate()
    try:
        return [Check(**item) for item in own_json(out)]
    except ValueError:
        said = err.strip().splitlines()[-1:] or [f"exit status {inside.returncode}"]
        advice = f"see the message: `{_mrc()} lab shell` shows the rest of it"
        return [Check("fabric", False, said[0], "demo, lab", "", advice)]


def _core() -> Check:
    mend = f"unset {VARIABLE}" if os.environ.get(VARIABLE) else _compile()
    return Check("compiled datapath", CORE.kind == COMPILED, str(CORE), "full speed", mend)


def _compile() -> str:
    # By its file: an index may have another project of this name.
    again = f"pip install --no-cache-dir --force-reinstall --no-deps softmrc-{__version__}.tar.gz"
    build = "tools/build-core" if in_checkout() else again
    compiler = "" if shutil.which("cc") else install("gcc", "libc6-dev", "python3-dev")[0]
    return f"{compiler} && {build}" if compiler else build


def _buffers() -> Check:
    most = int(Path("/proc/sys/net/core/rmem_max").read_text())
    mend = as_root(f"sysctl -w net.core.rmem_max={_NEEDED_RECEIVE_BUFFER}")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as tried:
        has = grow(tried, "RCV")
    # The kernel says twice what may be used.
    exceeds = has > 2 * most
    found = f"at most {size_text(most)}" + (f", which {who()} may exceed" if exceeds else "")
    return Check("receive buffers", exceeds or most >= _NEEDED_RECEIVE_BUFFER, found, "full speed", mend)


def _tshark() -> Check:
    found = shutil.which("tshark")
    version = "not found"
    if found:
        said = subprocess.run([found, "--version"], capture_output=True, text=True, check=False).stdout
        version = said.splitlines()[0] if said else found
    return Check(
        "tshark", found is not None, version, "some tests, and reading captures with it", *install("tshark"), True
    )


def _extras() -> list[Check]:
    """What `pip install softmrc` leaves out, each with what it is for."""
    found = {extra: importlib.util.find_spec(module) is not None for extra, (module, _) in EXTRAS.items()}
    return [
        Check(
            f"extra {extra}",
            there,
            "installed" if there else f"no {module}",
            use,
            f"pip install 'softmrc[{extra}]'",
            "",
            True,
        )
        for (extra, (module, use)), there in zip(EXTRAS.items(), found.values(), strict=True)
    ]
