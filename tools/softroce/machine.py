# SPDX-License-Identifier: BSD-2-Clause
"""The emulated machine the peer runs on."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from image import Image
from network import Network
from packages import Packages

from mrc.errors import SystemRefused
from mrc.lab.namespace import in_namespace

PROGRAM = "qemu-system-x86_64"
_PACKAGE = "qemu-system-x86"
# Linux moves and clears memory by REP MOVSB where there is erms, which emulated takes a byte at a time.
PROCESSOR = "max,-erms"
_MEMORY_MIB = 256
_BOOT_S = 90  # ten times what it takes
_BOOTS = 2
_SHOWN = 15  # lines of the console


@dataclass(frozen=True, slots=True)
class Emulator:
    """`libraries` are where it looks for its own, `options` what it has to be told."""

    program: str
    libraries: str = ""
    options: tuple[str, ...] = ()


def emulator(packages: Packages) -> Emulator:
    """This system's own qemu, or one unpacked from its package. Raises SystemRefused when there is none."""
    if (program := shutil.which(PROGRAM)) is not None:
        return Emulator(program)
    root = packages.folder / "qemu"
    if not packages.has("qemu"):
        packages.unpacked("qemu", packages.missing(_PACKAGE))
    libraries = ":".join(str(root / folder) for folder in ("usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu"))
    options = [word for folder in ("qemu", "seabios") for word in ("-L", str(root / "usr/share" / folder))]
    return Emulator(str(root / "usr/bin" / PROGRAM), libraries, tuple(options))


class NoCall(SystemRefused):
    """The machine runs, and its program does not call."""


def booted(qemu: Emulator, image: Image, network: Network, console: Path, say: Callable[[str], None]) -> Machine:
    """A peer that has called. One that hangs while it boots is started once more: nothing has been tried by then, and
    an emulated machine on a busy host may miss what it waits for."""
    for left in reversed(range(_BOOTS)):
        try:
            return Machine(qemu, image, network, console)
        except NoCall as refusal:
            if not left:
                raise
            say(f"{refusal}\nOnce more.")
    raise AssertionError


class Machine:
    """A peer that boots; `orders` is the connection its program takes orders on. Raises SystemRefused."""

    def __init__(self, qemu: Emulator, image: Image, network: Network, console: Path) -> None:
        command = [
            qemu.program,
            *qemu.options,
            "-machine",
            "pc",
            "-accel",
            "tcg",
            "-cpu",
            PROCESSOR,
            "-m",
            str(_MEMORY_MIB),
        ]
        command += ["-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-serial", f"file:{console}"]
        command += ["-kernel", str(image.kernel), "-initrd", str(image.initramfs), *network.devices]
        command += ["-append", f"console=ttyS0 quiet panic=-1 mitigations=off {network.says}"]
        environment = {**os.environ, "LD_LIBRARY_PATH": qemu.libraries} if qemu.libraries else None
        console.write_text("")
        self._console = console
        began = time.monotonic()
        # In the router's namespace, where its taps are.
        self._process = in_namespace(
            network.router,
            lambda: subprocess.Popen(
                ["nice", "-n", "19", *command],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,  # Ctrl-C is for us
            ),
        )
        try:
            self.orders = self._connected(network.listener)
        except BaseException:
            self.close()
            raise
        self.boot_s = time.monotonic() - began

    def _connected(self, listener: socket.socket) -> socket.socket:
        until = time.monotonic() + _BOOT_S
        while time.monotonic() < until:
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                if self._process.poll() is not None:
                    raise SystemRefused(f"the peer's machine ended by itself: {self._said()}") from None
                continue
            return connection
        raise NoCall(f"the peer did not call within {_BOOT_S} s: {self._said()}")

    def _said(self) -> str:
        if self._process.poll() is not None and self._process.stderr is not None:
            errors = self._process.stderr.read().strip()
            if errors:
                return errors
        lines = self._console.read_text(errors="replace").splitlines()
        return "\n".join(["the last of its console", *lines[-_SHOWN:]])

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        if self._process.stderr is not None:
            self._process.stderr.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.orders.close()
        self.close()
