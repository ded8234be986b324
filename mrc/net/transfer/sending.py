# SPDX-License-Identifier: BSD-2-Clause
"""One file after another to a receiver: what it lacks is written over QPs, and the sums of both ends are compared."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from typing import Any

from mrc.errors import CallerError, PeerError
from mrc.net.exchange.client import ExchangeClient, SessionRefused
from mrc.net.negotiation import integer
from mrc.net.transfer.background import Background
from mrc.net.transfer.names import FilePath, shown
from mrc.net.transfer.outgoing import OutgoingFile
from mrc.net.transfer.report import FileReport
from mrc.net.transfer.sums import CHUNK, FileSum, Sums
from mrc.net.transfer.terms import BLOCK_BYTES, MOST_BLOCKS
from mrc.net.transfer.window import OnePart, Part, Window, opened_memory
from mrc.net.transfer.writing import Writing
from mrc.verbs import PD, AccessFlag

REQUEST_TIMEOUT_S = 15.0
SUM_TIMEOUT_S = 600.0


class FileSending:
    """Sends files in one session. `summing` sums beside it, `wake` ends the driver's sleep, and `advance` is called
    with the number of bytes that need not be written."""

    def __init__(
        self,
        exchange: ExchangeClient,
        pd: PD,
        writing: Writing,
        sums: Sums,
        summing: Background,
        wake: Callable[[], None],
        advance: Callable[[int], None],
    ) -> None:
        self._exchange = exchange
        self._pd = pd
        self._writing = writing
        self._sums = sums
        self._summing = summing
        self._wake = wake
        self._advance = advance

    def send(self, index: int, path: FilePath, file: OutgoingFile) -> FileReport:
        """Send a file, but for what is there already and for its holes."""
        stretches = file.stretches()
        data_bytes = sum(length for _, length in stretches)
        body = {"index": index, "path": list(path), "size": file.size, "data_bytes": data_bytes, **file.attributes}
        if stretches:
            body |= {"offset": stretches[0][0], "length": stretches[0][1], "parts": 1}
        opened = self._exchange.request("open", body, REQUEST_TIMEOUT_S)
        there = opened.get("there")
        file_sum = FileSum(self._sums, index, self._exchange.check)
        if there == "whole":
            ours = self._own_sum(file, file_sum)
            if self._exchange.request("compare", {"index": index, "sum": ours}, SUM_TIMEOUT_S).get("match") is True:
                self._advance(file.size)
                return FileReport(shown(path), file.size, self._commit(index, ours), file.size)
        elif there == "part":
            stretches = self._differing(index, file, file_sum, integer(opened, "bytes", 0, file.size + 1), stretches)
        sent = sum(length for _, length in stretches)
        self._advance(file.size - sent)
        if file.map is not None and stretches:
            source = self._pd.mr(file.map, AccessFlag(0))
            first = opened if there == "nothing" else None

            def extend(part: dict[str, Any]) -> dict[str, Any]:
                try:
                    # It waits for a receiver whose disk is slow.
                    return self._exchange.request("extend", {"index": index, **part}, SUM_TIMEOUT_S)
                except SessionRefused as refused:
                    # It had let this sender in.
                    raise PeerError(f"the receiver has ended: {refused}") from None

            with contextlib.closing(Window(stretches, extend, self._wake, first)) as window:
                self._writing.write(source, window, file, file_sum)
                window.settle()
            source.close()
        return FileReport(shown(path), file.size, self._compare_sums(index, file, file_sum), file.size - sent)

    def _differing(
        self, index: int, file: OutgoingFile, file_sum: FileSum, there: int, stretches: list[tuple[int, int]]
    ) -> list[tuple[int, int]]:
        """The stretches to send where the receiver has `there` bytes of a transfer that broke: blocks that differ, and
        what lies behind them."""
        differing: list[tuple[int, int]] = []
        blocks = there // BLOCK_BYTES
        for first in range(0, blocks, MOST_BLOCKS):
            count = min(MOST_BLOCKS, blocks - first)
            answer = self._exchange.request("blocks", {"index": index, "first": first, "count": count}, SUM_TIMEOUT_S)
            file.check()
            theirs, begins = answer.get("sums"), range(first * BLOCK_BYTES, (first + count) * BLOCK_BYTES, BLOCK_BYTES)
            if not isinstance(theirs, list) or len(theirs) != count:
                raise PeerError(f"the receiver sent no sums of {count} blocks: use the same mrc release at both ends")
            file.sum(file_sum, begins.start, begins.stop)
            differing += [
                (begin, BLOCK_BYTES)
                for begin, theirs_of in zip(begins, theirs, strict=True)
                if theirs_of != file_sum.of_block(begin, BLOCK_BYTES)
            ]
        compared = blocks * BLOCK_BYTES
        # What is there behind the last whole block may be anything: it is written over, holes too.
        if compared < there:
            differing.append((compared, min(BLOCK_BYTES, file.size - compared)))
            compared += differing[-1][1]
        for offset, length in stretches:
            begin = max(offset, compared)
            if begin < offset + length:
                differing.append((begin, offset + length - begin))
        return differing

    def send_stream(self, index: int, path: FilePath) -> FileReport:
        """Send what standard input gives until it ends."""
        # Not every sender pays for this module.
        from mrc.net.transfer.streams import InputStream

        def still_waiting() -> None:
            self._exchange.request("wait", {}, REQUEST_TIMEOUT_S)

        self._exchange.request("open", {"index": index, "path": list(path), "size": None}, REQUEST_TIMEOUT_S)
        file_sum = FileSum(self._sums, index)
        with contextlib.closing(InputStream(sys.stdin.fileno(), file_sum, still_waiting)) as stream:
            source = self._pd.mr(stream.map, AccessFlag(0))
            begin = parts = 0
            while held := stream.read():
                written = 0
                while written < held:
                    body = {"index": index, "offset": begin + written, "length": held - written, "done": parts}
                    # A receiver that hands on what it gets answers when that is taken.
                    target = opened_memory(self._exchange.request("extend", body, SUM_TIMEOUT_S), held - written)
                    self._writing.write(source, OnePart(Part(written, target)))
                    written += target.length
                    parts += 1
                begin += held
            source.close()
            return FileReport(shown(path), stream.size, self._commit(index, stream.sum()))

    @staticmethod
    def _own_sum(file: OutgoingFile, file_sum: FileSum) -> str:
        """Our sum, of which what is not known is read."""
        file.check()
        file.sum(file_sum)
        file.check_unchanged()
        return file_sum.text(file.size)

    def _commit(self, index: int, ours: str) -> bool:
        """Whether the sums of both ends agree. Only if they do the receiver names the file."""
        return self._exchange.request("commit", {"index": index, "sum": ours}, SUM_TIMEOUT_S).get("match") is True

    def _compare_sums(self, index: int, file: OutgoingFile, file_sum: FileSum) -> bool:
        """Sum what has not been summed on the way, and compare. Both ends read at the same time where it is much."""
        self._summing.join()
        if file_sum.missing(file.size) > CHUNK:

            def read_ahead() -> None:
                with contextlib.suppress(CallerError, PeerError):  # raised below, where it is read again
                    file.sum(file_sum)

            self._summing.submit(read_ahead)
            file.check()
            self._exchange.request("sum", {"index": index}, SUM_TIMEOUT_S)
            self._summing.join()
        return self._commit(index, self._own_sum(file, file_sum))
