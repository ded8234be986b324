# SPDX-License-Identifier: BSD-2-Clause
"""The table of events: docs/trace.md and docs/lab.md show it, and its words are those of the endpoint's own tables."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mrc.endpoint.paths.states import EvInput, EvState
from mrc.endpoint.qp_states import QpState
from mrc.endpoint.tracing import HOLE, LOCAL_ACK_TIMEOUT, PATH_TIMER
from mrc.trace.vocabulary import ENDPOINT, EV_STATE, EVENTS, PACKET_LOST, QP_STATE, EventType, as_markdown
from mrc.wire.names import NackReason

DOCS = Path(__file__).parents[2] / "docs"
CATEGORIES = {*ENDPOINT, "fabric", "drill"}


def _words(kind: EventType, field: str) -> set[str]:
    (meaning,) = (each.meaning for each in kind.fields if each.name == field)
    return set(re.findall(r"[A-Z_]{4,}", meaning))


def test_docs_show_the_table() -> None:
    """Made with: python -c 'from mrc.trace.vocabulary import as_markdown; print(as_markdown())'"""
    assert as_markdown() in (DOCS / "trace.md").read_text()
    assert as_markdown({"fabric"}) in (DOCS / "lab.md").read_text()


@pytest.mark.parametrize("kind", EVENTS.values(), ids=EVENTS.keys())
def test_names(kind: EventType) -> None:
    """category:event, fields named once and with their unit."""
    assert re.fullmatch(r"[a-z]+:[a-z_-]+", kind.name)
    assert kind.category in CATEGORIES
    names = [field.name for field in kind.fields]
    assert len(set(names)) == len(names) > 0
    assert kind.when


def test_states_and_causes_are_those_of_the_endpoint() -> None:
    assert _words(QP_STATE, "old") == {state.name for state in QpState} - {"RTR", "RTS"}
    assert _words(EV_STATE, "old") == {state.name for state in EvState}
    assert _words(EV_STATE, "cause") == {each.name for each in EvInput}


def test_every_kind_of_loss_has_its_trigger() -> None:
    """behaviour.md, Loss: a NACK, a hole, a path timer; Retry budget: the local ACK timeout."""
    (meaning,) = (field.meaning for field in PACKET_LOST.fields if field.name == "trigger")
    triggers = set(re.split(r", | and ", meaning)[:4])
    assert triggers == {HOLE, PATH_TIMER, LOCAL_ACK_TIMEOUT, f"nack:{NackReason.TRIMMED.name}"}
