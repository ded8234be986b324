# SPDX-License-Identifier: BSD-2-Clause
"""What `mrc doctor` finds of one thing, and the one command that mends a lack, worked out for this system.

A lack that no command mends, such as a kernel built without what is needed, says so in words.
"""

from __future__ import annotations

import gzip
import os
import platform
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

MODULES = Path("/sys/module")


@dataclass(frozen=True, slots=True)
class Check:
    """One thing looked at. `needed_for` says what does not work without it; most users do without an `optional` one.

    `mend` is the command that mends the lack; where there is none, `advice` says why and what else to do. Both are ""
    where nothing is lacking.
    """

    name: str
    ok: bool
    found: str
    needed_for: str
    mend: str = ""
    advice: str = ""
    optional: bool = False

    def __post_init__(self) -> None:
        if self.ok:
            object.__setattr__(self, "mend", "")
            object.__setattr__(self, "advice", "")

    @property
    def mark(self) -> str:
        """What stands in front of it in a list."""
        return "ok" if self.ok else "absent" if self.optional else "MISSING"

    @property
    def remedy(self) -> str:
        """The command, or what takes its place."""
        return self.mend or self.advice


def is_root_of_all() -> bool:
    """Whether this process is root, and not of a user namespace alone."""
    everybody = Path("/proc/self/uid_map").read_text().split() == ["0", "0", "4294967295"]
    return os.geteuid() == 0 and everybody


def who() -> str:
    """Whom this process belongs to, in words."""
    if os.geteuid() != 0:
        return "an ordinary user"
    return "root" if is_root_of_all() else "root of a user namespace"


def as_root(command: str) -> str:
    """`command`, to be run by root: with `sudo` in front where this is another user."""
    return command if is_root_of_all() else f"sudo {command}"


def install(*packages: str) -> tuple[str, str]:
    """The command that installs packages of Debian, or which these are where there is no apt: (mend, advice)."""
    names = " ".join(packages)
    if shutil.which("apt-get") is None:
        return "", f"install what Debian calls {names}"
    return as_root(f"apt install {names}"), ""


def kernel(**options: str) -> tuple[str, str]:
    """What mends a kernel that lacks one of these options: (mend, advice).

    Each option has the module that it may be built as, "" where it is never a module.
    """
    known = kernel_config()
    if not known:
        modules = " ".join(module for module in options.values() if module)
        wanted = ", ".join(f"CONFIG_{option}" for option in options)
        hint = f"`{as_root(f'modprobe -a {modules}')}` loads what is there as modules; " if modules else ""
        return "", f"{hint}the kernel needs {wanted} (Linux 6.1 or newer)"
    linux = f"Linux {platform.release()}"
    lacking = [option for option in options if option not in known]
    if lacking:
        needs = ", ".join(f"CONFIG_{option}" for option in lacking)
        return "", f"no command mends it: {linux} was built without {needs}; start another, such as Debian's"
    missing = [module for option, module in options.items() if known[option] == "m" and not loaded(module)]
    if missing:
        return as_root(f"modprobe -a {' '.join(missing)}"), ""
    return "", f"no command mends it: {linux} has all of it; a container or a security module refuses it"


def loaded(module: str) -> bool:
    """Whether a module of the kernel is loaded."""
    return (MODULES / module).exists()


def kernel_config() -> Mapping[str, str]:
    """The options of the running kernel that are not off, `y` or `m` each; nothing where they cannot be read."""
    for path in (Path("/proc/config.gz"), Path(f"/boot/config-{platform.release()}")):
        try:
            data = path.read_bytes()
        except OSError:
            continue
        text = gzip.decompress(data) if path.suffix == ".gz" else data
        return dict(re.findall(r"^CONFIG_(\w+)=([ym])$", text.decode(errors="replace"), re.MULTILINE))
    return {}
