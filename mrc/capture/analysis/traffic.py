# SPDX-License-Identifier: BSD-2-Clause
"""What kind of messages a flow carried, and of which sizes."""

from __future__ import annotations

import numpy as np

from mrc.capture.analysis.fates import Fates
from mrc.capture.analysis.figures import OperationFigures
from mrc.capture.analysis.sending import ENDS, STARTS
from mrc.capture.frames import I64, Bools
from mrc.report.units import size_text
from mrc.wire.opcodes import OPCODES

# By what an opcode's name says, the kind of one message and of several.
_KINDS = {
    "WRITE": ("write", "writes"),
    "SEND": ("send", "sends"),
    "READ": ("read", "reads"),
    "CMP & SWAP": ("compare-and-swap", "compare-and-swaps"),
    "FETCH & ADD": ("fetch-and-add", "fetch-and-adds"),
}
_WITH = {"with Immediate": " with immediate", "with Invalidate": " with invalidate"}
_SEVERAL = {one + more: several + more for one, several in _KINDS.values() for more in ("", *_WITH.values())}
_KINDS_SAID = 4


def _kind(opcode: int) -> str:
    name = OPCODES[opcode].name
    kind = next((one for word, (one, _) in _KINDS.items() if word in name), name)
    return kind + next((more for word, more in _WITH.items() if word in name), "")


def operations_of(known: Fates) -> list[OperationFigures]:
    """The messages whose last packet was seen, by kind, the most frequent first; sizes of those that are whole."""
    firsts = known.requests[known.first]
    opcode, seq = firsts["opcode"], firsts["seq"]
    starts, ends = np.flatnonzero(STARTS[opcode]), np.flatnonzero(ENDS[opcode])
    begin, whole = _begins(starts, ends, seq)
    total = np.cumsum(firsts["payload"].astype(np.int64))
    size = total[ends] - total[begin] + firsts["payload"][begin]
    # A read asks for what comes back.
    size = np.where(firsts["span"][ends] > 0, firsts["span"][ends], size)
    opcodes: dict[str, list[int]] = {}
    for each in np.unique(opcode[ends]).tolist():
        opcodes.setdefault(_kind(each), []).append(each)
    found = []
    for kind, values in opcodes.items():
        of_kind = np.isin(opcode[ends], values)
        sizes = size[of_kind & whole]
        figures = OperationFigures(kind, int(of_kind.sum()))
        if len(sizes):
            figures = OperationFigures(
                kind, figures.messages, int(sizes.min()), int(np.sort(sizes)[(len(sizes) - 1) // 2]), int(sizes.max())
            )
        found.append(figures)
    return sorted(found, key=lambda each: -each.messages)


def _begins(starts: I64, ends: I64, seq: I64) -> tuple[I64, Bools]:
    """Of each message that ends the index of its first packet, and whether all of it is there."""
    if not len(starts) or not len(ends):
        return ends, np.zeros(len(ends), np.bool_)
    at = np.searchsorted(starts, ends, "right") - 1
    begin = starts[np.maximum(at, 0)]
    whole = (at >= 0) & (seq[ends] - seq[begin] == ends - begin)
    whole[1:] &= begin[1:] > ends[:-1]
    return np.where(whole, begin, ends), whole


def traffic_text(operations: list[OperationFigures]) -> str:
    """In words: `8 writes of 1.0 MiB, 1 write with immediate of 600 B`."""
    said = []
    for each in operations[:_KINDS_SAID]:
        name = each.kind if each.messages == 1 else _SEVERAL.get(each.kind, each.kind)
        words = f"{each.messages:,} {name}"
        if each.bytes_max is not None and each.bytes_min is not None and each.bytes_p50 is not None:
            if each.bytes_min == each.bytes_max:
                words += f" of {size_text(each.bytes_max)}"
            else:
                words += f" of {size_text(each.bytes_min)} to {size_text(each.bytes_max)}"
                words += f", half of them up to {size_text(each.bytes_p50)}"
        said.append(words)
    return "; ".join(said)
