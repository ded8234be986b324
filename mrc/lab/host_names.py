# SPDX-License-Identifier: BSD-2-Clause
"""Names of hosts for the programs in a lab: a file in the form of /etc/hosts, and how a program comes to see it."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

from mrc.errors import SystemRefused
from mrc.fabric import Shape
from mrc.fabric.address import address
from mrc.fabric.names import parse_switch
from mrc.lab.plan.out_of_band import NAME as OUT_OF_BAND
from mrc.lab.plan.out_of_band import ipv4_address

_SYSTEM_FILE = Path("/etc/hosts")
_CLONE_NEWNS = 0x00020000
_MS_BIND, _MS_SLAVE = 0x1000, 0x80000
_libc = ctypes.CDLL(None, use_errno=True)


def hosts_text(shape: Shape, name: str, has_ipv4: bool) -> str:
    """The system's /etc/hosts, then a line for each host and plane, for each host's IPv4 address, and for each switch.

    Programs that ask for an address of either kind get IPv6, the fabric: the C library sorts that way.
    """
    try:
        own = _SYSTEM_FILE.read_text(errors="surrogateescape")
    except OSError:
        own = ""
    lines = [own.rstrip("\n"), f"# The lab {name}: a host in every plane, and plane by plane."] if own else []
    for host in shape.hosts:
        lines += [f"{address(host, plane)} {host} {host}-p{plane}" for plane in range(shape.planes)]
    if has_ipv4:
        lines += [f"{ipv4_address(host)} {host} {host}-{OUT_OF_BAND}" for host in shape.hosts]
    for switch in shape.switches:
        lines.append(f"{address(switch, parse_switch(switch)[0])} {switch}")
    return "\n".join(lines) + "\n"


def show(path: Path) -> None:
    """Let this process, and what it starts, see `path` as /etc/hosts. Does nothing where either is missing.

    It gets mounts of its own, as `ip netns exec` gives. Raises SystemRefused.
    """
    if not path.exists() or not _SYSTEM_FILE.exists():
        return
    _call("giving the program mounts of its own", _libc.unshare(_CLONE_NEWNS))
    mounted = _mount_points()
    for place in (Path("/"), _SYSTEM_FILE.parent, _SYSTEM_FILE):
        # What is mounted on the file stays here. All else, /run/netns above all, stays shared: a lab may be built and
        # removed from in here.
        if place in mounted:
            _libc.mount(b"", os.fsencode(place), b"none", _MS_SLAVE, None)
    source, target = os.fsencode(path), os.fsencode(_SYSTEM_FILE)
    _call(f"showing {path} as {_SYSTEM_FILE}", _libc.mount(source, target, b"none", _MS_BIND, None))


def _mount_points() -> set[Path]:
    with open("/proc/self/mountinfo") as mounts:
        return {Path(line.split()[4]) for line in mounts}


def _call(what: str, result: int) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise SystemRefused(number, f"{what}: {os.strerror(number)}")
