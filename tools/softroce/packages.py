# SPDX-License-Identifier: BSD-2-Clause
"""Debian packages: downloaded into a folder, unpacked there, nothing installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from mrc.errors import SystemRefused

_APT = (
    *("-o", "APT::Sandbox::User=root"),  # apt's own user may not write to the folder
    *("-o", "Acquire::Retries=3"),
    *("-o", "Acquire::http::Timeout=30"),
)
_STAMP = ".unpacked"
_DAY_S = 86_400


class Packages:
    """Packages of this system's own Debian release, kept in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._updated = False

    def unpacked(self, group: str, names: Sequence[str], only: Sequence[str] = ()) -> Path:
        """A folder with what these packages hold; of it `only` what matches these patterns of tar, if there are any.

        Raises SystemRefused when they cannot be had.
        """
        root = self.folder / group
        stamp = root / _STAMP
        wanted = " ".join([*names, *only])
        if self.has(group) and stamp.read_text() == wanted:
            return root
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir(parents=True)
        downloads = root / "deb"
        downloads.mkdir()
        self._apt(["apt-get", *_APT, "download", "-q", *names], downloads)
        for package in sorted(downloads.glob("*.deb")):
            _unpack(package, root, only)
        shutil.rmtree(downloads)
        stamp.write_text(wanted)
        return root

    def has(self, group: str) -> bool:
        """Whether this group was unpacked before."""
        return (self.folder / group / _STAMP).exists()

    def unpacked_today(self, group: str) -> list[str]:
        """What was asked for this group, packages and patterns, where it was unpacked within a day; else empty."""
        stamp = self.folder / group / _STAMP
        lately = stamp.exists() and time.time() - stamp.stat().st_mtime < _DAY_S
        return stamp.read_text().split() if lately else []

    def update(self) -> None:
        """Have apt learn which versions there are now, once. Where that fails what it knew before has to do."""
        if not self._updated:
            self._updated = True
            _run(["apt-get", *_APT, "update", "-q"], self.folder)

    def depends(self, name: str) -> list[str]:
        """The packages that `name` depends on by itself."""
        said = self._apt(["apt-cache", "depends", "--important", name], self.folder)
        return [line.split()[-1] for line in said.splitlines() if "Depends:" in line]

    def missing(self, name: str) -> list[str]:
        """`name` and what it needs of packages that this system does not have."""
        said = self._apt(["apt-get", *_APT, "install", "--simulate", "--no-install-recommends", name], self.folder)
        inst = [line.split() for line in said.splitlines() if line.startswith("Inst ")]
        # "Inst NAME [OLD] (NEW ...": one that would only be renewed is there.
        return [words[1] for words in inst if words[2].startswith("(")]

    def _apt(self, command: list[str], where: Path) -> str:
        done = _run(command, where)
        if done.returncode and not self._updated:
            self.update()
            done = _run(command, where)
        if done.returncode:
            said = (done.stderr.strip() or done.stdout.strip()).splitlines()
            raise SystemRefused(f"{' '.join(command)}: {said[-1] if said else done.returncode}")
        return done.stdout


def _run(command: list[str], where: Path) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command, cwd=where, env={**os.environ, "LC_ALL": "C"}, capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        raise SystemRefused(f"there is no {command[0]} here: the peer is built from Debian packages") from None


def _unpack(package: Path, root: Path, only: Sequence[str]) -> None:
    patterns = ["--wildcards", "--no-anchored", *only] if only else []
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", str(package)], stdout=subprocess.PIPE) as content:
        command = ["tar", "--extract", "--directory", str(root), *patterns]
        done = subprocess.run(command, stdin=content.stdout, capture_output=True, text=True, check=False)
    # A pattern that nothing in one of several packages matches is no fault: what is missing is missed later.
    if content.returncode or (done.returncode and not only):
        raise SystemRefused(f"cannot unpack {package.name}: {done.stderr.strip()}")
