# SPDX-License-Identifier: BSD-2-Clause
"""Where Wireshark looks for a user's own scripts, and putting ours there."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from mrc.capture.wireshark.source import MARKER
from mrc.errors import CallerError, SystemRefused
from mrc.whole_files import write_whole

SCRIPT_NAME = "mrc.lua"
_USUAL_FOLDER = Path(".local", "lib", "wireshark", "plugins")
# What tshark calls it; versions before 4.0 have one folder for all kinds of plugin.
_FOLDER_LABELS = ("Personal Lua Plugins", "Personal Plugins")
_ANSWER_S = 30


@dataclass(frozen=True, slots=True)
class Installed:
    """Where the script is; `written` is False when it was there already, byte for byte."""

    path: Path
    written: bool


def personal_plugin_folder() -> Path:
    """The user's own folder for Lua plugins: as tshark names it, else where it usually is.

    Raises SystemRefused when there is neither a tshark to ask nor a home directory.
    """
    named = _asked_of_tshark()
    if named is not None:
        return named
    try:
        return Path.home() / _USUAL_FOLDER
    except RuntimeError:
        raise SystemRefused("no home directory is known: name the plugin folder with --dir DIR") from None


def _asked_of_tshark() -> Path | None:
    program = shutil.which("tshark")
    if program is None:
        return None
    try:
        done = subprocess.run(
            [program, "-G", "folders"], capture_output=True, text=True, check=False, timeout=_ANSWER_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    folders = dict(line.split(":", 1) for line in done.stdout.splitlines() if ":" in line)
    for label in _FOLDER_LABELS:
        folder = folders.get(label, "").strip()
        if folder:
            return Path(folder)
    return None


def install(source: str, folder: Path) -> Installed:
    """Write the script into `folder`, which is made if it is not there. Wireshark never sees half of it.

    An older script of ours is replaced. Raises CallerError when the file there is not ours, SystemRefused when the
    system does not let us read or write there.
    """
    path = folder / SCRIPT_NAME
    try:
        folder.mkdir(parents=True, exist_ok=True)
        present = path.read_bytes() if path.exists() or path.is_symlink() else None
        if present == source.encode():
            return Installed(path, written=False)
        if present is not None and not present.startswith(MARKER.encode()):
            raise CallerError(f"{path} was not written by mrc: move it away, or name another folder with --dir DIR")
    except OSError as error:
        raise SystemRefused(f"{path} cannot be written: {error.strerror}") from error
    # Its temporary name does not end in .lua: Wireshark would load what an interrupted run leaves.
    write_whole(path, source)
    return Installed(path, written=True)
