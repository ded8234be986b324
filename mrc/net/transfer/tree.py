# SPDX-License-Identifier: BSD-2-Clause
"""What `mrc send` was asked to send: files, the directories they are in, and standard input."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from fnmatch import fnmatchcase
from pathlib import Path

from mrc.errors import CallerError, MrcError
from mrc.net.transfer.names import MAX_DEPTH, FilePath, is_part_name
from mrc.net.transfer.outgoing import attributes_of, check_regular
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
    """All there is to send. Directories come before what is in them; `skipped`: what is neither file nor directory.

    `lacking`: files in a directory that cannot be sent, each with the reason. The others are sent all the same.
    """

    directories: list[OutgoingDirectory] = field(default_factory=list)
    files: list[Outgoing] = field(default_factory=list)
    skipped: list[tuple[Path, str]] = field(default_factory=list)
    lacking: list[tuple[Path, str]] = field(default_factory=list)
    exclude: tuple[str, ...] = ()


def consignment(paths: Sequence[str | Path], stdin_name: str = "stdin", exclude: Sequence[str] = ()) -> Consignment:
    """Look at what is to be sent, without opening the files: thousands would exceed the open-file limit.

    `-` is standard input, which arrives as `stdin_name`. A link named here is followed, one inside a directory is
    skipped. `exclude`: shell patterns; what is inside a directory and whose name, or path below what is named here,
    matches one is left out, a directory with all that is in it. Raises CallerError for what is named here and cannot be
    read, and for two things of one name.
    """
    found = Consignment(exclude=tuple(exclude))
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
        if _is_excluded(found, below):
            continue
        if is_part_name(entry.name):
            found.lacking.append((Path(entry.path), "what a receiver keeps of a transfer that broke"))
        elif entry.is_dir(follow_symlinks=False):
            _try(found, _add_directory, below, Path(entry.path))
        elif entry.is_file(follow_symlinks=False):
            _try(found, _add, below, Path(entry.path))
        else:
            kind = stat.S_IFMT(entry.stat(follow_symlinks=False).st_mode)
            found.skipped.append((Path(entry.path), _KINDS.get(kind, "special file")))


def _is_excluded(found: Consignment, path: FilePath) -> bool:
    below = "/".join(path[1:])
    return any(fnmatchcase(path[-1], pattern) or fnmatchcase(below, pattern) for pattern in found.exclude)


def _try(found: Consignment, add: Callable[[Consignment, FilePath, Path], None], path: FilePath, source: Path) -> None:
    """Add what is inside a directory. What cannot be read does not keep the rest back."""
    try:
        add(found, path, source)
    except CallerError as error:
        found.lacking.append((source, str(error).removeprefix(f"{source}: ")))
    except OSError as error:
        found.lacking.append((source, error.strerror or str(error)))


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
