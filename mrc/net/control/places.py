"""Where control sockets are: one file `PID.sock` for each endpoint, in a directory of its user's."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from mrc.errors import SystemRefused

DIRECTORY_VARIABLE = "MRC_CONTROL_DIR"
SWITCH_VARIABLE = "MRC_CONTROL"  # "off": no socket
ROOT_DIRECTORY = Path("/run/mrc-endpoints")
SUFFIX = ".sock"


def own_directories() -> list[Path]:
    """Where this process may put its socket, the best first."""
    named = os.environ.get(DIRECTORY_VARIABLE)
    if named:
        return [Path(named)]
    found = [ROOT_DIRECTORY] if os.geteuid() == 0 else []
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime:
        found.append(Path(runtime) / "mrc")
    return [*found, _temporary(os.geteuid())]


def directories() -> list[Path]:
    """Where sockets may be that this process may use: its own, for root those of every user, for others root's too."""
    if os.environ.get(DIRECTORY_VARIABLE):
        return own_directories()
    found = own_directories()
    if os.geteuid() == 0:
        found += sorted(Path("/run/user").glob("*/mrc"))
        found += sorted(Path("/tmp").glob("mrc-control-*"))
    else:
        found.append(ROOT_DIRECTORY)
    return list(dict.fromkeys(found))


def _temporary(uid: int) -> Path:
    return Path("/tmp") / f"mrc-control-{uid}"


def prepared_directory() -> Path:
    """A directory for this process's socket, made if need be. Raises SystemRefused when there is none.

    One in which anybody else may put or move files is refused: a socket there might not be ours.
    """
    why = "no directory"
    for path in own_directories():
        try:
            path.mkdir(mode=0o755 if path == ROOT_DIRECTORY else 0o700, exist_ok=True)
            found = path.lstat()
        except OSError as error:
            why = f"{path}: {error.strerror}"
            continue
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
            why = f"{path}: others may write there"
        elif not os.access(path, os.W_OK | os.X_OK):
            why = f"{path}: not writable"
        else:
            return path
    raise SystemRefused(f"nowhere to put a control socket: {why}")


def sockets(directory: Path) -> list[Path]:
    """The socket files of a directory. None where there is no directory, or it is not ours to read."""
    try:
        return sorted(path for path in directory.iterdir() if path.suffix == SUFFIX and path.is_socket())
    except OSError:
        return []
