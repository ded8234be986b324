# SPDX-License-Identifier: BSD-2-Clause
"""The adversary as a hypothesis state machine: each rule is one thing it may do; an example ends when it relents."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

from adversary_network import NODES
from adversary_setting import Setting, draw_switches, with_switches
from adversary_walk import PAUSES, UNKNOWN_REASONS
from adversary_world import World
from draws import draws
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from mrc import CORE
from mrc.core import COMPILED

STEPS = 30
NODE, PAIR, BIT = st.integers(0, 1), st.integers(0, 2), st.integers(0, 1 << 16)
PLACE, COUNT = st.integers(0, 255), st.integers(1, 40)
LENGTH = st.one_of(st.sampled_from([0, 1, 255, 256, 257, 512]), st.integers(0, 1500), st.integers(1500, 50_000))
PICKS = st.lists(PLACE, min_size=1, max_size=12)


class Adversary(RuleBasedStateMachine):
    """Subclasses say what the nodes are like."""

    setting = Setting()

    @initialize(
        before_wrap=st.sampled_from([1, 20, 200, 1 << 22]),
        spines=st.integers(2, 4),
        share=st.sampled_from([1, 5, 128]),
        batch=st.sampled_from([1, 4, 64]),
        seed=st.integers(0, 1 << 16),
        lengths=st.lists(LENGTH, min_size=2, max_size=5),
        switches=st.randoms(use_true_random=False).map(draw_switches).map(dict),
    )
    def begin(
        self,
        before_wrap: int,
        spines: int,
        share: int,
        batch: int,
        seed: int,
        lengths: list[int],
        switches: dict[str, Any],
    ) -> None:
        """There is work both ways before the first trouble."""
        setting = replace(
            self.setting, before_wrap=before_wrap, spines=spines, fair_share=share, transmit_batch=batch, seed=seed
        )
        setting = with_switches(setting, switches)
        self.world = World(setting)
        for pair in range(setting.pairs):
            for node in NODES:
                self.post_several(node, pair, [length % 4000 for length in lengths], 2)

    # ------------------------------------------------------------------ applications

    @rule(node=NODE, pair=PAIR, length=LENGTH)
    def post(self, node: int, pair: int, length: int) -> None:
        self.world.post(node, pair, length)

    @rule(node=NODE, pair=PAIR, lengths=st.lists(st.integers(0, 600), min_size=1, max_size=8), every=st.integers(1, 3))
    def post_several(self, node: int, pair: int, lengths: list[int], every: int) -> None:
        wimm = self.setting.config.max_wimm > 0
        for at, length in enumerate(lengths):
            self.world.post(node, pair, length, immediate=wimm and at % every == 0, solicited=at % 2 == 0)

    @rule(node=NODE, pair=PAIR, length=st.integers(1, 800), again=PLACE)
    def post_where_another_went(self, node: int, pair: int, length: int, again: int) -> None:
        self.world.post(node, pair, length, again=again)

    @rule(node=NODE, pair=PAIR, count=st.integers(1, 3))
    def post_receives(self, node: int, pair: int, count: int) -> None:
        self.world.post_receives(node, pair, count)

    @rule(node=NODE, pair=PAIR, how=st.sampled_from(["error", "destroy", "bad R_Key", "bad range", "no receive"]))
    @precondition(lambda self: self.may_doom)
    def doom(self, node: int, pair: int, how: str) -> None:
        """Once an example, or little else would be tested."""
        self.may_doom = False
        if how == "error":
            self.world.error(node, pair)
        elif how == "destroy":
            self.world.destroy(node, pair)
        elif how == "no receive" and self.setting.config.max_wimm:
            self.world.post(node, pair, 300, immediate=True, receive=False)
        else:
            self.world.post_bad(node, pair, beyond=how == "bad range")

    may_doom = True

    @rule(pair=PAIR)
    @precondition(lambda self: not self.may_doom)
    def replace_pair(self, pair: int) -> None:
        self.world.replace(pair)

    @rule(node=NODE, pair=PAIR, units=st.integers(1, 5))
    def set_window(self, node: int, pair: int, units: int) -> None:
        self.world.set_window(node, pair, units)

    @rule(node=NODE, pair=PAIR, penalty=st.sampled_from([0, 1, 127]), restore=st.booleans())
    def set_penalty(self, node: int, pair: int, penalty: int, restore: bool) -> None:
        self.world.set_penalty(node, pair, penalty, restore)

    @rule(node=NODE, pair=PAIR, index=st.integers(0, 7), denied=st.booleans())
    def deny(self, node: int, pair: int, index: int, denied: bool) -> None:
        self.world.deny(node, pair, index, denied)

    @rule(node=NODE, index=st.integers(0, 7))
    def probe_ev(self, node: int, index: int) -> None:
        self.world.probe_ev(node, index)

    @rule(node=NODE, plane=st.integers(0, 1), up=st.booleans())
    def set_port(self, node: int, plane: int, up: bool) -> None:
        self.world.set_port(node, plane, up)

    @rule(node=NODE, plane=st.integers(0, 1), has_room=st.booleans())
    def set_room(self, node: int, plane: int, has_room: bool) -> None:
        self.world.set_room(node, plane, has_room)

    @rule(node=NODE, held=st.booleans())
    def hold_back(self, node: int, held: bool) -> None:
        self.world.hold_back(node, held)

    # ------------------------------------------------------------------ the network

    @rule(to=NODE, picks=PICKS)
    def deliver(self, to: int, picks: list[int]) -> None:
        self.world.deliver(to, picks)

    @rule(to=NODE, start=PLACE, count=COUNT, backwards=st.booleans())
    def deliver_run(self, to: int, start: int, count: int, backwards: bool) -> None:
        self.world.deliver_run(to, start, count, backwards=backwards)

    @rule(rounds=st.integers(1, 4))
    def calm(self, rounds: int) -> None:
        self.world.calm(rounds)

    @rule(duration=st.sampled_from(PAUSES), late=st.booleans())
    def pause(self, duration: int, late: bool) -> None:
        self.world.pause(duration, late=late)

    @rule(to=NODE, start=PLACE, count=COUNT)
    def drop(self, to: int, start: int, count: int) -> None:
        self.world.drop(to, start, count)

    @rule(to=NODE, start=PLACE, count=COUNT)
    def duplicate(self, to: int, start: int, count: int) -> None:
        self.world.network.duplicate(to, start, count)

    @rule(to=NODE, start=PLACE, count=COUNT)
    def set_aside(self, to: int, start: int, count: int) -> None:
        self.world.network.set_aside(to, start, count)

    @rule(to=NODE)
    def let_go(self, to: int) -> None:
        self.world.network.let_go(to)

    @rule(to=NODE, at=PLACE, bit=BIT)
    def corrupt(self, to: int, at: int, bit: int) -> None:
        self.world.network.corrupt(to, at, bit)

    @rule(to=NODE, start=PLACE, count=COUNT, lasthop=st.booleans())
    def trim(self, to: int, start: int, count: int, lasthop: bool) -> None:
        self.world.network.trim(to, start, count, lasthop)

    @rule(to=NODE, start=PLACE, count=COUNT)
    def mark(self, to: int, start: int, count: int) -> None:
        self.world.network.mark(to, start, count)

    @rule(to=NODE, start=PLACE, count=COUNT, reason=st.sampled_from(UNKNOWN_REASONS))
    def change_reasons(self, to: int, start: int, count: int, reason: int) -> None:
        self.world.change_reasons(to, start, count, reason)

    @rule(to=NODE, plane=st.integers(0, 1), spine=st.integers(0, 3))
    def cut(self, to: int, plane: int, spine: int) -> None:
        self.world.cut(to, plane, spine)

    @rule()
    def heal(self) -> None:
        self.world.network.heal()

    # ------------------------------------------------------------------ what holds

    @invariant()
    def memory_is_old_or_new(self) -> None:
        if hasattr(self, "world"):
            self.world.check_memory()

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.relent()


def against(setting: Setting) -> None:
    """Run the machine against nodes like this: CI at 60 examples compiled and 15 interpreted, elsewhere at a third of
    what its profile says."""
    machine = type("AdversaryOf", (Adversary,), {"setting": setting})
    profile = settings.default
    assert profile is not None
    in_ci = os.environ.get("CI", "").lower() == "true"
    in_full = draws(60 if CORE.kind == COMPILED else 15)
    examples = in_full if in_ci else max(1, profile.max_examples // 3)
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        machine, settings=settings(profile, max_examples=examples, stateful_step_count=STEPS)
    )
