"""The files of one sender that are on their way: each part opened to writes in turn, summed, and named when whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mrc.errors import MrcError, PeerError
from mrc.net.negotiation import integer, text
from mrc.net.transfer.bounds import FilePlaces, SenderBounds
from mrc.net.transfer.files import Directory, IncomingFile, IncomingPart
from mrc.net.transfer.report import FileReport
from mrc.untrusted import quoted
from mrc.verbs import MR, PD

MAX_FILE = 1 << 50
_MAX_INDEX = 1 << 31


@dataclass(slots=True)
class Part:
    """The part of a file that is open to writes, and its region. Addresses are offsets in the file."""

    memory: IncomingPart
    region: MR
    # What the session's QPs had placed when it was opened.
    placed_before: int

    def close(self) -> None:
        self.region.close()
        self.memory.close()


@dataclass(slots=True)
class Arriving:
    """A file on its way, the part of it that is open, how far it was ever opened, and its sum once all is closed."""

    file: IncomingFile
    part: Part | None = None
    opened: int = 0
    sha256: str | None = None

    def close_part(self) -> None:
        part, self.part = self.part, None
        if part is not None:
            part.close()


class Arrivals:
    """The requests of one session about its files. One at a time; `follow` and `on_their_way` may come from anywhere.

    `placed` returns how many bytes the session's QPs have placed. Disk that was taken and not filled counts against the
    session's bounds until it is, so that a sender cannot take more of it than it sends data for. Every request raises
    PeerError for what the sender may not ask, SystemRefused for a full disk. `close` discards what is not whole.
    """

    def __init__(
        self,
        pd: PD,
        directory: Directory,
        bounds: SenderBounds,
        places: FilePlaces,
        placed: Callable[[], int],
        *,
        in_parts: bool = True,
    ) -> None:
        """`in_parts`: whether the sender knows of parts; without, a file has to fit one."""
        self._pd = pd
        self._directory = directory
        self._bounds = bounds
        self._places = places
        self._placed = placed
        self._in_parts = in_parts
        self._files: dict[int, Arriving] = {}
        self._announced = 0
        # Disk taken by files on their way and by those that were committed.
        self._taken = 0

    @property
    def on_their_way(self) -> int:
        """How many files are announced and not committed."""
        return len(self._files)

    def follow(self) -> None:
        """Page in ahead of what has arrived."""
        placed = self._placed()
        for part in [each.part for each in list(self._files.values())]:
            if part is not None:
                part.memory.follow(placed - part.placed_before)

    def open(self, body: dict[str, Any]) -> dict[str, Any]:
        """A file is announced: reserve its name, and open its first part."""
        bounds = self._bounds
        index, size = integer(body, "index", 0, _MAX_INDEX), integer(body, "size", 0, MAX_FILE)
        name = text(body, "name")
        if index in self._files:
            raise PeerError(f"file {index} was announced twice")
        if len(self._files) >= bounds.files:
            raise PeerError(
                f"{len(self._files)} files of this session are on their way, the most is {bounds.files}: commit one "
                "before another is announced"
            )
        if self._announced >= bounds.files_in_all:
            raise PeerError(f"a session sends at most {bounds.files_in_all} files: send the others in another one")
        if len(name) > bounds.name_bytes:
            raise PeerError(
                f"a file's name has {len(name)} characters, at most {bounds.name_bytes} are taken: rename it"
            )
        self._places.reserve(len(self._files))
        try:
            file = IncomingFile(self._directory, name, size)
        except MrcError:
            self._places.give_back()
            raise
        arriving = Arriving(file)
        try:
            opened = self._open_part(arriving)
            if arriving.opened < size and not self._in_parts:
                raise PeerError("this sender cannot send a file in parts: use the same mrc release at both ends")
        except MrcError:
            self._discard(arriving)
            raise
        self._files[index] = arriving
        self._announced += 1
        return opened

    def extend(self, body: dict[str, Any]) -> dict[str, Any]:
        """All of the part that is open was acknowledged: close it, and open the next."""
        arriving = self._files[self._index(body)]
        file = arriving.file
        if arriving.opened == file.size:
            raise PeerError(f"all {file.size} bytes of {quoted(file.name)} were opened already")
        self._check_received(arriving)
        arriving.close_part()
        return self._open_part(arriving)

    def sum(self, body: dict[str, Any]) -> dict[str, Any]:
        """All was acknowledged: close the region, so that what is summed is what gets the name."""
        return {"sha256": self._summed(self._files[self._index(body)])}

    def commit(self, body: dict[str, Any]) -> FileReport:
        """Name the file if its sum is the sender's; otherwise what arrived is discarded. Sums it if that is to do."""
        index, expected = self._index(body), text(body, "sha256")
        ours = self._summed(self._files[index])
        arriving = self._files.pop(index)
        file, match = arriving.file, ours == expected
        try:
            if match:
                file.commit()
                self._taken += file.size  # stays taken when the file is let go of
        finally:
            self._discard(arriving)
        return FileReport(file.name, file.size, ours, match)

    def close(self) -> None:
        """Safe to call twice."""
        while self._files:
            self._discard(self._files.popitem()[1])

    def _index(self, body: dict[str, Any]) -> int:
        index = integer(body, "index", 0, _MAX_INDEX)
        if index not in self._files:
            raise PeerError(f"file {index} was never announced")
        return index

    def _open_part(self, arriving: Arriving) -> dict[str, Any]:
        """Describe the next part of a file to its sender: address, R_Key, length; all 0 for an empty file."""
        file, offset = arriving.file, arriving.opened
        if offset == file.size:
            return {"va": 0, "rkey": 0, "length": 0}
        length = self._bounds.part(file.size - offset, self._awaited(), self._directory.free_bytes())
        memory = file.part(offset, length)
        try:
            region = self._pd.mr(memory.map, iova=offset)
        except MrcError:
            memory.close()
            raise
        arriving.part = Part(memory, region, self._placed())
        arriving.opened += length
        self._taken += length
        return {"va": region.addr, "rkey": region.rkey, "length": length}

    def _awaited(self) -> int:
        """Bytes of disk that were taken and have not been filled."""
        return max(0, self._taken - self._placed())

    def _check_received(self, arriving: Arriving) -> None:
        """Raises PeerError when the part that is open, or those before it, cannot be whole."""
        parts = (each.part for each in self._files.values() if each is not arriving)
        missing = self._awaited() - sum(part.memory.length for part in parts if part is not None)
        if missing > 0:
            raise PeerError(f"{missing} bytes of {quoted(arriving.file.name)} have not arrived: send them first")

    def _summed(self, arriving: Arriving) -> str:
        file = arriving.file
        if arriving.sha256 is None:
            if arriving.opened < file.size:
                raise PeerError(
                    f"{file.size - arriving.opened} bytes of {quoted(file.name)} were never opened: extend it"
                )
            self._check_received(arriving)
            arriving.close_part()
            arriving.sha256 = file.sha256()
        return arriving.sha256

    def _discard(self, arriving: Arriving) -> None:
        """Let go of a file and of what it took. One that is committed keeps its name and its disk."""
        arriving.close_part()
        arriving.file.discard()
        self._taken -= arriving.opened
        self._places.give_back()
