# SPDX-License-Identifier: BSD-2-Clause
"""A file on its way to the receiver, and the parts of it that are open to writes."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from mrc.errors import PeerError, SystemRefused
from mrc.net.transfer.buffers import IncomingPart
from mrc.net.transfer.incoming import ExistingFile, IncomingFile
from mrc.net.transfer.names import FilePath, shown
from mrc.net.transfer.streams import StreamedFile
from mrc.net.transfer.sums import FileSum
from mrc.net.transfer.terms import Attributes
from mrc.verbs import MR


@dataclass(slots=True)
class Part:
    """A part of a file that is open to writes, and its region. Addresses are offsets in the file."""

    offset: int
    memory: IncomingPart
    region: MR


@dataclass(slots=True)
class Arriving:
    """A file on its way: the parts of it that are open, in order, how many were accepted, how many bytes were ever
    opened, and its sum once all is closed.

    `existing` is what stands under its name already, until it turns out to be another file. `file` None until then.
    """

    path: FilePath
    size: int | None
    attributes: Attributes
    sum: FileSum
    file: IncomingFile | StreamedFile | None = None
    existing: ExistingFile | None = None
    data_bytes: int | None = None
    parts: deque[Part] = field(default_factory=deque)
    accepted: int = 0
    opened: int = 0
    summed: str | None = None
    # Why parts of it could not be written to its file, and how many bytes these have.
    not_stored: SystemRefused | None = None
    bytes_not_stored: int = 0

    @property
    def incoming(self) -> IncomingFile | StreamedFile:
        """The file, to write to. Raises PeerError while it is not decided that there has to be one."""
        if self.file is None:
            raise PeerError(f"{shown(self.path)} is there: compare it first")
        return self.file

    def note_not_stored(self, error: SystemRefused, length: int) -> None:
        """A part of `length` bytes could not be written."""
        self.not_stored = self.not_stored or error
        self.bytes_not_stored += length

    def check_stored(self) -> None:
        """Raises SystemRefused where what has arrived could not be written."""
        if self.not_stored is not None:
            raise self.not_stored
