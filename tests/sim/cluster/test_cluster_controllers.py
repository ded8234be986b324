# SPDX-License-Identifier: BSD-2-Clause
"""Controllers of the user's that go wrong: the run ends with what they raised, in both cores alike."""

from __future__ import annotations

from typing import Any

import pytest
from cluster_setups import BUSY, PLAIN, incast, permutation

from mrc.endpoint.congestion import CongestionController, ControllerFailed, PacketSizes
from mrc.errors import CallerError
from mrc.sim.cluster import Policies, Setup, Topology, run

SHAPE = Topology(8, planes=1, hosts_per_leaf=2, spines=2)


class Steady(CongestionController):
    """A window of a hundred thousand bytes."""

    window: Any = 100_000

    def __init__(self, sizes: PacketSizes) -> None:
        super().__init__()

    @property
    def cwnd(self) -> Any:
        return self.window

    def on_ack(self, *signals: Any, **more: Any) -> None:
        """Nothing."""

    on_loss = on_nack = on_rtt = on_ack


def simulated(controller: Any, shards: int = 1, threads: int = 1) -> Any:
    policies = Policies(evs=None, controller=controller)
    setup = Setup(
        SHAPE, incast(8, 60_000), BUSY, PLAIN, policies=policies, end_ns=20_000_000, shards=shards, threads=threads
    )
    return run(setup)


def test_a_controller_that_works_is_let_be() -> None:
    assert (simulated(Steady).flows.completed > 0).all()


@pytest.mark.parametrize("shards", [1, 4])
@pytest.mark.parametrize("where", ["on_ack", "on_nack", "on_rtt", "cwnd"])
def test_what_a_controller_raises_ends_the_run(where: str, shards: int) -> None:
    def raises(self: Any, *signals: Any, **more: Any) -> Any:
        raise ValueError("a fault of the author's")

    members = {where: property(raises) if where == "cwnd" else raises}
    if where == "on_rtt":
        members["wants_base_rtt"] = property(lambda self: True)
    faulty = type("Faulty", (Steady,), members)
    with pytest.raises(ControllerFailed) as caught:
        simulated(faulty, shards=shards, threads=min(2, shards))
    assert str(caught.value) == f"congestion controller Faulty raised in {where}: ValueError: a fault of the author's"
    assert isinstance(caught.value.__cause__, ValueError)


def test_only_the_first_error_counts() -> None:
    class Counting(Steady):
        raised = 0

        def on_ack(self, *signals: Any, **more: Any) -> None:
            Counting.raised += 1
            raise KeyError(f"number {Counting.raised}")

    with pytest.raises(ControllerFailed, match="number 1"):
        simulated(Counting)
    # The run ends soon: with the batch under way, not after a million packets.
    assert Counting.raised < 100


@pytest.mark.parametrize(
    "window", [float("nan"), float("inf"), float("-inf"), -1, -(1 << 80), 1 << 80, None, "wide", 1j],
    ids=["nan", "inf", "-inf", "negative", "far below", "far above", "none", "text", "complex"],
)  # fmt: skip
def test_a_window_that_is_none_ends_the_run(window: Any) -> None:
    faulty = type("Faulty", (Steady,), {"window": window})
    with pytest.raises(ControllerFailed, match="congestion controller Faulty"):
        simulated(faulty)


@pytest.mark.parametrize("window", [0, 0.0, 0.4])
def test_a_window_that_is_shut_for_good_ends_the_run(window: float) -> None:
    faulty = type("Faulty", (Steady,), {"window": window})
    with pytest.raises(ControllerFailed, match=r"Faulty has a window of 0.* at the end: write 0 of host 1 to host 0"):
        simulated(faulty)


def test_a_window_that_shuts_after_a_while_ends_the_run() -> None:
    class Shrinking(Steady):
        def on_ack(self, *signals: Any, **more: Any) -> None:
            self.window = 0

    with pytest.raises(ControllerFailed, match="has a window of 0 bytes at the end"):
        simulated(Shrinking)


def test_a_window_of_fractions_is_rounded_down() -> None:
    whole, more = (type("Odd", (Steady,), {"window": each}) for each in (50_000, 50_000.9))
    assert simulated(whole).flows.completed.tolist() == simulated(more).flows.completed.tolist()


@pytest.mark.parametrize(
    ("factory", "says"),
    [
        (lambda sizes: None, "which is no CongestionController"),
        (lambda sizes: 7, "which is no CongestionController"),
        (lambda sizes: 1 // 0, "integer division"),
    ],
)
def test_a_factory_that_makes_no_controller_is_refused(factory: Any, says: str) -> None:
    with pytest.raises((CallerError, ZeroDivisionError), match=says):
        simulated(factory)


def test_a_choice_of_evs_that_raises_ends_the_run() -> None:
    def choice(request: Any) -> Any:
        raise LookupError("no way out")

    policies = Policies(evs=1, ev_choice=choice)
    with pytest.raises(LookupError, match="no way out"):
        run(Setup(SHAPE, permutation(8, 100), PLAIN, PLAIN, policies=policies))
