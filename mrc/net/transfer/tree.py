"""What `mrc send` was asked to send: files, the directories they are in, and standard input."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import field
from pathlib import Path

from mrc.errors import CallerError, MrcError
from mrc.net.transfer.names import MAX_DEPTH, FilePath
from mrc.net.transfer.outgoing import attributes_of
from mrc.net.transfer.sources import check_regular
from mrc.records import record

STANDARD_INPUT = "-"
_KINDS = {
    stat.S_IFLNK: "symbolic link",
    stat.S_IFIFO: "pipe",
    stat.S_IFSOCK: "socket",
    stat.S_IFBLK: "device",
    stat.S_IFCHR: "device",
}


@record(frozen=True, slots=True)
class OutgoingDirectory:
    """A directory to make at the receiver; `attributes` as they are announced."""

    path: FilePath
    attributes: dict[str, int]


@record(frozen=True, slots=True)
class Outgoing:
    """A file to send: the path it is announced by, where it is here, and its size as the system reports it.

    `source` None: standard input.
    """

    path: FilePath
    source: Path | None
    size: int


@record(slots=True)
class Consignment:
    """All there is to send. Directories come before what is in them; `skipped`: what is neither file nor directory."""

    directories: list[OutgoingDirectory] = field(default_factory=list)
    files: list[Outgoing] = field(default_factory=list)
    skipped: list[tuple[Path, str]] = field(default_factory=list)


def consignment(paths: Sequence[str | Path], stdin_name: str = "stdin") -> Consignment:
    """Look at what is to be sent, without opening the files: thousands would exceed the open-file limit.

    `-` is standard input, which arrives as `stdin_name`. A link named here is followed, one inside a directory is
    skipped. Raises CallerError for what cannot be read, and for two things of one name.
    """
    found = Consignment()
    names: dict[str, str | Path] = {}
    for path in paths:
        if str(path) == STANDARD_INPUT:
            name = stdin_name
            found.files.append(Outgoing((name,), None, 0))
        else:
            source = Path(path)
            name = _name_of(source)
            _add(found, (name,), source)
        if name in names:
            raise CallerError(
                f"{names[name]} and {path} would be one file at the receiver: rename one, or send it apart"
            )
        names[name] = path
    return found


def _name_of(path: Path) -> str:
    name = path.name if path.name not in ("", "..") else path.resolve().name
    if not name:
        raise CallerError(f"{path} has no name to send it by: send the directories in it")
    return name


def _add(found: Consignment, path: FilePath, source: Path) -> None:
    try:
        if source.is_dir():
            _add_directory(found, path, source)
            return
        check_regular(source)
        if not os.access(source, os.R_OK):
            raise CallerError(f"{source}: {os.strerror(errno.EACCES)}")
        found.files.append(Outgoing(path, source, source.stat().st_size))
    except OSError as error:
        if isinstance(error, MrcError):
            raise
        raise CallerError(f"{error.filename or source}: {error.strerror}") from None


def _add_directory(found: Consignment, path: FilePath, source: Path) -> None:
    if len(path) >= MAX_DEPTH:
        raise CallerError(f"{source} is more than {MAX_DEPTH} directories deep, the most that is sent")
    found.directories.append(OutgoingDirectory(path, attributes_of(source.stat())))
    for entry in _entries(source):
        below = (*path, entry.name)
        if entry.is_dir(follow_symlinks=False):
            _add_directory(found, below, Path(entry.path))
        elif entry.is_file(follow_symlinks=False):
            _add(found, below, Path(entry.path))
        else:
            kind = stat.S_IFMT(entry.stat(follow_symlinks=False).st_mode)
            found.skipped.append((Path(entry.path), _KINDS.get(kind, "special file")))


def _entries(source: Path) -> Iterator[os.DirEntry[str]]:
    with os.scandir(source) as entries:
        yield from sorted(entries, key=lambda entry: entry.name)


def skipped_text(found: Consignment) -> str:
    """One line about what is not sent; empty when all is."""
    if not found.skipped:
        return ""
    first, kind = found.skipped[0]
    more = len(found.skipped) - 1
    also = f", and {more} more that are no files" if more else ""
    return f"not sent: {first}, a {kind}{also}"
