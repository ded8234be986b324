"""Keys, through a real terminal."""

from __future__ import annotations

import os
import pty
import sys
import termios
from collections.abc import Iterator

import pytest

from mrc.top.keys import Keys


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
