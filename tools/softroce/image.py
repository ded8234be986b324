# SPDX-License-Identifier: BSD-2-Clause
"""What the peer boots: a kernel and an initramfs, made of Debian packages and kept until what makes them changes."""

from __future__ import annotations

import hashlib
import shutil
import stat
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import kernel
from kernel import MODULES, PATTERNS, bootable, modules_in_order
from packages import Packages

from mrc.errors import SystemRefused

GUEST = Path(__file__).parent / "guest"
_KERNEL = "linux-image-amd64"
_RUN_IN_GUEST = ("busybox-static", "iproute2", "libmnl0")
_LINKED = ("libibverbs-dev", "libnl-3-dev", "libnl-route-3-dev")
_LIBRARIES = "usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu"


@dataclass(frozen=True, slots=True)
class Image:
    """`release` is the kernel's."""

    kernel: Path
    initramfs: Path
    release: str


def built(packages: Packages, folder: Path) -> Image:
    """The image in `folder`, made if it is not there. Raises SystemRefused when something it takes is missing."""
    makers = (Path(__file__), Path(kernel.__file__))
    sources = b"".join(path.read_bytes() for path in (*sorted(GUEST.iterdir()), *makers))
    version = hashlib.sha256(sources).hexdigest()[:16]
    for initramfs in sorted(folder.glob(f"*-{version}/initramfs")):
        release = initramfs.parent.name.removesuffix(f"-{version}")
        return Image(initramfs.parent / "vmlinux", initramfs, release)
    found = debian_kernel(packages)
    made = folder / f"{found.release}-{version}"
    image = Image(made / "vmlinux", made / "initramfs", found.release)
    shutil.rmtree(folder, ignore_errors=True)
    made.mkdir(parents=True)
    image.kernel.write_bytes(found.kernel)
    programs = packages.unpacked("programs", _RUN_IN_GUEST)
    headers = packages.unpacked("linked", _LINKED)
    files: dict[str, tuple[int, bytes]] = {
        "init": (0o755, (GUEST / "init").read_bytes()),
        "bin/busybox": (0o755, busybox(packages)),
        "bin/sh": (stat.S_IFLNK | 0o777, b"busybox"),
        "bin/rdma": (0o755, _find(programs, "usr/bin/rdma").read_bytes()),
        "bin/peer": (0o755, _compiled(GUEST / "peer.c", headers, made / "peer").read_bytes()),
    }
    files |= {path.lstrip("/"): (0o755, content) for path, content in _libraries(programs, "usr/bin/rdma")}
    modules = modules_in_order(found.root, MODULES)
    files |= {f"modules/{name}.ko": (0o644, content) for name, content in modules}
    files["modules/order"] = (0o644, "".join(f"/modules/{name}.ko\n" for name, _ in modules).encode())
    unfinished = made / "initramfs.unfinished"
    unfinished.write_bytes(cpio(files))
    unfinished.rename(image.initramfs)
    return image


@dataclass(frozen=True, slots=True)
class DebianKernel:
    """`root` has its modules, `kernel` is what is booted."""

    release: str
    root: Path
    kernel: bytes


def debian_kernel(packages: Packages) -> DebianKernel:
    """The kernel that Debian installs now, or did within a day. Raises SystemRefused when it is not to be had."""
    named = packages.unpacked_today("kernel")[:1]
    if not named:
        # What apt knew may name a kernel that is not to be had any more.
        packages.update()
        named = packages.depends(_KERNEL)[:1]
    if not named:
        raise SystemRefused(f"{_KERNEL} names no kernel: is this Debian on amd64?")
    root = packages.unpacked("kernel", named, PATTERNS)
    (vmlinuz,) = root.glob("boot/vmlinuz-*")
    return DebianKernel(named[0].removeprefix("linux-image-"), root, bootable(vmlinuz.read_bytes()))


def busybox(packages: Packages) -> bytes:
    """The shell and the tools of a machine that has nothing else. Raises SystemRefused."""
    return _find(packages.unpacked("programs", _RUN_IN_GUEST), "bin/busybox").read_bytes()


def _find(root: Path, path: str) -> Path:
    for found in (root / path, root / "usr" / path, root / path.removeprefix("usr/")):
        if found.is_file():
            return found
    raise SystemRefused(f"{path} is not in the packages in {root}")


def _compiled(source: Path, root: Path, program: Path) -> Path:
    """`source` as a program that needs no library of its system. Raises SystemRefused when it does not compile."""
    libraries = [f"-L{root / folder}" for folder in _LIBRARIES]
    command = ["gcc", "-O2", "-Wall", "-static", f"-I{root}/usr/include", "-DRDMA_STATIC_PROVIDERS=rxe"]
    # rdma-core's own recipe for one provider linked in.
    command += [str(source), "-o", str(program), *libraries]
    command += ["-lrxe-rdmav34", "-libverbs", "-lnl-route-3", "-lnl-3", "-lpthread"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise SystemRefused("there is no gcc here: install the packages gcc and libc6-dev") from None
    if done.returncode:
        raise SystemRefused(f"{source.name} does not compile:\n{done.stderr}")
    return program


def _libraries(root: Path, program: str) -> Iterable[tuple[str, bytes]]:
    """(where the loader looks, content) of the libraries a program of the packages needs, the loader among them."""
    folders = ":".join(str(root / folder) for folder in _LIBRARIES)
    command = ["env", f"LD_LIBRARY_PATH={folders}", "ldd", str(_find(root, program))]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    for line in said.splitlines():
        words = line.split()
        if "not" in words and "found" in words:
            raise SystemRefused(f"{program} needs {words[0]}, which neither this system nor its packages have")
        path = next((word for word in words if word.startswith("/")), None)
        if path is None:
            continue
        # "NAME => PATH (...)", or the loader's own path.
        where = path if words[0] == path else f"/lib/x86_64-linux-gnu/{words[0]}"
        yield where, Path(path).read_bytes()


def cpio(files: dict[str, tuple[int, bytes]]) -> bytes:
    """An archive as the kernel unpacks it (Documentation/driver-api/early-userspace/buffer-format.rst): path to (mode,
    content), folders made as they are needed."""
    folders: dict[str, tuple[int, bytes]] = {}
    for path in (*files, "proc/x", "sys/x", "dev/x", "tmp/x"):
        for parent in reversed(Path(path).parents[:-1]):
            folders[str(parent)] = (stat.S_IFDIR | 0o755, b"")
    archive = bytearray()
    for number, (path, (mode, content)) in enumerate({**folders, **files, "TRAILER!!!": (0, b"")}.items(), 1):
        mode = mode if mode > 0o7777 or not mode else mode | stat.S_IFREG
        name = path.encode() + b"\0"
        values = (number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name), 0)
        archive += b"070701" + b"".join(b"%08X" % value for value in values) + name
        archive += bytes(-len(archive) % 4)
        archive += content
        archive += bytes(-len(archive) % 4)
    return bytes(archive)
