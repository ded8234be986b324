# SPDX-License-Identifier: BSD-2-Clause
"""A pack of small files at the receiver: looked up, written to memory by the sender, put on disk and named."""

from __future__ import annotations

import contextlib
import mmap
import os
import stat
from collections.abc import Callable, Sequence
from typing import Any

from mrc.errors import CallerError, PeerError
from mrc.net.transfer.directory import Directory
from mrc.net.transfer.incoming import ExistingFile, put_whole
from mrc.net.transfer.names import FilePath, shown
from mrc.net.transfer.packs import PackedFile, places
from mrc.net.transfer.report import FileReport
from mrc.net.transfer.sums import FileSum, Sums
from mrc.verbs import MR, PD


class PackArrival:
    """`files` as they were announced. `there` are the places in it of those that stand under their name with the same
    sum, `refused` of those that may not be had, with the reason; `wanted` are the others.

    `place` says where a file is put on disk. `check` is called before each file is looked up or put there, and raises
    PeerError to end that. Raises PeerError, SystemRefused.
    """

    def __init__(
        self,
        target: Directory,
        files: Sequence[PackedFile],
        place: Callable[[FilePath], FilePath],
        sums: Sums,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self.files = files
        self.there: list[int] = []
        self.refused: list[tuple[int, str]] = []
        self._target = target
        self._place = place
        self._sums = sums
        self._check = check
        self._map: mmap.mmap | None = None
        self._region: MR | None = None
        with contextlib.closing(_Parents(target)) as parents:
            for number, file in enumerate(files):
                check()
                self._look_up(number, file, parents)
        passed_over = {*self.there, *(number for number, _ in self.refused)}
        self._wanted = [number for number in range(len(files)) if number not in passed_over]

    @property
    def wanted(self) -> list[PackedFile]:
        """The files that the sender is to write, one behind the other."""
        return [self.files[number] for number in self._wanted]

    @property
    def length(self) -> int:
        """Bytes of the files that are wanted."""
        return sum(file.size for file in self.wanted)

    def _look_up(self, number: int, file: PackedFile, parents: _Parents) -> None:
        place = self._place(file.path)
        try:
            found = os.stat(place[-1], dir_fd=parents.of(place), follow_symlinks=False)
        except FileNotFoundError:
            return
        except OSError as error:
            raise self._target.refused(error, file.path) from None
        if stat.S_ISREG(found.st_mode) and found.st_size == file.size:
            existing = ExistingFile(self._target, file.path, file.size, file.attributes, place)
            with contextlib.closing(existing):
                if existing.is_same(file.sum, FileSum(self._sums, file.index)):
                    self.there.append(number)
                    return
        if not self._target.overwrite:
            self.refused.append((number, _exists(file.path)))

    def open(self, pd: PD) -> dict[str, Any]:
        """Open memory for all that is wanted to the sender's writes. Raises MrcError."""
        self._map = mmap.mmap(-1, self.length)
        self._region = pd.mr(self._map, iova=0)
        return {"va": self._region.addr, "rkey": self._region.rkey, "length": self.length}

    def commit(self) -> tuple[list[FileReport], list[tuple[int, str]]]:
        """Put what has arrived on disk: a report of each file, those that were there too, and those that are refused.

        When `check` raises, it ends with those that are on disk by then.
        Raises SystemRefused when the disk is full.
        """
        if self._region is not None:
            # What is summed is what gets the name.
            self._region.close()
        there = [self.files[number] for number in self.there]
        reports = [FileReport(shown(file.path), file.size, True, file.size) for file in there]
        refused: list[tuple[int, str]] = []
        if self._map is not None:
            with memoryview(self._map) as memory, contextlib.closing(_Parents(self._target)) as parents:
                for number, (file, begin, end) in zip(self._wanted, places(self.wanted), strict=True):
                    try:
                        self._check()
                    except PeerError:
                        break
                    with memory[begin:end] as content:
                        try:
                            reports.append(self._put(file, content, parents))
                        except CallerError as error:
                            refused.append((number, str(error)))
        return reports, refused

    def _put(self, file: PackedFile, content: memoryview, parents: _Parents) -> FileReport:
        agrees = self._sums.of_content(file.index, content) == file.sum
        if agrees:
            place = self._place(file.path)
            self._target.reserve(place)
            try:
                put_whole(self._target, parents.of(place), place[-1], content, file.attributes)
            except FileExistsError:
                raise CallerError(_exists(file.path)) from None
            except OSError as error:
                raise self._target.refused(error, file.path, file.size) from None
            finally:
                self._target.release(place)
        return FileReport(shown(file.path), file.size, agrees)

    def close(self) -> None:
        """Let go of the memory. Safe to call twice."""
        if self._region is not None:
            self._region.close()
            self._region = None
        if self._map is not None:
            with contextlib.suppress(BufferError):
                self._map.close()
            self._map = None


class _Parents:
    """The directory that the last file of a pack is in: the next one is in it too, as a rule."""

    def __init__(self, target: Directory) -> None:
        self._target = target
        self._path: FilePath | None = None
        self._held = contextlib.ExitStack()
        self._descriptor = -1

    def of(self, place: FilePath) -> int:
        """A descriptor of the directory that `place` is in, until the next call. Raises OSError."""
        if place[:-1] != self._path:
            self.close()
            self._descriptor = self._held.enter_context(self._target.opened(place[:-1]))
            self._path = place[:-1]
        return self._descriptor

    def close(self) -> None:
        self._path = None
        self._held.close()


def _exists(path: FilePath) -> str:
    return f"{shown(path)} exists at the receiver with other content: start it with --overwrite to replace it"
