# SPDX-License-Identifier: BSD-2-Clause
"""Directories of control sockets that somebody else made: what root's `mrc ctl` looks into and leaves alone."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from control_served import Served, serving
from ordinary_user import NOBODY

from mrc.cli import main
from mrc.errors import SystemRefused
from mrc.net.control import places
from mrc.net.control.client import ControlClient, Search, endpoints
from mrc.top.metrics import EndpointMetrics

pytestmark = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="needs root")]
STRANGER = 4_000_000_000 + os.getpid() % 1_000_000  # nobody's directory but this test's


class Listener:
    """Listens at a path as a user; `heard` is all that anybody said to it."""

    def __init__(self, path: Path, uid: int) -> None:
        self.heard = b""
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(path))
        # The kernel notes who calls listen().
        os.seteuid(uid)
        try:
            self._socket.listen(8)
        finally:
            os.seteuid(0)
        os.chown(path, uid, uid)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                with connection, contextlib.suppress(OSError):
                    connection.settimeout(0.3)
                    while said := connection.recv(1 << 16):
                        self.heard += said

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()


@pytest.fixture
def stranger(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The directory in /tmp of a user of this test; no other place is looked at."""
    path = Path(f"/tmp/mrc-control-{STRANGER}")
    for name in (places.DIRECTORY_VARIABLE, "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(name, raising=False)
    for module in ("mrc.net.control.client", "mrc.net.control.places"):
        monkeypatch.setattr(f"{module}.directories", lambda: [path])
    yield path
    if path.is_symlink():
        path.unlink()
    shutil.rmtree(path, ignore_errors=True)


def owned(path: Path, uid: int = STRANGER, mode: int = 0o700) -> Path:
    path.mkdir()
    os.chown(path, uid, uid)
    path.chmod(mode)
    return path


def looked_at() -> tuple[list[str], list[str]]:
    search = endpoints(0.5)
    return [str(each) for each in search.found], search.silent


def victim(tmp_path: Path) -> tuple[Path, Any]:
    """A socket file of somebody else in a directory of somebody else, where nobody listens any more."""
    directory = tmp_path / "victim"
    directory.mkdir()
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(str(directory / "7.sock"))
    dead.close()
    return directory, directory / "7.sock"


def test_a_link_in_the_place_of_a_directory_is_not_followed(stranger: Path, tmp_path: Path) -> None:
    """Root took the sockets away that nobody listened at, wherever the link led."""
    directory, left = victim(tmp_path)
    stranger.symlink_to(directory)
    assert looked_at() == ([], [f"{stranger}: a link or no directory: it is not looked into"])
    assert left.is_socket()
    with pytest.raises(SystemRefused, match="a link or no directory"):
        ControlClient(stranger / "7.sock")


@pytest.mark.parametrize(
    ("uid", "mode", "why"),
    [
        (NOBODY, 0o700, f"user {NOBODY}'s"),
        (0, 0o700, "user 0's"),
        (STRANGER, 0o770, "others may write there"),
        (STRANGER, 0o1777, "others may write there"),
    ],
    ids=("another", "root", "group", "all"),
)
def test_a_directory_of_another_owner_or_for_all_is_not_looked_into(
    stranger: Path, uid: int, mode: int, why: str
) -> None:
    owned(stranger, uid, mode)
    listener = Listener(stranger / "7.sock", uid)
    try:
        assert looked_at() == ([], [f"{stranger}: {why}: it is not looked into"])
        assert listener.heard == b""
    finally:
        listener.close()


def test_what_is_no_socket_of_its_owner_is_left_alone(stranger: Path, tmp_path: Path) -> None:
    """Links to sockets, files, directories, sockets of another user: neither asked nor removed."""
    owned(stranger)
    _, left = victim(tmp_path)
    (stranger / "1.sock").symlink_to(left)
    (stranger / "2.sock").write_text("x")
    (stranger / "3.sock").mkdir()
    other = Listener(stranger / "4.sock", 0)
    try:
        assert looked_at() == ([], [])
        assert other.heard == b""
    finally:
        other.close()
    assert looked_at() == ([], [])
    assert left.is_socket()
    assert sorted(each.name for each in stranger.iterdir()) == ["1.sock", "2.sock", "3.sock", "4.sock"]


def test_a_link_that_comes_in_the_place_of_a_socket_hears_nothing(
    stranger: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look and the connection: who listens at the link's end is another user, and is told nothing."""
    owned(stranger)
    listener = Listener(tmp_path / "daemon.sock", 0)
    (stranger / "7.sock").symlink_to(tmp_path / "daemon.sock")
    monkeypatch.setattr(places.SocketDirectory, "_is_socket", lambda *_: True)
    try:
        found, silent = looked_at()
        assert found == []
        assert "user 0 listens there" in silent[0] or "Operation not permitted" in silent[0]
        assert listener.heard == b""
    finally:
        listener.close()


def test_a_users_own_dead_socket_is_taken_away_and_a_living_one_is_asked(stranger: Path) -> None:
    owned(stranger)
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(str(stranger / "8.sock"))
    dead.close()
    os.chown(stranger / "8.sock", STRANGER, STRANGER)
    listener = Listener(stranger / "9.sock", STRANGER)
    try:
        found, silent = looked_at()
        assert found == []
        assert [each.partition(":")[0] for each in silent] == [str(stranger / "9.sock")]
        assert listener.heard.startswith(b'{"id": 1, "op": "hello"')
    finally:
        listener.close()
    assert [each.name for each in stranger.iterdir()] == ["9.sock"]


def test_the_socket_of_a_killed_endpoint_says_that_it_has_ended(stranger: Path) -> None:
    owned(stranger)
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(stranger / "7.sock"))
    os.chown(stranger / "7.sock", STRANGER, STRANGER)
    with pytest.raises(SystemRefused, match=r"7\.sock: the endpoint has ended") as caught:
        ControlClient(stranger / "7.sock")
    assert caught.value.errno == errno.ECONNREFUSED


def test_what_others_left_hides_no_endpoint(
    directory: Path, served: Served, stranger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An honest endpoint is found beside a hostile directory, and the command says what it did not look into."""
    stranger.symlink_to(directory)
    monkeypatch.setattr("mrc.net.control.client.directories", lambda: [stranger, directory])
    done = serving(served, lambda: CliRunner().invoke(main, ["ctl", "list"]))
    assert str(os.getpid()) in done.output
    assert "not looked into" in done.output


# ------------------------------------------------------------------ an ordinary user among root's endpoints


@pytest.fixture
def of_root(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory of root's with the sockets of 23 endpoints, seen by an ordinary user."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name, contextlib.ExitStack() as opened:
        Path(name).chmod(0o755)
        for number in range(23):
            listener = opened.enter_context(socket.socket(socket.AF_UNIX))
            listener.bind(f"{name}/{4_194_300 + number}.sock")
            listener.listen()
            os.chmod(f"{name}/{4_194_300 + number}.sock", 0o755)
        monkeypatch.setenv(places.DIRECTORY_VARIABLE, name)
        os.seteuid(NOBODY)
        try:
            yield Path(name)
        finally:
            os.seteuid(0)


def denied(place: Path) -> str:
    return f"23 endpoints in {place}: permission denied: root may ask all of them, others their own"


def test_endpoints_of_others_are_one_line_of_the_list(of_root: Path) -> None:
    said = CliRunner().invoke(main, ["ctl", "list"])
    assert said.exit_code == 0
    assert said.stdout == ""
    assert said.stderr == f"{denied(of_root)}\nno endpoint runs here that you may control\n"
    document = json.loads(CliRunner().invoke(main, ["ctl", "list", "--json"]).stdout)
    assert document == {"endpoints": [], "not_asked": [denied(of_root)]}


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (
            ["top", "--once"],
            "no endpoint runs here: mrc recv, mrc send and mrc bench serve are some; other users' only",
        ),
        (["ctl", "ev", "list", "--endpoint", "h0"], "no endpoint runs here that you may control"),
    ],
)
def test_endpoints_of_others_are_one_clause_of_an_error(of_root: Path, argv: list[str], says: str) -> None:
    said = CliRunner().invoke(main, argv)
    assert said.exit_code == 1
    (line,) = said.stderr.splitlines()
    assert line.startswith(f"Error: {says}")
    assert line.endswith(f"; not asked: {denied(of_root)}")


def test_each_of_them_is_counted(of_root: Path) -> None:
    search = endpoints()
    assert (search.not_asked, search.silent, search.found) == (23, [], [])
    values = {each.name: each.samples[0].value for each in EndpointMetrics(lambda: search).collect() if each.samples}
    assert (values["mrc_endpoints"], values["mrc_endpoints_silent"]) == (0, 23)


def test_what_is_said_in_short_counts_the_others(tmp_path: Path) -> None:
    search = Search(silent=["one", "two"], denied={tmp_path: 1})
    one = f"1 endpoint in {tmp_path}: permission denied: root may ask all of them, others their own"
    assert search.reasons_in_short == f"{one}, and 2 more"
    assert Search().reasons_in_short == ""
