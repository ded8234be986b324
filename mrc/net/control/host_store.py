# SPDX-License-Identifier: BSD-2-Clause
"""The device is the host's: what controllers set is in one file, which all endpoints at the same addresses follow.

In a lab the file is the lab's and goes with it. Elsewhere it is named after the network namespace, by a cookie that the
kernel gives to no other until it is booted, and after mode and addresses. Whoever changes something holds the file's
lock, takes over what others have changed before, writes the file anew and knocks at the control sockets. Who uses
a profile that is not the default one holds a lock on a byte of the lock file, so that it cannot be taken away from it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import logging
import os
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

from mrc.errors import SystemRefused
from mrc.fabric.host_view import HOST_FABRIC, Fabric
from mrc.net.control.places import DIRECTORY_VARIABLE, ROOT_DIRECTORY, SocketDirectory, directories
from mrc.untrusted import NotJson, parse_json

if TYPE_CHECKING:
    from mrc.control.host_profiles import Document
    from mrc.control.profiles import Profiles

_LABS = Path("/run/mrc")
_MOST_BYTES = 4 << 20
_SO_NETNS_COOKIE = 71
_CAP_NET_ADMIN = 12
_FLOCK = struct.Struct("hhqqi4x")  # struct flock: type, whence, start, length, pid
# Bytes of the lock file: one for who changes something, then one for each profile that may be in use.
_CHANGING, _FIRST_OF_KIND = 0, {"ev_profiles": 1 << 16, "cc_profiles": 1 << 17}
_LOCK_WAIT_S = 2.0
_KNOCK = b'{"id": null, "op": "profiles_changed"}\n'

_log = logging.getLogger("mrc.control")


def may_administer_the_network() -> bool:
    """Whether the calling thread has CAP_NET_ADMIN."""
    with open("/proc/thread-self/status") as status:
        effective = next(line.split()[1] for line in status if line.startswith("CapEff:"))
    return bool(int(effective, 16) >> _CAP_NET_ADMIN & 1)


def store_path(fabric: Fabric) -> Path:
    """Where what this host's endpoints have in common is; called in the host's network namespace."""
    lab = _LABS / fabric.name
    if fabric.name != HOST_FABRIC and (lab / "lab.json").is_file():
        return lab / f"h{fabric.host}.device"
    named = os.environ.get(DIRECTORY_VARIABLE)
    of_device = ",".join([fabric.mode, *(port.address for port in fabric.ports)]).encode()
    # Two sums: one of 32 bits is not enough. hashlib would load OpenSSL into each process.
    digest = f"{crc32(of_device):08x}{crc32(of_device[::-1]):08x}"
    return Path(named or ROOT_DIRECTORY) / "devices" / f"{_namespace()}-{digest}"


def _namespace() -> str:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        try:
            return sock.getsockopt(socket.SOL_SOCKET, _SO_NETNS_COOKIE, 8)[::-1].hex()
        except OSError:  # before Linux 5.14
            return f"inode{os.stat('/proc/thread-self/ns/net').st_ino}"


class HostStore:
    """What one endpoint and the file have to do with each other (`mrc.endpoint.paths.online.HostProfiles`).

    `make_profiles` gives the endpoint's profiles. It is called when there is something to read or to write: the
    controller's modules take long to import, and few endpoints need them.
    """

    def __init__(self, path: Path, make_profiles: Callable[[], Profiles], own_socket: Path | None) -> None:
        self.path = path
        self._make_profiles = make_profiles
        self._own_socket = own_socket
        self._seen: tuple[int, int, int] | None = None
        self._known: Document | None = None
        self._changing = False
        # Of each profile in use that its bytes are locked for; the descriptor of the lock file.
        self._used: set[tuple[str, int]] = set()
        self._lock_file = -1
        self.refresh()

    @property
    def permitted(self) -> bool:
        return may_administer_the_network()

    # ------------------------------------------------------------------ following

    def refresh(self) -> None:
        """Have the endpoint take over what has changed in the file. Nothing is raised."""
        try:
            found = os.stat(self.path, follow_symlinks=False)
        except OSError:
            return
        seen = (found.st_ino, found.st_mtime_ns, found.st_size)
        if seen == self._seen:
            return
        from mrc.control import host_profiles
        from mrc.control.errors import ControlError

        self._seen = seen
        try:
            document = host_profiles.read(self._content())
        except (OSError, NotJson, ControlError) as error:
            _log.warning("%s: %s: it is not followed", self.path, error)
            return
        before = self._known or host_profiles.empty()
        self._known = document
        host_profiles.adopt(self._make_profiles(), host_profiles.changed(before, document), before)

    def _content(self) -> Any:
        """Raises OSError where the file is not root's or this user's own, or others may write to it."""
        descriptor = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            if found.st_uid not in (0, os.geteuid()) or found.st_mode & 0o022:
                raise PermissionError(errno.EPERM, f"it is user {found.st_uid}'s, or others may write to it")
            return parse_json(file.read(_MOST_BYTES), "it")

    # ------------------------------------------------------------------ use

    def named(self, ev_profile_id: int, cc_profile_id: int) -> None:
        """Take over what has changed, and hold these profiles, unless they are the default ones."""
        if ev_profile_id <= 0 and cc_profile_id <= 0:
            return
        self.refresh()
        for kind, number in (("ev_profiles", ev_profile_id), ("cc_profiles", cc_profile_id)):
            if number > 0 and (kind, number) not in self._used and self._known and str(number) in self._known[kind]:
                with contextlib.suppress(OSError):
                    if self._lock_file < 0:
                        self._lock_file = os.open(_lock_path(self.path), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
                    _lock(self._lock_file, fcntl.F_RDLCK, _FIRST_OF_KIND[kind] + number)
                    self._used.add((kind, number))

    def released(self) -> None:
        """Let go of what no QP uses any more."""
        if not self._used:
            return
        qps = self._make_profiles().endpoint.qps.values()
        in_use = {("ev_profiles", qp.ev_profile_id) for qp in qps} | {("cc_profiles", qp.cc_profile_id) for qp in qps}
        for kind, number in self._used - in_use:
            _lock(self._lock_file, fcntl.F_UNLCK, _FIRST_OF_KIND[kind] + number)
        self._used &= in_use

    def close(self) -> None:
        if self._lock_file >= 0:
            os.close(self._lock_file)
            self._lock_file = -1

    # ------------------------------------------------------------------ changing

    @contextmanager
    def changing(self) -> Iterator[None]:
        """The context in which a controller changes this endpoint's profiles: they are the host's when it is left.

        Raises ControlError: EPERM without CAP_NET_ADMIN, EBUSY when QPs of another process use what is taken away,
        the errno of the file system when it cannot be written; then nothing has changed.
        """
        if self._changing:
            yield
            return
        from mrc.control import host_profiles
        from mrc.control.errors import ControlError

        if not self.permitted:
            raise ControlError(errno.EPERM, "the device is the host's: to change it takes CAP_NET_ADMIN")
        try:
            lock_file = self._locked()
        except OSError as error:
            raise ControlError(error.errno or errno.EIO, f"{self.path}: {error.strerror}") from None
        self._changing = True
        try:
            self.refresh()
            profiles = self._make_profiles()
            before = host_profiles.document_of(profiles)
            try:
                yield
            finally:
                # A batch that ends at its third entry has done two.
                self._commit(before, host_profiles.changed(before, host_profiles.document_of(profiles)), lock_file)
        finally:
            self._changing = False
            os.close(lock_file)

    def _locked(self) -> int:
        """A descriptor of the lock file, which nobody else has locked for changing. Raises OSError."""
        self.path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        descriptor = os.open(_lock_path(self.path), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        until = time.monotonic() + _LOCK_WAIT_S
        while True:
            try:
                _lock(descriptor, fcntl.F_WRLCK, _CHANGING)
                return descriptor
            except OSError:
                if time.monotonic() > until:
                    os.close(descriptor)
                    raise OSError(errno.EBUSY, f"another controller has held it for {_LOCK_WAIT_S:.0f} s") from None
                time.sleep(0.001)

    def _commit(self, before: Document, entries: Document, lock_file: int) -> None:
        from mrc.control import host_profiles
        from mrc.control.errors import ControlError

        if not any(entries.values()):
            return
        try:
            for kind, number in _taken_away(before, entries):
                self._check_free(kind, number, lock_file)
            document = self._known or host_profiles.empty()
            document = {section: {**document[section], **entries[section]} for section in entries}
            self._write(document)
        except (ControlError, OSError) as error:
            host_profiles.adopt(self._make_profiles(), _put_back(before, entries), entries)
            if isinstance(error, ControlError):
                raise
            raise ControlError(error.errno or errno.EIO, f"{self.path}: {error.strerror}") from None
        self._known = document
        self._knock()

    def _check_free(self, kind: str, number: int, lock_file: int) -> None:
        from mrc.control.errors import ControlError
        from mrc.control.loading import KINDS

        if (kind, number) in self._used:
            return  # this process's own QPs were looked at
        place = _FIRST_OF_KIND[kind] + number
        try:
            _lock(lock_file, fcntl.F_WRLCK, place)
        except OSError:
            raise ControlError(
                errno.EBUSY, f"{KINDS[kind]} profile {number} is used by QPs of another process"
            ) from None
        _lock(lock_file, fcntl.F_UNLCK, place)

    def _write(self, document: Document) -> None:
        """Whole or not at all. Raises OSError."""
        new = self.path.with_name(f".{self.path.name}.new")
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        with open(descriptor, "w") as file:
            json.dump(document, file)
        os.replace(new, self.path)
        found = os.stat(self.path)
        self._seen = (found.st_ino, found.st_mtime_ns, found.st_size)

    def _knock(self) -> None:
        """Tell every endpoint of this machine; those of other hosts look at their own file. Nobody is waited for."""
        for directory in directories():
            try:
                opened = SocketDirectory(directory)
            except SystemRefused:
                continue
            with opened:
                for name in opened.names():
                    if directory / name != self._own_socket:
                        with contextlib.suppress(OSError), _client() as client:
                            opened.connect(client, name)
                            client.send(_KNOCK)


def _client() -> socket.socket:
    return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)


def _lock_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.lock")


def _lock(descriptor: int, kind: int, place: int) -> None:
    """Lock or unlock a byte for this open file, and not for the process. Raises OSError where somebody else has it."""
    fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _FLOCK.pack(kind, os.SEEK_SET, place, 1, 0))


def _put_back(before: Document, entries: Document) -> Document:
    """What undoes these entries."""
    unknown = {"state": "init"}
    return {
        section: {number: before[section].get(number, unknown) for number in listed}
        for section, listed in entries.items()
    }


def _taken_away(before: Document, entries: Document) -> Iterator[tuple[str, int]]:
    """The profiles that QPs may not use while these entries come: CC profiles, and EV profiles that go OFFLINE."""
    for kind in _FIRST_OF_KIND:
        for number, entry in entries[kind].items():
            was_online = before[kind].get(number, {}).get("state") == "online"
            if was_online and (kind == "cc_profiles" or entry["state"] != "online"):
                yield kind, int(number)
