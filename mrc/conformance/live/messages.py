# SPDX-License-Identifier: BSD-2-Clause
"""What tester and target tell each other beside the packets, as JSON: calls of `Session` and `TargetQp`, and answers.

A value keeps its kind: bytes are compressed, and what has no JSON of its own is an object of one member that names it.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from typing import Any

from mrc.conformance.setup import Plane, Setup, TargetQpTerms, TesterQp
from mrc.conformance.target import TargetCompletion, TargetEvent
from mrc.errors import PeerError
from mrc.wire.profile import WireProfile

FEATURE = "conformance/1"
_KINDS: dict[str, type] = {
    kind.__name__: kind for kind in (Plane, Setup, TargetCompletion, TargetEvent, TargetQpTerms, TesterQp, WireProfile)
}
_TUPLES = {"Plane": ("evs", "target_evs"), "WireProfile": ("accepted_udp_ports",)}
# Far above a region and the longest write of any script.
_MOST_BYTES = 1 << 26


def pack(value: Any) -> Any:
    """A value as JSON."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, bytes | bytearray):
        return {"bytes": base64.b64encode(zlib.compress(bytes(value), 1)).decode("ascii")}
    if isinstance(value, Mapping):
        return {"mapping": [[pack(key), pack(each)] for key, each in value.items()]}
    if isinstance(value, Set):
        return {"set": [pack(each) for each in sorted(value)]}
    if isinstance(value, Sequence):
        return [pack(each) for each in value]
    if is_dataclass(value) and type(value).__name__ in _KINDS:
        return {type(value).__name__: {each.name: pack(getattr(value, each.name)) for each in fields(value)}}
    raise TypeError(f"a {type(value).__name__} cannot be sent to the other end")


def unpack(document: Any) -> Any:
    """The value in a JSON document. Raises PeerError for what no `pack` made."""
    if isinstance(document, list):
        return [unpack(each) for each in document]
    if not isinstance(document, dict):
        return document
    if len(document) != 1:
        raise PeerError("the other end sent an object of another form: use the same mrc release at both ends")
    ((name, content),) = document.items()
    try:
        if name == "bytes":
            return _inflated(base64.b64decode(content, validate=True))
        if name == "mapping":
            return {unpack(key): unpack(each) for key, each in content}
        if name == "set":
            return frozenset(unpack(each) for each in content)
        values = {key: unpack(each) for key, each in content.items()}
        values |= {key: tuple(values[key]) for key in _TUPLES.get(name, ()) if key in values}
        return _KINDS[name](**values)
    except (KeyError, TypeError, ValueError, AttributeError, binascii.Error, zlib.error):
        raise PeerError(f"the other end sent no proper {name}: use the same mrc release at both ends") from None


def _inflated(compressed: bytes) -> bytes:
    inflater = zlib.decompressobj()
    content = inflater.decompress(compressed, _MOST_BYTES)
    if not inflater.eof:
        raise ValueError("too long, or cut short")
    return content
