# SPDX-License-Identifier: BSD-2-Clause
"""The peer's kernel: the image as qemu starts it fastest, and modules in the order they are loaded in."""

from __future__ import annotations

import lzma
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path

from mrc.errors import SystemRefused

# What is loaded; what these depend on by themselves is found.
MODULES = ("virtio_pci", "virtio_net", "crc32_generic", "rdma_rxe", "algif_hash")
# Where those and what they depend on lie in the package, and those of tools/in-debian-kernel.
_FOLDERS = ("crypto", "lib", "fs/9p", "fs/fscache", "fs/netfs")
_OF_NET = ("core", "ipv4", "ipv6", "9p", "sched", "netfilter", "bridge", "802", "llc")
PATTERNS = (
    "boot/vmlinuz-*",
    *(f"*/kernel/{folder}/*.ko*" for folder in (*_FOLDERS, *(f"net/{each}" for each in _OF_NET))),
    *(f"*/kernel/drivers/{folder}/*.ko*" for folder in ("infiniband/core", "infiniband/sw", "virtio")),
    *(f"*/kernel/drivers/net/{name}.ko*" for name in ("virtio_net", "net_failover", "veth", "dummy", "tun")),
)

_XZ_MAGIC = b"\xfd7zXZ\0"
_ELF_MAGIC = b"\x7fELF"
# Of the boot protocol's header (Documentation/arch/x86/boot.rst): sectors before the kernel, where its payload lies.
_SETUP_SECTORS_AT, _PAYLOAD_AT = 0x1F1, 0x248


def bootable(vmlinuz: bytes) -> bytes:
    """The ELF image inside a compressed kernel: to unpack it here takes a second, in an emulated machine several.

    A kernel not compressed with xz is returned as it is.
    """
    sectors = vmlinuz[_SETUP_SECTORS_AT] or 4
    offset, length = struct.unpack_from("<II", vmlinuz, _PAYLOAD_AT)
    start = (sectors + 1) * 512 + offset
    payload = vmlinuz[start : start + length]
    if not payload.startswith(_XZ_MAGIC):
        return vmlinuz
    # Four bytes that follow tell the length.
    unpacked = lzma.LZMADecompressor(lzma.FORMAT_XZ).decompress(payload)
    return unpacked if unpacked.startswith(_ELF_MAGIC) else vmlinuz


def modules_in_order(root: Path, wanted: Iterable[str] = MODULES) -> list[tuple[str, bytes]]:
    """(name, content) of these modules, each after those it depends on. Raises SystemRefused when one is missing."""
    paths = {_name(path): path for path in root.rglob("*.ko*")}
    loaded: dict[str, bytes] = {}

    def load(name: str) -> None:
        if name in loaded or name not in paths:
            # What a module depends on may be built into the kernel.
            return
        content = _content(paths[name])
        for other in _depends(content):
            load(other)
        loaded[name] = content

    for name in wanted:
        if name not in paths:
            raise SystemRefused(f"the kernel package has no module {name}")
        load(name)
    return list(loaded.items())


def _name(path: Path) -> str:
    return path.name.partition(".")[0].replace("-", "_")


def _content(path: Path) -> bytes:
    data = path.read_bytes()
    return lzma.decompress(data) if data.startswith(_XZ_MAGIC) else data


def _depends(module: bytes) -> Iterator[str]:
    """What it says of itself in its section .modinfo: depends=NAME,NAME."""
    start = module.find(b"\0depends=")
    if start >= 0:
        names = module[start + 9 : module.index(b"\0", start + 9)].decode()
        yield from (name.replace("-", "_") for name in names.split(",") if name)
