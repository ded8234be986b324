# SPDX-License-Identifier: BSD-2-Clause
"""Profile files: YAML with EV formats, EV profiles and CC profiles (docs/control.md, Profile files)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mrc.control.errors import ControlError
from mrc.control.loading import load, set_line_rate
from mrc.errors import CallerError
from mrc.fabric.yaml_tree import YamlError, key_text, parse
from mrc.net.node import Node

_MOST_BYTES = 1 << 20


def read_profile_file(path: str | Path) -> dict[str, Any]:
    """What a profile file says, as plain data. Raises CallerError when it cannot be read or is no YAML mapping."""
    try:
        with open(path, "rb") as file:
            content = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise CallerError(f"profile file {path}: {error.strerror}") from None
    if len(content) > _MOST_BYTES:
        raise CallerError(f"profile file {path}: larger than {_MOST_BYTES} bytes")
    try:
        document = parse(content.decode("utf-8-sig")).value
    except UnicodeDecodeError:
        raise CallerError(f"profile file {path}: not text in UTF-8") from None
    except YamlError as error:
        where = f"{path}:{error.place.line}:{error.place.column}"
        raise CallerError(": ".join(filter(None, (where, key_text(error.key), str(error))))) from None
    if not isinstance(document, dict):
        raise CallerError(f"profile file {path}: a mapping with ev_formats, ev_profiles or cc_profiles is expected")
    return document


def load_profiles(node: Node, path: str | Path) -> list[str]:
    """Bring the profiles of a file ONLINE on a node, before its QPs are made. Raises CallerError."""
    document = read_profile_file(path)
    profiles = node.controller.profiles
    try:
        return node.driver.call(lambda: load(profiles, document))
    except ControlError as error:
        raise CallerError(f"{path}: {error.reason}") from None


def tell_line_rate(node: Node, line_rate_bps: int) -> None:
    """Give congestion control the rate of the network, before the node's QPs are made. Raises CallerError."""
    profiles = node.controller.profiles
    try:
        node.driver.call(lambda: set_line_rate(profiles, line_rate_bps))
    except ControlError as error:
        raise CallerError(f"line rate: {error.reason}") from None
