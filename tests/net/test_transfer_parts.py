# SPDX-License-Identifier: BSD-2-Clause
"""Parts are opened ahead of the writes, so many at a time, in order, whatever the receiver grants."""

from __future__ import annotations

import random
import threading
from contextlib import closing
from typing import Any

import pytest

from mrc.errors import PeerError, SystemRefused
from mrc.net.transfer import window
from mrc.net.transfer.terms import PART_BYTES, PARTS_AT_ONCE, PARTS_OPEN
from mrc.net.transfer.window import Part, Window

MIB = 1 << 20


class Receiver:
    """Grants parts up to `most` bytes, and nothing while `room` parts are open; `several` as they are asked for."""

    def __init__(self, most: int = PART_BYTES, room: int = 99, *, several: bool = False) -> None:
        self.most, self.room, self.several = most, room, several
        self.asked: list[dict[str, Any]] = []
        self.granted = self.open_at_most = 0

    def __call__(self, body: dict[str, Any]) -> dict[str, Any]:
        self.asked.append(body)
        parts: list[dict[str, Any]] = []
        at, left = (body["offset"], body["length"]) if body.get("parts") != 0 else (0, 0)
        while left and self.granted - body["done"] < self.room and len(parts) < body.get("parts", 1):
            parts.append({"va": at, "rkey": 1, "length": min(self.most, left)})
            at, left = at + parts[-1]["length"], left - parts[-1]["length"]
            self.granted += 1
            self.open_at_most = max(self.open_at_most, self.granted - body["done"])
            if not self.several:
                break
        first = parts[0] if parts else {"va": 0, "rkey": 0, "length": 0}
        return {**first, "more": parts[1:]} if self.several else first


def written(stretches: list[tuple[int, int]], receiver: Receiver, *, first: bool = False) -> list[tuple[int, int]]:
    """What a loop writes that finishes each part before it asks for the next."""
    woken = threading.Event()
    opened = receiver({"offset": stretches[0][0], "length": min(stretches[0][1], PART_BYTES), "done": 0, "parts": 1})
    if not first:
        receiver.granted, receiver.asked = 0, []
    parts: list[Part] = []
    with closing(Window(stretches, receiver, woken.set, opened if first else None)) as opening:
        while not opening.exhausted:
            woken.clear()
            part = opening.next()
            if part is None:
                assert woken.wait(10)
                continue
            assert part.target.addr == part.begin
            parts.append(part)
            opening.finished()
        opening.settle()
    return [(part.begin, part.target.length) for part in parts]


