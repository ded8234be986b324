# SPDX-License-Identifier: BSD-2-Clause
"""What happens in the drill: the same job over each transport, in fair weather and while the network breaks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mrc.bench.mptcp import MptcpSockets
from mrc.bench.torch_build import why_no_torch
from mrc.drill.pinning import pin
from mrc.drill.recording import BEGIN, END
from mrc.drill.stage import Stage
from mrc.drill.training.crew import Crew
from mrc.drill.training.plan import MPTCP, MRC, TCP, RankPlan
from mrc.errors import SystemRefused

HOST_RATE_BPS = 200_000_000
QUEUE_BYTES = 500_000
SPINE, LEAVES = "p0s0", ("p0l0", "p0l1")
PORT = "h0-p0l0"
LOSS = 0.01

FAIR, FOUL, PORT_GONE = "fair", "foul", "port gone"
# In fair and foul weather gloo waits for longer than any of the failures lasts.
_PATIENCE_S, _PATIENCE_PORT_GONE_S = 30.0, 10.0
_LONGEST_JOB_S = 120.0

Deed = tuple[float, Callable[[Stage], None]]


def _lossy_cables(stage: Stage) -> list[str]:
    """Every path crosses one of them each way."""
    return [link.name for link in stage.lab.topology.fabric_links() if link.lower.endswith("l0")]


def _lose(stage: Stage) -> None:
    for link in _lossy_cables(stage):
        stage.impair(link, loss=LOSS)


def _lose_no_more(stage: Stage) -> None:
    for link in _lossy_cables(stage):
        stage.clear(link)


def _cut(target: str) -> Callable[[Stage], None]:
    return lambda stage: stage.cut(target)


def _heal(target: str) -> Callable[[Stage], None]:
    def deed(stage: Stage) -> None:
        stage.heal(target)
        _pin(stage)

    return deed


def _pin(stage: Stage) -> None:
    """What the kernel's own protocols send in plane 0 crosses the spine that dies. A route goes with its cable, so that
    this is needed again after a repair."""
    for leaf, other in zip(LEAVES, reversed(LEAVES), strict=True):
        for link in stage.lab.topology.host_links():
            if link.upper == other:
                pin(stage.lab, leaf, SPINE, stage.lab.addresses(link.lower)[0])


_FLAPS_AT_S, _FLAPS, _DOWN_S, _UP_S = 6.8, 3, 0.25, 0.4
# Seconds after the first step began. All is mended before the links, at their rate, can have carried 100 steps: that
# takes 8.2 s, and half a second more for the second without a port. TCP doubles its timer: what it tries 3 s after the
# spine's end is in vain, and it comes through another 3 s later.
_FOUL: tuple[Deed, ...] = (
    (1.0, _cut(SPINE)),
    (4.2, _heal(SPINE)),
    (4.5, _cut(PORT)),
    (5.5, _heal(PORT)),
    (5.7, _lose),
    (6.7, _lose_no_more),
    *(
        (_FLAPS_AT_S + number * (_DOWN_S + _UP_S) + after, deed)
        for number in range(_FLAPS)
        for after, deed in ((0.0, _cut(SPINE)), (_DOWN_S, _heal(SPINE)))
    ),
)
_PORT_GONE: tuple[Deed, ...] = ((1.5, _cut(PORT)),)


def perform(stage: Stage, model: str) -> None:
    """Train `model` in every job on every transport there is. Nothing else runs while one of them does."""
    stage.limit_hosts(rate_bps=HOST_RATE_BPS, queue_bytes=QUEUE_BYTES)
    crews = [Crew(stage, MRC, stage.directory, model=model), *_rivals(stage, model)]
    for crew in crews:
        crew.wait_ready()
    stage.start_clock()
    for crew in crews:
        _run(stage, crew, FAIR, ())
        _run(stage, crew, FOUL, _FOUL)
    for crew in crews:
        if crew.transport in (MRC, TCP):
            _run(stage, crew, PORT_GONE, _PORT_GONE)


def _run(stage: Stage, crew: Crew, weather: str, deeds: Sequence[Deed]) -> None:
    stage.say(f"training over {crew.transport.upper()}, {_WORDS[weather]}")
    _pin(stage)
    patience_s = _PATIENCE_PORT_GONE_S if weather == PORT_GONE else _PATIENCE_S
    plan = RankPlan(crew.transport, 0, len(stage.lab.topology.hosts), stage.seed, "", "", patience_s)
    began_ns = crew.begin(plan)
    stage.note(began_ns, BEGIN, f"{crew.transport}, {weather}")
    done = 0
    for at_s, deed in deeds:
        if not crew.until(began_ns + round(at_s * 1e9)):
            break
        deed(stage)
        done += 1
    job = crew.result(weather, _LONGEST_JOB_S)
    stage.jobs.append(job)
    stage.note(job.ended_ns, END, f"{crew.transport}, {weather}")
    if deeds and (done < len(deeds) or weather == PORT_GONE):
        _mend(stage)


def _mend(stage: Stage) -> None:
    """What a job that ended early, or was not to see it mended, left broken."""
    stage.heal(SPINE, PORT)
    _lose_no_more(stage)


_WORDS = {FAIR: "nothing breaks", FOUL: "the network breaks", PORT_GONE: "a port is cut for good"}


# ---------------------------------------------------------------------- what it is compared with


def _rivals(stage: Stage, model: str) -> list[Crew]:
    """Gloo over TCP and over MPTCP, where this machine has what they need; why not is noted as `missing`."""
    reasons: dict[str, str] = stage.extra.setdefault("missing", {})
    for transport in (TCP, MPTCP):
        if (reason := why_no_torch(f"gloo over {transport.upper()}")) is not None:
            reasons[transport] = reason
    if reasons:
        return []
    crews = [Crew(stage, TCP, stage.directory, model=model)]
    sockets = MptcpSockets("gloo over MPTCP", stage.directory)
    try:
        sockets.check()
        sockets.prepare(stage.lab, stage.lab.topology.hosts)
    except SystemRefused as error:
        reasons[MPTCP] = str(error)
        return crews
    return [*crews, Crew(stage, MPTCP, stage.directory, sockets.environment, model)]
