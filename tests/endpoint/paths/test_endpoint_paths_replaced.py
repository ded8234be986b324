# SPDX-License-Identifier: BSD-2-Clause
"""EVs of a QP replaced under way, in any order with everything else that happens to EVs (api.md, EV operations)."""

from __future__ import annotations

from random import Random

import numpy as np
from hand_peer import chosen_evs, control_evs, paths
from hypothesis import example, given
from hypothesis import strategies as st

from mrc.endpoint.config import PathConfig, PeerNodeConfig
from mrc.endpoint.paths.path_set import PathSet
from mrc.endpoint.paths.reverse import ReverseEvs
from mrc.endpoint.paths.states import EvState

UNIVERSE = paths(planes=2, spines=8)
NUMBER = {path.ev: number for number, path in enumerate(UNIVERSE)}
CARRIES = (EvState.GOOD, EvState.SKIP)


class Walk:
    """A path set, and what it has to be, kept in the plainest way: EVs of the profile, denied EVs, ports down."""

    def __init__(self, first: list[int], active: int | None) -> None:
        self.reverse = ReverseEvs(PeerNodeConfig(), len(UNIVERSE))
        self.config = PathConfig(active_count=active, ev_min_active=1)
        chosen = [UNIVERSE[number] for number in first]
        self.set = PathSet(chosen, self.config, Random(5), reverse=self.reverse, numbers=np.array(first, np.int64))
        self.profile = set(first)
        self.denied: set[int] = set()
        self.down: set[int] = set()
        self.now = 0

    def replace(self, numbers: list[int]) -> None:
        self.set.replace([UNIVERSE[number] for number in numbers], np.array(numbers, np.int64), self.config)
        for port in self.down:
            self.set.set_port(port, up=False)
        self.denied &= set(numbers)
        self.profile = set(numbers)

    def deny(self, number: int, denied: bool) -> None:
        if number in self.profile:
            (self.set.deny if denied else self.set.allow)(UNIVERSE[number].ev)
            (self.denied.add if denied else self.denied.discard)(number)

    def port(self, port: int, up: bool) -> None:
        (self.down.discard if up else self.down.add)(port)
        self.set.set_port(port, up)

    def happens(self, number: int, what: int) -> None:
        """Feedback about any EV there ever was, the profile's or not."""
        index = self.set.index(UNIVERSE[number].ev)
        if index >= 0:
            if what == 0:
                self.set.on_loss(index, self.now, self.now)
            elif what == 1:
                self.set.on_mark(index, 1)
            elif what == 2:
                self.set.on_probed(index, marked=False)
            else:
                self.set.on_ev_answered(index, self.now)

    def numbers(self, indexes: list[int]) -> set[int]:
        return {NUMBER[self.set.paths[index].ev] for index in indexes}

    def check(self) -> None:
        self.now += 1000
        assert self.numbers(self.set.current()) == self.profile
        states = {NUMBER[self.set.paths[index].ev]: EvState(int(self.set.state[index])) for index in self.set.current()}
        assert {number for number, state in states.items() if state == EvState.DENIED} == self.denied
        assert self.set.silent == (self.denied == self.profile)
        open_ones = {
            number for number in self.profile if states[number] in CARRIES and UNIVERSE[number].port not in self.down
        }
        data = self.numbers(chosen_evs(self.set, 40, self.now))
        assert data <= open_ones
        assert bool(data) == self.set.usable() == bool(open_ones)
        control = self.numbers(control_evs(self.set, 16, self.now))
        assert control <= self.profile - self.denied
        assert bool(control) == (not self.set.silent)
        users = [number in self.profile for number in range(len(UNIVERSE))]
        assert self.reverse.users.tolist() == users
        assert self.reverse.denied.tolist() == [number in self.denied for number in range(len(UNIVERSE))]


numbers = st.integers(0, len(UNIVERSE) - 1)
profiles = st.lists(numbers, min_size=1, max_size=16, unique=True)
steps = st.one_of(
    st.tuples(st.just("replace"), profiles),
    st.tuples(st.just("deny"), numbers, st.booleans()),
    st.tuples(st.just("port"), st.integers(0, 1), st.booleans()),
    st.tuples(st.just("happens"), numbers, st.integers(0, 3)),
)


@example([0, 8], 2, [("port", 1, False), ("replace", [0]), ("port", 1, True), ("replace", [8])])
@given(profiles, st.one_of(st.none(), st.integers(1, 8)), st.lists(steps, max_size=30))
def test_whatever_happens_only_evs_of_the_profile_that_are_allowed_carry_anything(
    first: list[int], active: int | None, walk: list[tuple[object, ...]]
) -> None:
    """MRC-CTL-34, MRC-CTL-11, MRC-CTL-35."""
    whole = Walk(first, active)
    whole.check()
    for name, *arguments in walk:
        getattr(whole, str(name))(*arguments)
        whole.check()
    whole.set.release()
    whole.set.release()
    assert not any(whole.reverse.users)
    assert not any(whole.reverse.denied)
