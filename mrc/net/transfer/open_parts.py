# SPDX-License-Identifier: BSD-2-Clause
"""Parts of files that are open to one sender's writes: opened, accepted when they have arrived, stored and summed."""

from __future__ import annotations

import mmap
import threading
from collections.abc import Callable
from typing import Any

from mrc.errors import MrcError, PeerError, SystemRefused
from mrc.net.negotiation import integer
from mrc.net.transfer.arriving import Arriving, Part
from mrc.net.transfer.background import Background
from mrc.net.transfer.bounds import SenderBounds
from mrc.net.transfer.buffers import IncomingPart
from mrc.net.transfer.directory import Directory
from mrc.net.transfer.incoming import IncomingFile
from mrc.net.transfer.names import shown
from mrc.net.transfer.streams import OutputStream, StreamedFile
from mrc.net.transfer.sums import CHUNK
from mrc.net.transfer.terms import BLOCK_BYTES, MAX_FILE, PART_BYTES, PARTS_OPEN, PARTS_STORED
from mrc.untrusted import quoted
from mrc.verbs import PD

NO_PART = {"va": 0, "rkey": 0, "length": 0}


class OpenParts:
    """Those of one session. `placed` returns how many bytes the session's QPs have placed.

    A part is stored and summed when it is accepted, beside the session's requests; who accepts more than the disk takes
    waits. Disk that was taken and not filled counts against the session's bounds until it is, so that a sender cannot
    take more of it than it sends data for.
    """

    def __init__(
        self, pd: PD, target: Directory | OutputStream, bounds: SenderBounds, placed: Callable[[], int]
    ) -> None:
        self._pd = pd
        self._target = target
        self._bounds = bounds
        self._placed = placed
        self._storing = Background("mrc store")
        self._storing_room = threading.Semaphore(PARTS_STORED)
        # Bytes that were ever opened to writes: those that the session's QPs have not placed have not arrived.
        self._taken = 0
        # Bytes that are open to writes now.
        self._open = 0

    def opened(self, length: int) -> None:
        """Memory was opened to writes; a pack's is not opened here."""
        self._taken += length
        self._open += length

    def closed(self, length: int) -> None:
        """Memory that was `opened` is closed to writes."""
        self._open -= length

    def room(self, wanted: int) -> int:
        """How many bytes of so many may be opened now (`SenderBounds.part`). Raises PeerError."""
        return self._bounds.part(wanted, self._awaited, self._target.free_bytes())

    @property
    def missing(self) -> int:
        """At least so many bytes of what is closed to writes have not arrived; 0 or less where all may have."""
        return self._awaited - self._open

    @property
    def _awaited(self) -> int:
        """Bytes that were opened to writes and have not arrived."""
        return max(0, self._taken - self._placed())

    def open(self, arriving: Arriving, body: dict[str, Any]) -> dict[str, Any]:
        """Describe the next parts of a file to its sender. One it asked for alone has no `more`: it knows of none."""
        arriving.check_stored()
        parts = integer(body, "parts", 0, PARTS_OPEN + 1) if "parts" in body else None
        if parts == 0:
            return {**NO_PART, "more": []}
        offset, wanted = integer(body, "offset", 0, MAX_FILE), integer(body, "length", 1, MAX_FILE)
        first = self._open_part(arriving, offset, wanted)
        if parts is None:
            return first
        more: list[dict[str, int]] = []
        opened = first["length"]
        while first["length"] and len(more) + 1 < parts and opened < wanted:
            try:
                part = self._open_part(arriving, offset + opened, wanted - opened)
            except MrcError:
                break  # the first one stands, and who asks for this one again hears why
            if not part["length"]:
                break
            more.append(part)
            opened += part["length"]
        return {**first, "more": more}

    def _open_part(self, arriving: Arriving, offset: int, wanted: int) -> dict[str, int]:
        """Describe a part of a file to its sender: address, R_Key, and how much of the stretch it asked for."""
        file = arriving.incoming
        if offset % mmap.ALLOCATIONGRANULARITY:
            raise PeerError(f"a part begins at byte {offset}, a multiple of {mmap.ALLOCATIONGRANULARITY} is expected")
        if arriving.size is not None and offset + wanted > arriving.size:
            raise PeerError(f"{quoted(file.name)} was announced with {arriving.size} bytes: more is asked for")
        if len(arriving.parts) >= PARTS_OPEN:
            return NO_PART
        try:
            length = self.room(min(wanted, PART_BYTES))
        except PeerError:
            if arriving.parts:
                return NO_PART
            raise
        memory = file.part(offset, length)
        try:
            region = self._pd.mr(memory.map, iova=offset)
        except MrcError:
            memory.close()
            raise
        arriving.summed = None
        arriving.parts.append(Part(offset, memory, region))
        arriving.opened += length
        self.opened(length)
        return {"va": region.addr, "rkey": region.rkey, "length": length}

    def accept(self, arriving: Arriving, done: int) -> None:
        """Close the oldest parts, up to `done` in all. Raises PeerError when they, or those before, cannot be whole."""
        closing = [arriving.parts[at] for at in range(done - arriving.accepted)]
        missing = self.missing + sum(part.memory.length for part in closing)
        if missing > 0:
            raise PeerError(f"{missing} bytes of {quoted(shown(arriving.path))} have not arrived: send them first")
        for part in closing:
            self._close_oldest(arriving)
            arriving.accepted += 1
            if isinstance(arriving.file, StreamedFile):
                try:
                    part.memory.store()
                finally:
                    part.memory.close()
            else:
                self._store(arriving, part.memory)

    def _store(self, arriving: Arriving, memory: IncomingPart) -> None:
        """Put a part that nobody writes to any more into its file, sum it, and let go of its memory."""

        def work() -> None:
            try:
                memory.store(arriving.sum)
            except SystemRefused as error:
                arriving.note_not_stored(error, memory.length)
            finally:
                memory.close()
                self._storing_room.release()

        self._storing_room.acquire()
        if memory.length <= CHUNK and arriving.accepted == 1:
            work()  # not worth a thread, and nothing of this file has to be stored before it
        else:
            self._storing.submit(work)

    def sum(self, arriving: Arriving) -> str:
        """The file's sum, once all of it is accepted and stored. Raises PeerError, SystemRefused."""
        if arriving.summed is None:
            file = arriving.incoming
            self.accept(arriving, arriving.accepted + len(arriving.parts))
            self._storing.join()
            arriving.check_stored()
            arriving.summed = file.sum(arriving.sum)
        return arriving.summed

    def keep(self, arriving: Arriving) -> int:
        """Write what has arrived of the parts that are open, where the next attempt can go on with it. Returns how many
        bytes of the file it finds, 0 for none. What the disk did not take is not among them. What the session waits for
        is taken for bytes of this file: with several on their way fewer are said to be kept."""
        file, target = arriving.file, self._target
        if not isinstance(file, IncomingFile) or not isinstance(target, Directory) or not target.keep_parts:
            return 0
        if not file.can_be_kept:
            return 0
        on_its_way = sum(part.memory.length for part in arriving.parts)
        arrived = arriving.opened - min(on_its_way, self._awaited)
        if file.size < BLOCK_BYTES or file.there + arrived < BLOCK_BYTES:
            return 0
        self._storing.join()
        for part in arriving.parts:
            part.region.close()
            try:
                part.memory.store()
            except SystemRefused as error:
                arriving.note_not_stored(error, part.memory.length)
        there = min(file.size, file.there + arrived - arriving.bytes_not_stored)
        return there if there >= BLOCK_BYTES else 0

    def discard(self, arriving: Arriving) -> None:
        """Let go of the parts that are open, once those that were accepted are stored."""
        self._storing.join()
        while arriving.parts:
            self._close_oldest(arriving).memory.close()

    def close(self) -> None:
        """Safe to call twice."""
        self._storing.close()

    def _close_oldest(self, arriving: Arriving) -> Part:
        part = arriving.parts.popleft()
        self.closed(part.memory.length)
        part.region.close()
        return part
