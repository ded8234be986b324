# SPDX-License-Identifier: BSD-2-Clause
"""An agent's line to the collector: what it may say of itself, and when."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from mrc.errors import PeerError
from mrc.map.agent import CollectorLine
from mrc.map.wording import CollectorRefused, Welcome, refusal_line, welcome_line

WELCOME = welcome_line(Welcome("mrc", 4))


@pytest.fixture
def ends(tmp_path: Path) -> Iterator[tuple[CollectorLine, socket.socket]]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(tmp_path / "collector"))
        listener.listen()
        # The welcome is read when the line is made: it has to be there by then.
        listener.settimeout(10)
        taken: list[socket.socket] = []

        def accept() -> None:
            taken.append(listener.accept()[0])
            taken[0].sendall(WELCOME)

        thread = threading.Thread(target=accept)
        thread.start()
        line = CollectorLine(tmp_path / "collector")
        thread.join()
        yield line, taken[0]
        line.close()
        taken[0].close()


def test_a_welcome_is_no_yes_to_what_it_says_of_itself(ends: tuple[CollectorLine, socket.socket]) -> None:
    """Another agent of its host may be there: only the second welcome tells that it is taken."""
    line, collector = ends
    line.heard()
    assert not line.accepted
    collector.sendall(WELCOME[:5])
    line.heard()
    assert not line.accepted
    collector.sendall(WELCOME[5:])
    line.heard()
    assert line.accepted


def test_a_refusal_is_raised(ends: tuple[CollectorLine, socket.socket]) -> None:
    line, collector = ends
    collector.sendall(refusal_line("h0 has an agent already"))
    with pytest.raises(CollectorRefused, match="h0 has an agent already"):
        line.heard()
    assert not line.accepted


def test_a_collector_that_hangs_up_is_an_error(ends: tuple[CollectorLine, socket.socket]) -> None:
    line, collector = ends
    collector.close()
    with pytest.raises(PeerError, match="hung up"):
        line.heard()
