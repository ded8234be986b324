# SPDX-License-Identifier: BSD-2-Clause
"""Small files travel many at a time: a pack is announced, written and committed by two requests.

A request and its answer take a round trip through both processes, and a file alone takes three. What is small enough
is read at once, with its sum, and announced together with others. The receiver answers which of them it wants.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from typing import Any

from mrc.errors import CallerError, PeerError
from mrc.net.negotiation import integer
from mrc.net.transfer.names import FilePath, file_path
from mrc.net.transfer.outgoing import attributes_of
from mrc.net.transfer.sums import TAG_BYTES, Sums
from mrc.net.transfer.terms import MAX_INDEX, Attributes
from mrc.net.transfer.tree import Outgoing
from mrc.records import record

# Choices of this project: a pack is a few milliseconds of work at each end.
PACKED_BYTES = 64 << 10  # of a file, at the most
PACK_BYTES = 4 << 20
PACK_FILES = 256
# Of the names in a pack, so that the request stays far below the longest message of the exchange.
_PACK_NAME_BYTES = 256 << 10
_SUM_DIGITS = 2 * TAG_BYTES
_MAX_TIME_NS = 1 << 62


@record(frozen=True, slots=True)
class PackedFile:
    """A file of a pack, as it is announced. `index`: its number in the session. Only the sender has its `content`."""

    index: int
    path: FilePath
    size: int
    attributes: Attributes
    sum: str
    content: bytes = b""

    def to_json(self) -> list[Any]:
        return [list(self.path), self.size, self.attributes.mode, self.attributes.mtime_ns, self.sum]


def read_packed(index: int, outgoing: Outgoing, sums: Sums) -> PackedFile | None:
    """Read a small file and its sum. None: it is none, or one whose size only reading tells; it travels alone.

    Raises CallerError for a file that is written to meanwhile, OSError for one that cannot be read.
    """
    if outgoing.source is None or not 0 < outgoing.size <= PACKED_BYTES:
        return None
    descriptor = os.open(outgoing.source, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or not 0 < found.st_size <= PACKED_BYTES:
            return None
        content = _read(descriptor, found.st_size + 1)
        if len(content) != found.st_size:
            return None
        after = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    if (after.st_size, after.st_mtime_ns) != (found.st_size, found.st_mtime_ns):
        raise CallerError(f"{outgoing.source} was written to while it was read: send it again")
    mode, mtime_ns = attributes_of(found).values()
    ours = sums.of_content(index, content)
    return PackedFile(index, outgoing.path, len(content), Attributes(mode, mtime_ns), ours, content)


def _read(descriptor: int, most: int) -> bytes:
    content = b""
    while len(content) < most and (piece := os.read(descriptor, most - len(content))):
        content += piece
    return content


class Filling:
    """A pack that files are added to, as long as it takes them."""

    def __init__(self) -> None:
        self.files: list[PackedFile] = []
        self._bytes = self._name_bytes = 0

    def takes(self, file: PackedFile) -> bool:
        """Whether this file, too, fits into it."""
        return (
            len(self.files) < PACK_FILES
            and self._bytes + file.size <= PACK_BYTES
            and self._name_bytes + _name_bytes(file) <= _PACK_NAME_BYTES
        )

    def add(self, file: PackedFile) -> None:
        self.files.append(file)
        self._bytes += file.size
        self._name_bytes += _name_bytes(file)


def _name_bytes(file: PackedFile) -> int:
    return sum(len(os.fsencode(name)) for name in file.path)


def announced(body: dict[str, Any], most_name_bytes: int) -> list[PackedFile]:
    """The files of a pack as the peer announced them. Raises PeerError for anything else."""
    files = body.get("files")
    if not isinstance(files, list) or not 1 <= len(files) <= PACK_FILES:
        raise PeerError(f"the sender announced a pack without a list of 1..{PACK_FILES} files")
    first = integer(body, "first", 0, MAX_INDEX - PACK_FILES)
    return [_announced(first + number, each, most_name_bytes) for number, each in enumerate(files)]


def _announced(index: int, described: object, most_name_bytes: int) -> PackedFile:
    if not isinstance(described, list) or len(described) != 5:
        raise PeerError("the sender describes a file of a pack in another form: use the same mrc release at both ends")
    names, size, mode, mtime_ns, theirs = described
    body = {"size": size, "mode": mode, "mtime_ns": mtime_ns}
    if not isinstance(theirs, str) or len(theirs) != _SUM_DIGITS:
        raise PeerError("the sender announced a file of a pack without its sum")
    return PackedFile(
        index,
        file_path(names, most_name_bytes),
        integer(body, "size", 1, PACKED_BYTES + 1),
        announced_attributes(body),
        theirs,
    )


def announced_attributes(body: dict[str, Any]) -> Attributes:
    """Mode and time of a file as the peer announced them, if it did. Raises PeerError for what cannot be."""
    mode = integer(body, "mode", 0, 0o1000) if "mode" in body else None
    mtime_ns = integer(body, "mtime_ns", -_MAX_TIME_NS, _MAX_TIME_NS) if "mtime_ns" in body else None
    return Attributes(mode, mtime_ns)


def places(files: Sequence[PackedFile]) -> Iterator[tuple[PackedFile, int, int]]:
    """Where each of these files lies in the memory of its pack: (file, begin, end), one behind the other."""
    at = 0
    for file in files:
        yield file, at, at + file.size
        at += file.size


def places_in(answer: dict[str, Any], key: str, count: int) -> list[int]:
    """A list of places in a pack of so many files. Raises PeerError for anything else."""
    found = answer.get(key)
    if not isinstance(found, list) or not all(type(each) is int and 0 <= each < count for each in found):
        raise PeerError(
            f"the receiver answered a pack without a list of those {key}: use the same mrc release at both ends"
        )
    return found


def refused_in(answer: dict[str, Any], count: int) -> dict[int, str]:
    """Why the receiver refused which files of a pack. Raises PeerError for anything else."""
    found = answer.get("refused")
    if not isinstance(found, list) or not all(isinstance(each, list) and len(each) == 2 for each in found):
        raise PeerError("the receiver answered a pack without what it refused: use the same mrc release at both ends")
    numbers = places_in({"refused": [number for number, _ in found]}, "refused", count)
    return {number: str(why) for number, (_, why) in zip(numbers, found, strict=True)}
