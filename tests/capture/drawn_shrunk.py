# SPDX-License-Identifier: BSD-2-Clause
"""The smallest capture of a seed of which the analysis says the same wrong thing."""

from __future__ import annotations

from typing import Any, NamedTuple

from drawn_captures import Drawn, drawn
from drawn_truth import wrongs

# What makes a capture simpler, tried one after the other; then the least of these numbers of packets.
_SIMPLER: tuple[dict[str, Any], ...] = ({"hosts": 1}, {"form": "plain"}, {"harm": "none"}, {"place": "sender"})
_COUNTS = (8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 320, 400, 500)


class Shrunk(NamedTuple):
    """What is to be given to `drawn`, and what is wrong then."""

    made: Drawn
    given: dict[str, Any]
    wrong: list[str]

    @property
    def words(self) -> str:
        given = "".join(f", {name}={value!r}" for name, value in self.given.items())
        return f"drawn({self.made.draw.seed}{given}): {'; '.join(self.wrong)}"


def shrunk(made: Drawn, wrong: list[str], **given: Any) -> Shrunk:
    """`wrong`: what is wrong with `made`, which was drawn with what was `given`."""
    found = Shrunk(made, given, wrong)
    for simpler in _SIMPLER:
        found = _tried(found, simpler) or found
    for count in _COUNTS:
        smaller = _tried(found, {"count": count})
        if smaller is not None:
            return smaller
    return found


def _tried(found: Shrunk, more: dict[str, Any]) -> Shrunk | None:
    given = found.given | more
    made = drawn(found.made.draw.seed, **given)
    if not any(each.packet.forward for each in made.sightings):
        return None
    wrong = wrongs(made)
    same = {_kind(each) for each in wrong} & {_kind(each) for each in found.wrong}
    return Shrunk(made, given, wrong) if same else None


def _kind(wrong: str) -> str:
    """The figure or the finding that is wrong."""
    return wrong.partition(":")[0]
