"""The part of `mrc doctor` that runs inside namespaces of its own: builds a small fabric and tries it."""

from __future__ import annotations

import json
import socket
import sys

from mrc.cli.isolation import private_run_directory
from mrc.errors import MrcError
from mrc.fabric import Clos
from mrc.lab import Lab


def _check(name: str, ok: bool, found: str, needed_for: str, advice: str) -> dict[str, object]:
    return {"name": name, "ok": ok, "found": found, "needed_for": needed_for, "advice": advice}


def checks() -> list[dict[str, object]]:
    """Build the smallest fabric, lose a packet on purpose, open a raw socket: each is a line of the report."""
    try:
        with Lab.up("doctor", Clos(planes=1, leaves=2, spines=1)) as lab:
            done = [_check("uSID switching", True, "veth, seg6local End with NEXT-C-SID", "demo, lab", "")]
            done.append(_raw_socket(lab))
            done += [_impairment(lab), _rate(lab), _ebpf(lab)]
            return done
    except MrcError as error:
        advice = "the kernel needs CONFIG_IPV6_SEG6_LWTUNNEL, CONFIG_VETH and CONFIG_BRIDGE (Linux 6.1 or newer)"
        return [_check("uSID switching", False, str(error), "demo, lab", advice)]


def _raw_socket(lab: Lab) -> dict[str, object]:
    advice, needed_for = "run as root or with CAP_NET_RAW", "demo, and send, recv and bench in a lab"
    try:
        lab.inside("h0", lambda: socket.socket(socket.AF_INET6, socket.SOCK_RAW, 41).close())
    except OSError as error:
        return _check("raw sockets in a lab", False, str(error), needed_for, advice)
    return _check("raw sockets in a lab", True, "next header 41", needed_for, advice)


def _impairment(lab: Lab) -> dict[str, object]:
    advice = "the kernel needs CONFIG_NF_TABLES_NETDEV, CONFIG_NETFILTER_INGRESS and CONFIG_NFT_NUMGEN"
    try:
        lab.impair("p0l0-p0s0", loss=0.5)
    except MrcError as error:
        return _check("random loss", False, str(error), "demo, lab impair", advice)
    return _check("random loss", True, "nftables numgen", "demo, lab impair", advice)


def _rate(lab: Lab) -> dict[str, object]:
    advice = "the kernel needs CONFIG_NET_SCH_TBF and CONFIG_NET_SCH_HTB"
    try:
        lab.impair("p0l0-p0s0", rate_bps=10**9)
    except MrcError as error:
        return _check("link rates", False, str(error), "lab impair --rate", advice)
    return _check("link rates", True, "token bucket", "lab impair --rate", advice)


def _ebpf(lab: Lab) -> dict[str, object]:
    needed_for = "lab impair --ecn-at, --trim-at, --duplicate, --corrupt"
    advice = "run as root; it needs the package libbpf1, CONFIG_BPF_SYSCALL, CONFIG_NET_CLS_BPF, CONFIG_NET_SCH_INGRESS"
    try:
        lab.impair("p0l0-p0s0", rate_bps=10**9, ecn_at_bytes=10**5, trim_at_bytes=2 * 10**5)
    except MrcError as error:
        return _check("eBPF", False, str(error), needed_for, advice)
    return _check("eBPF", True, "marks and trims, by a program at the sending end of a link", needed_for, advice)


if __name__ == "__main__":
    private_run_directory()
    json.dump(checks(), sys.stdout)
