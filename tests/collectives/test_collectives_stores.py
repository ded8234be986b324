# SPDX-License-Identifier: BSD-2-Clause
"""Stores: a folder, a ticket, memory."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from mrc.collectives import FileStore, MemoryStore, Store, TicketServer, TicketStore
from mrc.errors import CallerError, PeerError


def check(here: Store, there: Store) -> None:
    """Any bytes, whole, and one who waits is woken."""
    value = os.urandom(20_000)
    here.set("world/rank/1", value)
    assert there.get("world/rank/1", 5) == value
    with pytest.raises(TimeoutError, match=r"nobody has set 'missing' within 0\.05 s"):
        there.get("missing", 0.05)
    got: list[bytes] = []
    waiting = threading.Thread(target=lambda: got.append(there.get("late", 20)))
    waiting.start()
    here.set("late", b"")
    waiting.join(20)
    assert got == [b""]


def test_memory() -> None:
    store = MemoryStore()
    check(store, store)
    called: list[str] = []
    store.when(["late", "later"], lambda: called.append("both"))
    store.when(["late"], lambda: called.append("at once"))
    assert called == ["at once"]
    store.set("later", b"")
    assert called == ["at once", "both"]


def test_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "job" / "store"
    check(FileStore(folder), FileStore(folder))
    assert folder.stat().st_mode & 0o777 == 0o700
    assert all(each.stat().st_mode & 0o777 == 0o600 for each in folder.iterdir())
    assert not [each for each in folder.iterdir() if each.name.startswith(".")]


def test_a_folder_of_an_earlier_job_is_refused(tmp_path: Path) -> None:
    """What its ranks left there would be taken for this job's: it would wait for processes that have ended."""
    folder = tmp_path / "job"
    FileStore(folder).set("world/rank/0", b"earlier")
    with pytest.raises(CallerError, match="earlier job"):
        FileStore(folder).set("world/rank/0", b"this one")
    assert FileStore(folder).get("world/rank/0", 0) == b"earlier"
    assert len(list(folder.iterdir())) == 1


def test_a_folder_that_others_may_read_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    with pytest.raises(CallerError, match="others may read it: chmod 700"):
        FileStore(tmp_path)


@pytest.mark.parametrize("key", ["", "../up", "a//b", "space here"])
def test_keys_that_name_other_places_are_refused(tmp_path: Path, key: str) -> None:
    tmp_path.chmod(0o700)
    with pytest.raises(CallerError, match="a key is"):
        FileStore(tmp_path).set(key, b"")


def test_a_ticket() -> None:
    with TicketServer(["::1"]) as server, TicketStore(server.ticket) as one, TicketStore(server.ticket) as other:
        check(one, other)
        check_again: Callable[[str, float], bytes] = server.get
        assert check_again("late", 1) == b""
        server.set("from the server", b"1")
        assert one.get("from the server", 1) == b"1"


def test_a_ticket_of_another_server_is_refused() -> None:
    with TicketServer(["::1"]) as server, TicketServer(["::1"]) as other:
        mixed = server.ticket[:10] + other.ticket[10:]
        with pytest.raises(CallerError, match="the ticket is altered"):
            TicketStore(mixed)
        ticket = server.ticket
    with TicketStore(ticket) as store, pytest.raises(PeerError):
        store.set("key", b"")