@pytest.mark.parametrize("first", [False, True], ids=["asked for", "opened with the file"])
@pytest.mark.parametrize("most", [MIB, 3 * MIB, PART_BYTES])
@pytest.mark.parametrize("room", [1, 2, 99])
@pytest.mark.parametrize("several", [False, True], ids=["one by one", "several at once"])
def test_every_byte_once_and_in_order(first: bool, most: int, room: int, several: bool) -> None:
    rng = random.Random(most + room)
    at, stretches = 0, []
    for _ in range(6):
        at += 65_536 * rng.randrange(1, 9)
        length = rng.randrange(1, 3 * PART_BYTES)
        stretches.append((at, length))
        at += -(-length // 65_536) * 65_536
    receiver = Receiver(most, room, several=several)
    found = written(stretches, receiver, first=first)
    joined: list[tuple[int, int]] = []
    for begin, length in found:
        assert length <= most
        if joined and sum(joined[-1]) == begin:
            joined[-1] = (joined[-1][0], joined[-1][1] + length)
        else:
            joined.append((begin, length))
    assert joined == stretches
    assert receiver.open_at_most <= min(room, PARTS_OPEN)


def test_no_more_parts_are_open_than_agreed() -> None:
    receiver, enough = Receiver(), threading.Event()
    with closing(Window([(0, 9 * PART_BYTES)], receiver, enough.set, None)) as opening:
        held: list[Part] = []
        while len(held) < PARTS_OPEN:
            part = opening.next()
            if part is None:
                enough.wait(0.01)
                continue
            held.append(part)
        assert opening.next() is None
        assert [each.begin for each in held] == [n * PART_BYTES for n in range(PARTS_OPEN)]
        assert not opening.exhausted
        opening.finished()
        while (part := opening.next()) is None:
            enough.wait(0.01)
        assert part.begin == PARTS_OPEN * PART_BYTES
        assert receiver.asked[-1]["done"] == 1


@pytest.mark.parametrize("threads", [True, False], ids=["in a thread", "without one"])
def test_what_the_receiver_refuses_is_raised_to_the_loop(threads: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(body: dict[str, Any]) -> dict[str, Any]:
        raise PeerError("no room")

    def no_thread(*_: object, **__: object) -> None:
        raise SystemRefused(11, "no further thread")

    if not threads:
        monkeypatch.setattr(window, "start_thread", no_thread)
    woken = threading.Event()
    with closing(Window([(0, 100)], refuse, woken.set, None)) as opening:
        if threads:
            assert woken.wait(10)
        with pytest.raises(PeerError, match="no room"):
            opening.next()


def test_without_a_thread_parts_are_opened_one_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_thread(*_: object, **__: object) -> None:
        raise SystemRefused(11, "no further thread")

    monkeypatch.setattr(window, "start_thread", no_thread)
    receiver = Receiver()
    assert written([(0, 3 * PART_BYTES + 1)], receiver) == [
        *((n * PART_BYTES, PART_BYTES) for n in range(3)),
        (3 * PART_BYTES, 1),
    ]
    assert receiver.open_at_most == 1


@pytest.mark.parametrize("length", [-1, PART_BYTES + 1, "8"])
def test_more_than_was_asked_for_is_refused(length: object) -> None:
    with pytest.raises(PeerError):
        Window([(0, PART_BYTES)], Receiver(), lambda: None, {"va": 0, "rkey": 1, "length": length})


def test_several_parts_are_opened_by_one_request() -> None:
    receiver = Receiver(several=True)
    count = 12
    assert written([(0, count * PART_BYTES)], receiver) == [(n * PART_BYTES, PART_BYTES) for n in range(count)]
    opening = [each for each in receiver.asked if each["parts"]]
    assert len(opening) == count // PARTS_AT_ONCE
    assert {each["length"] for each in opening} == {PARTS_AT_ONCE * PART_BYTES}


def test_what_is_done_is_said_while_the_last_parts_are_on_their_way() -> None:
    told = threading.Event()

    class Listening(Receiver):
        def __call__(self, body: dict[str, Any]) -> dict[str, Any]:
            answer = super().__call__(body)
            if body["parts"] == 0:
                told.set()
            return answer

    receiver, woken = Listening(several=True), threading.Event()
    with closing(Window([(0, 3 * PART_BYTES)], receiver, woken.set, None)) as opening:
        held = 0
        while held < 3:
            woken.clear()
            if opening.next() is None:
                assert woken.wait(10)
            else:
                held += 1
        assert opening.exhausted
        opening.finished()
        assert told.wait(10)
        assert receiver.asked[-1] == {"done": 1, "parts": 0}
        opening.finished()
        opening.finished()
        opening.settle()
    # Who commits says that all are done.
    assert all(each["done"] < 3 for each in receiver.asked)


def test_a_receiver_that_opens_one_part_a_request_is_not_told_what_it_does_not_know() -> None:
    receiver = Receiver()
    written([(0, 5 * PART_BYTES)], receiver)
    assert len(receiver.asked) == 5
    assert all(each["parts"] > 0 for each in receiver.asked)


@pytest.mark.parametrize("more", [[{"va": 0, "rkey": 1, "length": 1}], ["8"], [None]])
def test_more_parts_than_were_asked_for_are_refused(more: list[object]) -> None:
    opened = {"va": 0, "rkey": 1, "length": PART_BYTES, "more": more}
    with pytest.raises(PeerError):
        Window([(0, PART_BYTES), (2 * PART_BYTES, PART_BYTES)], Receiver(), lambda: None, opened)
