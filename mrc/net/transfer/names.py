# SPDX-License-Identifier: BSD-2-Clause
"""Names of files as they travel between the ends: a list of plain names, the directories first."""

from __future__ import annotations

import os
from collections.abc import Sequence

from mrc.errors import PeerError
from mrc.untrusted import quoted

# What is not whole yet has this name beside the one it will get: `.NAME.mrc-part`.
_PART = ".mrc-part"
MAX_DEPTH = 100
_MAX_NAME = 255

# The directories that hold a file, outermost first, and its own name.
FilePath = tuple[str, ...]


def plain_name(name: object) -> str:
    """Check one name that the peer sent. Raises PeerError for what is no name of a file, or points elsewhere."""
    try:
        length = len(os.fsencode(name)) if isinstance(name, str) else 0
    except UnicodeEncodeError:
        length = 0
    if not isinstance(name, str) or name in (".", "..") or set(name) & {"/", "\0"} or not 0 < length <= _MAX_NAME:
        raise PeerError(f"the sender's file name {quoted(name)} is no plain name: it is refused")
    if is_part_name(name):
        raise PeerError(f"the sender's file name {quoted(name)} is one that a receiver uses itself: rename the file")
    return name


def file_path(names: object, most_bytes: int) -> FilePath:
    """The path that the peer sent, relative to the receiver's directory. Raises PeerError for one that is none.

    `most_bytes`: of all names together.
    """
    if not isinstance(names, list) or not 1 <= len(names) <= MAX_DEPTH:
        raise PeerError(f"the peer sent path={quoted(names)}, a list of 1..{MAX_DEPTH} names is expected")
    path = tuple(plain_name(name) for name in names)
    length = sum(len(os.fsencode(name)) + 1 for name in path) - 1
    if length > most_bytes:
        raise PeerError(f"a file's path has {length} bytes, at most {most_bytes} are taken: rename it")
    return path


def is_part_name(name: str) -> bool:
    """Whether this is the name of what is not whole yet."""
    return name.startswith(".") and name.endswith(_PART)


def shown(path: Sequence[str]) -> str:
    """Write a path as people do."""
    return "/".join(path)


def part_name(name: str) -> str | None:
    """The name of what is not whole yet; None where that would be too long."""
    made = f".{name}{_PART}"
    return made if len(os.fsencode(made)) <= _MAX_NAME else None
