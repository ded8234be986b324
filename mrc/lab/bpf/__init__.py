"""The eBPF program at the sending end of a link: its source `link.c`, the compiled `link.o`, and what loads it."""

from mrc.lab.bpf.libbpf import EbpfRefused
from mrc.lab.bpf.program import LINK_OBJECT, LinkCounters, LinkProgram, LinkSettings

__all__ = ["LINK_OBJECT", "EbpfRefused", "LinkCounters", "LinkProgram", "LinkSettings"]
