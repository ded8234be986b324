# SPDX-License-Identifier: BSD-2-Clause
"""JSON from a peer: taken member by member, everything else refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mrc.errors import PeerError
from mrc.untrusted import quoted


def mapping(document: object, what: str) -> Mapping[str, Any]:
    """A JSON object. Raises PeerError for anything else."""
    if not isinstance(document, Mapping):
        raise PeerError(f"the peer sent no {what}")
    return document


def integer(document: Mapping[str, Any], key: str, low: int, high: int) -> int:
    """An integer member low <= value <= high. Raises PeerError for anything else."""
    value = document.get(key)
    if type(value) is not int or not low <= value <= high:
        raise PeerError(f"the peer sent {key}={quoted(value)}, an integer {low}..{high} is expected")
    return value
