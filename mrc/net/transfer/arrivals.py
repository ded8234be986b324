# SPDX-License-Identifier: BSD-2-Clause
"""The files of one sender that are on their way: announced, compared with what is there, and named when whole."""

from __future__ import annotations

import errno
import stat
from collections.abc import Callable
from typing import Any

from mrc.errors import CallerError, MrcError, PeerError
from mrc.net.negotiation import integer, text
from mrc.net.transfer.arriving import Arriving
from mrc.net.transfer.bounds import FilePlaces, SenderBounds
from mrc.net.transfer.directory import Directory, IncomingTree
from mrc.net.transfer.incoming import ExistingFile, IncomingFile
from mrc.net.transfer.names import FilePath, file_path, shown
from mrc.net.transfer.open_parts import NO_PART, OpenParts
from mrc.net.transfer.pack_arrival import PackArrival
from mrc.net.transfer.packs import announced, announced_attributes
from mrc.net.transfer.report import FileReport
from mrc.net.transfer.streams import ONE_FILE_ONLY, OutputStream, StreamedFile
from mrc.net.transfer.sums import FileSum, Sums
from mrc.net.transfer.terms import BLOCK_BYTES, MAX_FILE, MAX_INDEX, MOST_BLOCKS
from mrc.verbs import PD

_MAX_SPARSE = 1 << 44  # of a file with holes, which takes no disk and is summed all the same


