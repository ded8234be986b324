# SPDX-License-Identifier: BSD-2-Clause
"""The lab's eBPF programs, at the sending end of a link and at a fast fabric's ports: source, object, loader."""

from mrc.lab.bpf.libbpf import EbpfRefused
from mrc.lab.bpf.ports import USID_OBJECT, Port, PortsProgram
from mrc.lab.bpf.program import LINK_OBJECT, LinkCounters, LinkProgram, LinkSettings

__all__ = [
    "LINK_OBJECT",
    "USID_OBJECT",
    "EbpfRefused",
    "LinkCounters",
    "LinkProgram",
    "LinkSettings",
    "Port",
    "PortsProgram",
]
