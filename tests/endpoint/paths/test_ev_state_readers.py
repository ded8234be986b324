# SPDX-License-Identifier: BSD-2-Clause
"""What is said of each EV state elsewhere: a word, a colour, a bit. A state that is new is missing in each by name."""

from __future__ import annotations

import pytest

from mrc.capi.control_evs import _SHOWN
from mrc.cli.ctl.events import _STATES
from mrc.control.attributes import ALL_EV_EVENTS, EvEventMask
from mrc.endpoint.paths.states import BEST_FIRST, CARRIES_DATA, EvState, worst
from mrc.report import palette
from mrc.top.figures import IN_USE
from mrc.top.screen import _STATE_STYLE
from mrc.trace import vocabulary

NAMES = [state.name for state in EvState]
# Where a state needs an entry, and the states that have one.
READERS = {
    "mrc.endpoint.paths.states.CARRIES_DATA": [state.name for state in EvState if state < len(CARRIES_DATA)],
    "mrc.endpoint.paths.states.BEST_FIRST": [state.name for state in BEST_FIRST],
    "mrc.trace.vocabulary.EV_STATES": list(vocabulary.EV_STATES),
    "mrc.control.attributes.EvEventMask": [bit.name for bit in EvEventMask],
    "mrc.control.attributes.ALL_EV_EVENTS": [bit.name for bit in ALL_EV_EVENTS],
    "mrc.report.palette.EV_STATES": list(palette.EV_STATES),
    "mrc.top.screen._STATE_STYLE": [name.upper() for name in _STATE_STYLE],
    "mrc.cli.ctl.events._STATES": [name.upper() for name in _STATES],
    "mrc.capi.control_evs._SHOWN": [state.name for state in _SHOWN],
}


@pytest.mark.parametrize("where", READERS)
def test_every_state_has_its_entry_and_nothing_else_has(where: str) -> None:
    missing, more = set(NAMES) - set(READERS[where]), set(READERS[where]) - set(NAMES)
    assert not missing, f"{where} lacks {', '.join(sorted(missing))}"
    assert not more, f"{where} has {', '.join(sorted(map(str, more)))}, which is no state of an EV"


def test_the_trace_numbers_the_states_as_the_endpoint_does() -> None:
    assert list(vocabulary.EV_STATES) == NAMES


def test_what_is_called_in_use_is_what_carries_data() -> None:
    carrying = {state.name.lower() for state in EvState if CARRIES_DATA[state]}
    assert set(IN_USE) == carrying, f"mrc.top.figures.IN_USE lacks or has too many of {carrying ^ set(IN_USE)}"


def test_the_worst_of_several_is_by_their_order_and_not_by_their_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    assert worst([EvState.SKIP, EvState.ASSUMED_BAD, EvState.GOOD]) == EvState.ASSUMED_BAD
    assert worst([]) == EvState.GOOD
    monkeypatch.setattr("mrc.endpoint.paths.states.BEST_FIRST", BEST_FIRST[::-1])
    assert worst([EvState.SKIP, EvState.ASSUMED_BAD, EvState.GOOD]) == EvState.GOOD
