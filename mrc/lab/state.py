# SPDX-License-Identifier: BSD-2-Clause
"""What a lab remembers on disk: its intention before it builds, and which namespaces are its own.

One directory a lab, /run/mrc/NAME: `lab.json`, one fabric file a host, and the hosts' names. `lab.json` is written
before anything is created, so that after a crash at any moment `mrc lab down` knows what to look for; the identity
(device, inode) of each namespace, and the tag on its `lo`, distinguish our lab from another under the same name.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from mrc.errors import CallerError, SystemRefused
from mrc.fabric import Description, Shape
from mrc.lab.namespace import ROOT_ADVICE
from mrc.records import record
from mrc.untrusted import foreign_bytes, parse_json

STATE_DIRECTORY = Path("/run/mrc")
BUILDING, UP = "building", "up"
# Who carries uSID packets, by whether the lab is a fast one.
FABRICS = {False: "kernel", True: "fast"}
HOSTS_FILE = "hosts"
_VERSION = 3
# Version 1 knew no impairments, version 2 no fast fabrics; the rest reads the same.
_READABLE_VERSIONS = (1, 2, 3)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}\Z")
_LOCK_WAIT_S = 30.0
_RELEASE_S = 2.0


def check_name(name: str) -> str:
    """`name` itself. Raises CallerError unless it is 1..40 letters, digits, '-' or '_'."""
    if not _NAME.match(name):
        raise CallerError(f"{name!r} is not a lab name: use 1 to 40 letters, digits, '-' and '_'")
    return name


def directory(name: str) -> Path:
    return STATE_DIRECTORY / check_name(name)


def namespace_name(lab: str, node: str) -> str:
    return f"{lab}-{node}"


@record(frozen=True, slots=True)
class LabState:
    """`phase` is "building" or "up"; `tag` is on every namespace's `lo`; `namespaces` maps node to (device, inode).

    `description` is what the lab was built from; what was impaired since then only the kernel knows. `fast`: with the
    programs of `mrc.lab.fast` at the switches' ports.
    """

    name: str
    tag: str
    description: Description
    phase: str = BUILDING
    namespaces: dict[str, tuple[int, int]] = field(default_factory=dict)
    fast: bool = False

    @property
    def topology(self) -> Shape:
        return self.description.shape

    def save(self) -> None:
        """Write it whole or not at all. Raises SystemRefused."""
        path = directory(self.name) / "lab.json"
        document = {
            "version": _VERSION,
            "name": self.name,
            "tag": self.tag,
            "phase": self.phase,
            "fast": self.fast,
            **self.description.to_json(),
            "namespaces": self.namespaces,
        }
        try:
            temporary = path.with_suffix(".new")
            temporary.write_text(json.dumps(document, indent=1) + "\n")
            temporary.replace(path)
        except OSError as error:
            raise SystemRefused(f"cannot write {path}: {error.strerror}") from None

    def with_namespaces(self, namespaces: dict[str, tuple[int, int]]) -> LabState:
        return replace(self, namespaces=namespaces)

    def finished(self) -> LabState:
        return replace(self, phase=UP)


def load(name: str) -> LabState | None:
    """The state of lab `name`. None when a crash came before even the intention was written.

    Raises CallerError when there is no such lab.
    """
    path = directory(name)
    if not path.is_dir():
        raise CallerError(
            f"there is no lab {name!r}: `mrc lab up --name {name}` builds it, `mrc lab list` shows the others"
        )
    try:
        document = parse_json(foreign_bytes(path / "lab.json"), "its text")
    except FileNotFoundError:
        return None
    except PermissionError as error:
        raise SystemRefused(f"cannot read {path}/lab.json: {error.strerror}: {ROOT_ADVICE}") from None
    except ValueError as error:
        raise CallerError(f"{path}/lab.json is damaged ({error}): look at it, then remove {path} by hand") from None
    try:
        readable = document["version"] in _READABLE_VERSIONS
        found = _from_document(document) if readable else None
    except (KeyError, TypeError, AttributeError, ValueError, ArithmeticError) as error:
        raise CallerError(f"{path}/lab.json is damaged ({error!r}): look at it, then remove {path} by hand") from None
    if found is None:
        raise CallerError(f"{path}/lab.json is of another version: take that lab down with the mrc that built it")
    return found


def _from_document(document: Any) -> LabState:
    namespaces = {node: (int(device), int(inode)) for node, (device, inode) in document["namespaces"].items()}
    description = Description.from_json(document)
    fast = bool(document.get("fast", False))
    return LabState(document["name"], document["tag"], description, document["phase"], namespaces, fast)


def reserve(name: str) -> None:
    """Make the lab's directory, which is what holds its name. Raises CallerError when it exists, SystemRefused."""
    path = directory(name)
    try:
        path.mkdir(mode=0o755)
    except FileExistsError:
        raise CallerError(f"a lab {name!r} exists already: `mrc lab down --name {name}` removes it") from None
    except OSError as error:
        raise SystemRefused(f"cannot create {path}: {error.strerror}: {ROOT_ADVICE}") from None


def release(name: str) -> None:
    """Remove the lab's directory. Raises SystemRefused."""
    path = directory(name)
    deadline = time.monotonic() + _RELEASE_S
    while path.is_dir():
        try:
            shutil.rmtree(path)
        except OSError as error:
            # Who writes to the event log, not knowing yet, makes and moves files in it.
            if error.errno not in (errno.ENOENT, errno.ENOTEMPTY) or time.monotonic() > deadline:
                raise SystemRefused(f"cannot remove {path}: {error.strerror}: {ROOT_ADVICE}") from None


def names() -> tuple[str, ...]:
    """The names of all labs, half-built ones too, sorted."""
    try:
        return tuple(sorted(entry.name for entry in STATE_DIRECTORY.iterdir() if entry.is_dir()))
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise SystemRefused(f"cannot read {STATE_DIRECTORY}: {error.strerror}: {ROOT_ADVICE}") from None


@contextmanager
def builders_lock() -> Iterator[None]:
    """Only one process builds or removes labs at a time, and the kernel releases the lock when that process dies.

    So a process that holds it and finds a lab "building" knows that its builder crashed. Raises SystemRefused.
    """
    try:
        STATE_DIRECTORY.mkdir(mode=0o755, parents=True, exist_ok=True)
        handle = os.open(STATE_DIRECTORY / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise SystemRefused(f"cannot use {STATE_DIRECTORY}: {error.strerror}: {ROOT_ADVICE}") from None
    try:
        deadline = time.monotonic() + _LOCK_WAIT_S
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise SystemRefused(
                        f"another mrc lab command holds {STATE_DIRECTORY}/.lock for {_LOCK_WAIT_S:.0f} s: end it"
                    ) from None
                time.sleep(0.01)
        yield
    finally:
        os.close(handle)
