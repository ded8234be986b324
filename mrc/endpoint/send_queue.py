"""Work in post order: the writes not wholly sent, those not wholly acknowledged, and the numbers they go under."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from mrc.endpoint.config import QpConfig
from mrc.endpoint.message import Message
from mrc.endpoint.work import WriteRequest
from mrc.errors import CallerError


class SendQueue:
    """`messages` are the unfinished ones by MSN, `unsent` those of them with packets that have never left.

    At most `max_wimm` writes with immediate are on their way at once (behaviour.md, Write-with-immediate).
    """

    __slots__ = (
        "_max_wimm",
        "_path_mtu",
        "immediates_out",
        "messages",
        "next_msn",
        "next_rqmsn",
        "unfinished",
        "unsent",
    )

    def __init__(self, config: QpConfig) -> None:
        self._max_wimm = config.max_wimm
        self._path_mtu = config.path_mtu
        self.next_msn = 0
        self.next_rqmsn = 0
        self.immediates_out = 0  # writes with immediate begun and not acknowledged
        self.unsent: deque[Message] = deque()
        self.unfinished: deque[Message] = deque()
        self.messages: dict[int, Message] = {}

    def post(self, request: WriteRequest) -> None:
        """Raises CallerError for an immediate the peer never grants."""
        rqmsn = 0
        if request.immediate is not None:
            if not self._max_wimm:
                raise CallerError("a write with immediate needs max_wimm of at least 1")
            rqmsn = self.next_rqmsn
            self.next_rqmsn += 1
        message = Message(request, self.next_msn, self._path_mtu, rqmsn)
        self.next_msn += 1
        self.messages[message.msn] = message
        self.unsent.append(message)
        self.unfinished.append(message)

    def has_unsent(self) -> bool:
        """Whether there is anything that has never left."""
        return len(self.unsent) > 0

    def one_packet_waits(self) -> bool:
        """Whether a single packet is all that has never left, as far as its message tells."""
        unsent = self.unsent
        return len(unsent) == 1 and unsent[0].packets - unsent[0].sent_packets == 1

    def next(self) -> Message | None:
        """The message whose packet is the next to leave, if there is one and the peer's grant of immediates lets it."""
        if not self.unsent:
            return None
        message = self.unsent[0]
        if message.immediate >= 0 and message.sent_packets == 0 and self.immediates_out >= self._max_wimm:
            return None
        return message

    def begin(self, message: Message, psn: int) -> None:
        """The next packet of `message`, which `next` gave, leaves under this PSN."""
        if message.immediate >= 0 and message.sent_packets == 0:
            self.immediates_out += 1
        message.took(psn)
        if message.sent_packets == message.packets:
            self.unsent.popleft()

    def finished(self, una: int) -> Iterator[Message]:
        """Take out, oldest first, the messages of which every PSN is below `una`."""
        while self.unfinished and 0 <= self.unfinished[0].last_psn < una:
            message = self.unfinished.popleft()
            del self.messages[message.msn]
            if message.immediate >= 0:
                self.immediates_out -= 1
            yield message

    def holding(self, psn: int | None) -> Message | None:
        """The message one of whose packets went out as `psn`, or else the oldest, if there is any."""
        of_psn = next((each for each in self.unfinished if psn is not None and each.sent(psn)), None)
        return of_psn or (self.unfinished[0] if self.unfinished else None)

    def clear(self) -> None:
        self.unfinished.clear()
        self.unsent.clear()
        self.messages.clear()
