# SPDX-License-Identifier: BSD-2-Clause
"""Keys, through a real terminal."""

from __future__ import annotations

import io
import os
import pty
import sys
import termios
from collections.abc import Iterator

import pytest
from rich.console import Console
from test_top_screen import transfer

from mrc.top.keys import Keys
from mrc.top.live import LiveView
from mrc.top.watching import Watch


@pytest.fixture
def master(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The other end of the terminal that standard input is."""
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "r") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        yield ours
    os.close(ours)


def test_every_key_typed_at_once_is_taken_in_order(master: int) -> None:
    with Keys() as keys:
        os.write(master, b"j\x1b[Bd\x1bOA\x1b[5~\x1b[6~\tq")
        found = [keys.wait(5) for _ in range(8)]
    assert found == ["j", "down", "d", "up", "page up", "page down", "tab", "q"]


def test_vi_keys_and_those_beside_the_arrows_move_the_cursor(master: int) -> None:
    typed = b"G\x15g\x06\x04\x02\x1b[F\x1b[H\x1bOF\x1b[1~jjk"
    pictures = [transfer(200)]
    view = LiveView(Watch(list))
    view._pictures = pictures
    places = []
    with Keys() as keys:
        os.write(master, typed)
        while (key := keys.wait(0.2)) is not None:
            assert not view.key(key)
            # Drawing keeps it among the EVs there are.
            Console(file=io.StringIO(), width=100, height=40).print(view.drawn(40))
            places.append(view._view.chosen)
    assert places == [199, 194, 0, 10, 15, 5, 199, 0, 199, 0, 1, 2, 1]


def test_escape_alone_is_a_key(master: int) -> None:
    with Keys() as keys:
        os.write(master, b"\x1b")
        assert keys.wait(5) == "escape"


def test_without_a_key_it_gives_none_after_its_time(master: int) -> None:
    with Keys() as keys:
        assert keys.wait(0.01) is None


def test_the_terminal_is_as_before(master: int) -> None:
    before = termios.tcgetattr(sys.stdin.fileno())
    with Keys():
        assert termios.tcgetattr(sys.stdin.fileno())[3] & termios.ICANON == 0
    assert termios.tcgetattr(sys.stdin.fileno()) == before


def test_without_a_terminal_there_are_no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    with open(os.devnull) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        with Keys() as keys:
            assert keys.wait(0.01) is None