class Arrivals:
    """The requests of one session about its files. One at a time; `on_their_way` may be asked from anywhere.

    A file is announced (`open`), parts of it are opened to writes and accepted, a few at a time (`extend`), and it is
    named when its sum is the sender's (`commit`). What is there already is compared by `compare` and `blocks` and not
    sent. `placed` returns how many bytes the session's QPs have placed. Every request raises PeerError for what the
    sender may not ask and after `give_up`, SystemRefused for a full disk. `close` lets go of what is not whole.
    """

    def __init__(
        self,
        pd: PD,
        target: Directory | OutputStream,
        bounds: SenderBounds,
        places: FilePlaces,
        placed: Callable[[], int],
    ) -> None:
        self._pd = pd
        self._target = target
        self._bounds = bounds
        self._places = places
        self._parts = OpenParts(pd, target, bounds, placed)
        # Its key goes to the sender.
        self.sums = Sums()
        self._files: dict[int, Arriving] = {}
        self._trees: dict[str, IncomingTree] = {}
        # The pack of small files that is on its way.
        self._pack: PackArrival | None = None
        self._announced = 0
        # Files that may not be had, and why: the rest of the session goes on.
        self.refused: list[tuple[str, str]] = []
        # What was kept of files that did not become whole, for people.
        self.kept: list[str] = []
        self._given_up = ""

    @property
    def on_their_way(self) -> int:
        """How many files are announced and not committed."""
        return len(self._files) + (0 if self._pack is None else len(self._pack.wanted))

    def give_up(self, why: str) -> None:
        """End the request under way soon: it raises PeerError with this text. From any thread."""
        self._given_up = why

    def go_on(self) -> None:
        """Raise PeerError after `give_up`."""
        if self._given_up:
            raise PeerError(self._given_up)

    def directory(self, body: dict[str, Any]) -> dict[str, Any]:
        """A directory is announced: make it, in the one it is in."""
        path, attributes = self._path(body), announced_attributes(body)
        if attributes.mode is None or attributes.mtime_ns is None:
            raise PeerError(f"the directory {shown(path)} was announced without its mode and time")
        if isinstance(self._target, OutputStream):
            raise PeerError(ONE_FILE_ONLY)
        self._check_count()
        tree = self._trees.get(path[0])
        if tree is None:
            if len(path) > 1:
                raise PeerError(f"the directory {path[0]} was not announced before {shown(path)}")
            tree = self._trees[path[0]] = IncomingTree(self._target, path[0])
        tree.add(path, attributes.mode, attributes.mtime_ns)
        self._announced += 1
        return {}

    def open(self, body: dict[str, Any]) -> dict[str, Any]:
        """A file is announced: reserve its name, say what is there of it, and open a first part where nothing is.

        The answer's `there` is "nothing" (and the part follows), "whole": a file of this name and size to `compare`, or
        "part": what a broken transfer left, `bytes` long, to be asked for by `blocks`.
        """
        bounds = self._bounds
        index, path, attributes = integer(body, "index", 0, MAX_INDEX), self._path(body), announced_attributes(body)
        size = None if body.get("size", 0) is None else integer(body, "size", 0, MAX_FILE)
        if index in self._files:
            raise PeerError(f"file {index} was announced twice")
        if len(self._files) >= bounds.files:
            raise PeerError(
                f"{len(self._files)} files of this session are on their way, the most is {bounds.files}: commit one "
                "before another is announced"
            )
        self._check_count()
        self._places.reserve(len(self._files))
        data_bytes = integer(body, "data_bytes", 0, MAX_FILE) if "data_bytes" in body else None
        if size is not None and data_bytes is not None and not 0 <= data_bytes <= size <= max(data_bytes, _MAX_SPARSE):
            raise PeerError(f"the sender announced {size} bytes, {data_bytes} of them data: that is no file")
        arriving = Arriving(path, size, attributes, FileSum(self.sums, index, self.go_on), data_bytes=data_bytes)
        try:
            there = self._begin(arriving)
            opened = self._parts.open(arriving, body) if there == "nothing" and body.get("length") else NO_PART
        except MrcError as error:
            self._discard(arriving)
            if isinstance(error, CallerError):
                self.refused.append((shown(path), str(error)))
            raise
        self._files[index] = arriving
        self._announced += 1
        return {"there": there, "bytes": arriving.file.there if arriving.file is not None else 0, **opened}

    def pack(self, body: dict[str, Any]) -> dict[str, Any]:
        """Small files are announced together: open memory for those that are not there already.

        The answer has the places in the list of those that are `there` with the same sum, and of those that are
        `refused`, each with the reason.
        """
        if isinstance(self._target, OutputStream):
            raise PeerError(ONE_FILE_ONLY)
        if self._pack is not None:
            raise PeerError("the pack before this one is not committed: commit it first")
        files = announced(body, self._bounds.name_bytes)
        self._check_count(len(files))
        pack = PackArrival(self._target, files, self._place, self.sums, self.go_on)
        self._places.reserve(len(self._files))
        try:
            length = pack.length
            if length and self._parts.room(length) < length:
                raise self._target.refused(OSError(errno.ENOSPC, ""), (), length)
            opened = pack.open(self._pd) if length else NO_PART
        except MrcError:
            pack.close()
            self._places.give_back()
            raise
        self._parts.opened(length)
        self._announced += len(files)
        self._pack = pack
        return {**opened, "there": pack.there, "refused": pack.refused}

    def commit_pack(self, body: dict[str, Any]) -> tuple[list[FileReport], list[tuple[int, str]]]:
        """Give the files of the pack their names: a report of each, and those that are refused, with the reason.

        After `give_up` the reports are of those that have theirs: ask `go_on`.
        """
        pack, self._pack = self._pack, None
        if pack is None:
            raise PeerError("no pack was announced")
        self._parts.closed(pack.length)
        try:
            missing = self._parts.missing
            if missing > 0:
                raise PeerError(
                    f"{missing} bytes of a pack of {len(pack.files)} files have not arrived: send them first"
                )
            reports, refused = pack.commit()
            self.refused += [(shown(pack.files[number].path), why) for number, why in (*pack.refused, *refused)]
            return reports, refused
        finally:
            pack.close()
            self._places.give_back()

    def compare(self, body: dict[str, Any]) -> dict[str, Any]:
        """Whether what stands under this name has the sender's sum. If not, and if it may be replaced, it is sent."""
        arriving = self._files[self._index(body)]
        existing, expected = arriving.existing, text(body, "sum")
        if existing is None:
            raise PeerError(f"{shown(arriving.path)} is not there to be compared")
        if existing.is_same(expected, arriving.sum):
            arriving.summed = expected
            return {"match": True}
        arriving.existing = None
        existing.close()
        if not self._target.overwrite:
            self._discard(self._files.pop(self._index(body)))
            why = f"{existing.name} exists at the receiver with other content: start it with --overwrite to replace it"
            self.refused.append((existing.name, why))
            raise CallerError(why)
        arriving.file = self._incoming(arriving)
        return {"match": False}

    def blocks(self, body: dict[str, Any]) -> dict[str, Any]:
        """The sums of blocks that a broken transfer left."""
        arriving = self._files[self._index(body)]
        first = integer(body, "first", 0, MAX_FILE // BLOCK_BYTES)
        return {"sums": arriving.incoming.block_sums(arriving.sum, first, integer(body, "count", 1, MOST_BLOCKS + 1))}

    def extend(self, body: dict[str, Any]) -> dict[str, Any]:
        """Open the next part. `done`: how many parts, all in all, are acknowledged; they are closed.

        `parts`: how many may be opened; 0: only to say what is done. A sender that gives it finds those behind the
        first in the answer's `more`. `length` is 0 where there is no room before another part is done.
        """
        arriving = self._files[self._index(body)]
        self._parts.accept(arriving, integer(body, "done", 0, arriving.accepted + len(arriving.parts) + 1))
        return self._parts.open(arriving, body)

    def sum(self, body: dict[str, Any]) -> dict[str, Any]:
        """All was acknowledged: close the regions, so that what is summed is what gets the name."""
        self._parts.sum(self._files[self._index(body)])
        return {}

    def commit(self, body: dict[str, Any]) -> FileReport:
        """Name the file if its sum is the sender's; otherwise what arrived is discarded. Sums it if that is to do."""
        index, expected = self._index(body), text(body, "sum")
        ours = self._parts.sum(self._files[index])
        arriving = self._files.pop(index)
        match = ours == expected
        size = arriving.size if arriving.file is None else arriving.file.size
        try:
            if match and arriving.file is not None:
                arriving.file.commit()
        finally:
            self._discard(arriving)
        return FileReport(shown(arriving.path), size or 0, match, max(0, (size or 0) - arriving.opened))

    def finish(self) -> None:
        """Name the directories. Raises PeerError while files are on their way, and when nothing was even announced."""
        if self.on_their_way:
            raise PeerError(f"the session cannot end: {self.on_their_way} of its files are not committed")
        if not self._announced and not self.refused:
            raise PeerError("the session cannot end: no file was sent in it")
        for tree in self._trees.values():
            tree.finish()

    def close(self) -> None:
        """Safe to call twice. What arrived of a large file stays for the next attempt."""
        while self._files:
            arriving = self._files.popitem()[1]
            there = self._parts.keep(arriving)
            if there:
                self.kept.append(f"about {there >> 20} MiB of {arriving.incoming.name}")
            self._discard(arriving, keep=there > 0)
        if self._pack is not None:
            self._pack.close()
            self._pack = None
            self._places.give_back()
        while self._trees:
            self._trees.popitem()[1].close()
        self._parts.close()

    def _path(self, body: dict[str, Any]) -> FilePath:
        return file_path(body.get("path"), self._bounds.name_bytes)

    def _check_count(self, more: int = 1) -> None:
        most = self._bounds.files_in_all
        if self._announced + more > most:
            raise PeerError(f"a session sends at most {most} files and directories: send the others in another one")

    def _index(self, body: dict[str, Any]) -> int:
        index = integer(body, "index", 0, MAX_INDEX)
        if index not in self._files:
            raise PeerError(f"file {index} was never announced")
        return index

    def _place(self, path: FilePath) -> FilePath:
        """Where a file is put. Raises PeerError for a directory that was not announced."""
        if len(path) == 1:
            return path
        if path[0] not in self._trees:
            raise PeerError(f"the directory of {shown(path)} was not announced before it")
        return self._trees[path[0]].place(path)

    def _begin(self, arriving: Arriving) -> str:
        """Look at what is there of a file: "nothing", "part" or "whole"."""
        target, size = self._target, arriving.size
        if isinstance(target, Directory) and size is not None:
            place = self._place(arriving.path)
            found = target.status(place)
            if found is not None and stat.S_ISREG(found.st_mode) and found.st_size == size:
                target.reserve(place)
                target.release(place)
                arriving.existing = ExistingFile(target, arriving.path, size, arriving.attributes, place)
                return "whole"
        arriving.file = self._incoming(arriving)
        return "part" if arriving.file.there >= BLOCK_BYTES else "nothing"

    def _incoming(self, arriving: Arriving) -> IncomingFile | StreamedFile:
        path, size, attributes = arriving.path, arriving.size, arriving.attributes
        if isinstance(self._target, OutputStream):
            return StreamedFile(self._target, path, size, arriving.sum)
        return IncomingFile(
            self._target, path, size, attributes, place=self._place(path), data_bytes=arriving.data_bytes
        )

    def _discard(self, arriving: Arriving, *, keep: bool = False) -> None:
        """Let go of a file and of what it took. One that is committed keeps its name and its disk."""
        self._parts.discard(arriving)
        if arriving.existing is not None:
            arriving.existing.close()
        if arriving.file is not None:
            arriving.file.discard(keep=keep)
        self._places.give_back()
