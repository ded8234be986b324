# SPDX-License-Identifier: BSD-2-Clause
"""A trace as a JSON text sequence (RFC 7464): each record is RS, one JSON object, LF. The first is the header."""

from __future__ import annotations

import json
from operator import index
from typing import Any

from mrc.untrusted import NotJson, parse_json

RS, LF = b"\x1e", b"\n"
VERSION = 1
# The first key of the header, so that the first bytes of a file tell what it is.
MARK = "mrc_trace"
BEGINNING = RS + b'{"' + MARK.encode() + b'":'

# `default`: whatever counts as an integer is written as one.
_ENCODER = json.JSONEncoder(separators=(",", ":"), allow_nan=False, default=index)


def encode(record: dict[str, Any]) -> bytes:
    """One record with its framing."""
    return RS + _ENCODER.encode(record).encode() + LF


def decode(text: bytes) -> dict[str, Any] | None:
    """The object in one record's text, or None when there is none that is whole."""
    try:
        record = parse_json(text)
    except NotJson:
        return None
    return record if isinstance(record, dict) else None
