"""The part of `mrc doctor` that runs inside namespaces of its own: builds a small fabric and tries it."""

from __future__ import annotations

import json
import socket
import sys

from mrc.cli.isolation import private_run_directory
from mrc.errors import MrcError
from mrc.lab import Lab
from mrc.topology import Clos


def _check(name: str, ok: bool, found: str, needed_for: str, advice: str) -> dict[str, object]:
    return {"name": name, "ok": ok, "found": found, "needed_for": needed_for, "advice": advice}


def checks() -> list[dict[str, object]]:
    """Build the smallest fabric, lose a packet on purpose, open a raw socket: each is a line of the report."""
    try:
        with Lab.up("doctor", Clos(planes=1, leaves=2, spines=1)) as lab:
            done = [_check("uSID switching", True, "veth, seg6local End with NEXT-C-SID", "demo, lab", "")]
            done.append(_raw_socket(lab))
            done.append(_impairment(lab))
            return done
    except MrcError as error:
        advice = "the kernel needs CONFIG_IPV6_SEG6_LWTUNNEL, CONFIG_VETH and CONFIG_BRIDGE (Linux 6.1 or newer)"
        return [_check("uSID switching", False, str(error), "demo, lab", advice)]


def _raw_socket(lab: Lab) -> dict[str, object]:
    advice = "run as root or with CAP_NET_RAW"
    try:
        lab.inside("h0", lambda: socket.socket(socket.AF_INET6, socket.SOCK_RAW, 41).close())
    except OSError as error:
        return _check("raw sockets", False, str(error), "demo, send, recv", advice)
    return _check("raw sockets", True, "next header 41", "demo, send, recv", advice)


def _impairment(lab: Lab) -> dict[str, object]:
    advice = "the kernel needs CONFIG_NF_TABLES_INET and CONFIG_NFT_NUMGEN"
    try:
        lab.impair("p0l0-p0s0", loss=0.5)
    except MrcError as error:
        return _check("random loss", False, str(error), "demo, lab impair", advice)
    return _check("random loss", True, "nftables numgen", "demo, lab impair", advice)


if __name__ == "__main__":
    private_run_directory()
    json.dump(checks(), sys.stdout)
