# SPDX-License-Identifier: BSD-2-Clause
"""Parts of a file written over a session's QPs, and summed on the way."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence

from mrc.errors import PeerError
from mrc.net.driver import Driver
from mrc.net.transfer.background import Background
from mrc.net.transfer.outgoing import OutgoingFile
from mrc.net.transfer.sums import CHUNK, FileSum
from mrc.net.transfer.terms import POSTED_PER_QP
from mrc.net.transfer.window import Part, Parts
from mrc.verbs import CQ, MR, QP, SendWR, WCStatus


class Writing:
    """Writes in messages of `message_size` bytes over `qps`, round robin.

    `look` is called between turns, and at least each `poll_s` seconds; it ends the writing by raising. `acked` hears of
    bytes that were acknowledged. `took_ns` is how long it took in all.
    """

    def __init__(
        self,
        driver: Driver,
        cq: CQ,
        message_size: int,
        summing: Background,
        poll_s: float,
        look: Callable[[], None],
        acked: Callable[[int], None],
    ) -> None:
        self.qps: Sequence[QP] = ()
        self.took_ns = 0
        self._driver = driver
        self._cq = cq
        self._message_size = message_size
        self._summing = summing
        self._poll_s = poll_s
        self._look = look
        self._acked = acked

    def write(
        self, source: MR, parts: Parts, file: OutgoingFile | None = None, file_sum: FileSum | None = None
    ) -> None:
        """Write `parts` from `source`. Return when all are acknowledged; raise PeerError when a QP fails.

        `file`: what they are of, to be watched meanwhile; each part is added to `file_sum` as it is written.
        """
        cq, qps, step = self._cq, self.qps, self._message_size
        # The part that is being posted, how much of it is, and those that are not acknowledged whole.
        part: Part | None = None
        at = posted = finished = 0
        on_their_way: deque[Part] = deque()
        of_write: dict[int, Part] = {}

        def post() -> None:
            nonlocal part, at, posted
            while posted - finished < POSTED_PER_QP * len(qps):
                if part is None:
                    part, at = parts.next(), 0
                    if part is None:
                        return
                    on_their_way.append(part)
                    if file is not None and file_sum is not None:
                        self._sum_part(file, file_sum, part)
                length = min(step, part.target.length - at)
                piece = source.sge(part.begin + at, length)
                request = SendWR(posted, sge=piece, remote_addr=part.target.addr + at, rkey=part.target.rkey)
                qps[posted % len(qps)].post_send(request)
                of_write[posted] = part
                posted, at = posted + 1, at + length
                if at == part.target.length:
                    part = None

        def take(completed: int, count: int) -> None:
            nonlocal finished
            finished += 1
            of_write.pop(completed).acked += count
            while on_their_way and on_their_way[0].acked == on_their_way[0].target.length:
                on_their_way.popleft()
                parts.finished()

        def done() -> bool:
            self._look()
            if file is not None:
                file.check()
            completions = cq.poll(cq.cqe)
            for completion in completions:
                if completion.status != WCStatus.SUCCESS:
                    self._raise_failure(completion.status)
                take(completion.wr_id, completion.byte_len)
            post()
            if completions:
                if file is not None and on_their_way:
                    file.follow(on_their_way[0].begin + on_their_way[0].acked)
                self._acked(sum(completion.byte_len for completion in completions))
            return finished == posted and part is None and parts.exhausted

        started = time.monotonic_ns()
        post()
        self._driver.run(done, self._poll_s)
        self.took_ns += time.monotonic_ns() - started

    def _sum_part(self, file: OutgoingFile, file_sum: FileSum, part: Part) -> None:
        """Sum a part beside its writes: what is read for one is at hand for the other."""
        content, length = file.map, part.target.length
        if content is None or length <= CHUNK:
            return

        def work() -> None:
            with memoryview(content) as whole, whole[part.begin : part.begin + length] as view:
                file_sum.add(part.begin, view, file.size)

        self._summing.submit(work)

    def _raise_failure(self, status: WCStatus) -> None:
        failed = next((qp for qp in self.qps if qp.error), self.qps[0])
        raise PeerError(f"the transfer failed: {failed.explain(status)}")
