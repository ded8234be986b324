# SPDX-License-Identifier: BSD-2-Clause
"""The part of `mrc doctor` that runs inside namespaces of its own: builds a small fabric and tries it."""

from __future__ import annotations

import ctypes
import json
import os
import socket
import sys
from dataclasses import asdict
from pathlib import Path

from mrc.cli.doctor_checks import Check, as_root, install, is_root_of_all, kernel, who
from mrc.cli.isolation import isolate
from mrc.errors import MrcError
from mrc.fabric import Clos
from mrc.lab import Lab


def checks() -> list[Check]:
    """Go into namespaces of this process's own, and see what works there: each is a line of the report."""
    name, needed_for, asked = "namespaces", "demo, lab", who()
    try:
        isolate()
    except MrcError as error:
        return [Check(name, False, f"refused to {asked}", needed_for, _allow_namespaces(), str(error))]
    return [Check(name, True, f"allowed to {asked}", needed_for), *_fabric()]


def _allow_namespaces() -> str:
    """The setting that keeps ordinary users from namespaces of their own, changed; "" where none of them does."""
    if os.geteuid() == 0:
        return ""
    for name, off, on in (
        ("kernel/unprivileged_userns_clone", "0", 1),
        ("kernel/apparmor_restrict_unprivileged_userns", "1", 0),
        ("user/max_user_namespaces", "0", 10000),
    ):
        path = Path("/proc/sys", name)
        if path.exists() and path.read_text().strip() == off:
            return as_root(f"sysctl -w {name.replace('/', '.')}={on}")
    return ""


def _fabric() -> list[Check]:
    """Build the smallest fabric, lose a packet on purpose, open a raw socket."""
    name, needed_for = "uSID switching", "demo, lab"
    try:
        with Lab.up("doctor", Clos(planes=1, leaves=2, spines=1)) as lab:
            done = [Check(name, True, "veth, seg6local End with NEXT-C-SID", needed_for)]
            return [*done, _raw_socket(lab), _impairment(lab), _rate(lab), _ebpf(lab)]
    except MrcError as error:
        lack = kernel(IPV6_SEG6_LWTUNNEL="", VETH="veth", BRIDGE="bridge")
        return [Check(name, False, str(error), needed_for, *lack)]


def _raw_socket(lab: Lab) -> Check:
    name, needed_for = "raw sockets in a lab", "demo, and send, recv and bench in a lab"
    try:
        lab.inside("h0", lambda: socket.socket(socket.AF_INET6, socket.SOCK_RAW, 41).close())
    except OSError as error:
        advice = "no command mends it: this container keeps them from root; start it with --cap-add NET_RAW"
        return Check(name, False, str(error), needed_for, "", advice)
    return Check(name, True, "next header 41", needed_for)


def _impairment(lab: Lab) -> Check:
    name, needed_for = "random loss", "demo, lab impair"
    try:
        lab.impair("p0l0-p0s0", loss=0.5)
    except MrcError as error:
        lack = kernel(NF_TABLES="nf_tables", NFT_NUMGEN="nft_numgen", NF_TABLES_NETDEV="", NETFILTER_INGRESS="")
        return Check(name, False, str(error), needed_for, *lack)
    return Check(name, True, "nftables numgen", needed_for)


def _rate(lab: Lab) -> Check:
    name, needed_for = "link rates", "lab impair --rate"
    try:
        lab.impair("p0l0-p0s0", rate_bps=10**9)
    except MrcError as error:
        return Check(name, False, str(error), needed_for, *kernel(NET_SCH_TBF="sch_tbf", NET_SCH_HTB="sch_htb"))
    return Check(name, True, "token bucket", needed_for)


def _ebpf(lab: Lab) -> Check:
    name, needed_for = "eBPF", "lab impair --ecn-at, --trim-at, --duplicate, --corrupt"
    try:
        lab.impair("p0l0-p0s0", rate_bps=10**9, ecn_at_bytes=10**5, trim_at_bytes=2 * 10**5)
    except MrcError as error:
        return Check(name, False, str(error), needed_for, *_lack_of_ebpf())
    return Check(name, True, "marks and trims, by a program at the sending end of a link", needed_for)


def _lack_of_ebpf() -> tuple[str, str]:
    """(mend, advice)"""
    try:
        ctypes.CDLL("libbpf.so.1")
    except OSError:
        return install("libbpf1")
    if not is_root_of_all():
        return as_root("mrc lab up"), ""
    return kernel(BPF_SYSCALL="", NET_CLS_BPF="cls_bpf", NET_SCH_INGRESS="sch_ingress")


if __name__ == "__main__":
    json.dump([asdict(each) for each in checks()], sys.stdout)
