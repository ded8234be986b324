# SPDX-License-Identifier: BSD-2-Clause
"""Targets that are wrong in ways no script foresees: this project's endpoint, of which each packet is altered, or that
tells nothing of itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from mrc.conformance.codec.carriage import read_carriage
from mrc.conformance.codec.headers import WRITES
from mrc.conformance.codec.icrc import icrc, icrc_bytes
from mrc.conformance.setup import Setup
from mrc.conformance.target import Frame, Session, TargetCompletion, TargetEvent
from mrc.conformance.targets.in_process import InProcess, InProcessQp, InProcessSession
from mrc.wire.profile import WireProfile

Alter = Callable[[Frame], Sequence[Frame]]
_PSN_AT, _UDP, _ICRC = 9, 8, 4


class WildSession(InProcessSession):
    alter: Alter

    def collect(self, now: int) -> Sequence[Frame]:
        return [each for frame in super().collect(now) for each in self.alter(frame)]


class WildTarget(InProcess):
    def __init__(self, alter: Alter) -> None:
        super().__init__("wild")
        self._alter = alter

    def open(self, setup: Setup, wire: WireProfile, seed: int) -> Session:
        session = super().open(setup, wire, seed)
        session.__class__ = WildSession
        session.__dict__["alter"] = self._alter
        return session


def _changed(frame: Frame, at: int, value: bytes) -> Frame:
    """Other bytes at `at` behind the UDP header of the inner packet, and the ICRC of that."""
    found = read_carriage(frame.data)
    assert not isinstance(found, str)
    start = found.transport_at + at
    data = frame.data[:start] + value + frame.data[start + len(value) :]
    return replace(frame, data=data[:-_ICRC] + icrc_bytes(icrc(data[found.inner_at : -_ICRC])))


def _opcode(frame: Frame) -> int:
    found = read_carriage(frame.data)
    assert not isinstance(found, str)
    return frame.data[found.transport_at]


def silent(frame: Frame) -> Sequence[Frame]:
    return ()


def twice(frame: Frame) -> Sequence[Frame]:
    return frame, frame


def elsewhere(frame: Frame) -> Sequence[Frame]:
    """On a plane that there is not."""
    return (replace(frame, plane=frame.plane + 40),)


def broken_off(frame: Frame) -> Sequence[Frame]:
    return (replace(frame, data=frame.data[:30]),)


def random_bytes(frame: Frame) -> Sequence[Frame]:
    return (replace(frame, data=bytes(at * 37 % 251 for at in range(len(frame.data)))),)


def far_psns(frame: Frame) -> Sequence[Frame]:
    """Writes, acknowledgements and all else with PSNs a quarter of the space away."""
    found = read_carriage(frame.data)
    assert not isinstance(found, str)
    psn = frame.data[found.transport_at + _PSN_AT] ^ 0x40
    return (_changed(frame, _PSN_AT, bytes((psn,))),)


def foreign_evs(frame: Frame) -> Sequence[Frame]:
    """By an EV that is none of its profile."""
    return (_changed(frame, -_UDP, b"\xee\xee"),)


def other_opcodes(frame: Frame) -> Sequence[Frame]:
    """Every write is a Middle."""
    return (_changed(frame, 0, b"\xc7"),) if _opcode(frame) in WRITES else (frame,)


def writes_alone(frame: Frame) -> Sequence[Frame]:
    """It answers nothing."""
    return (frame,) if _opcode(frame) in WRITES else ()


def answers_alone(frame: Frame) -> Sequence[Frame]:
    """It writes nothing."""
    return () if _opcode(frame) in WRITES else (frame,)


ALTERATIONS: tuple[Alter, ...] = (
    *(silent, twice, elsewhere, broken_off, random_bytes, far_psns, foreign_evs, other_opcodes, writes_alone),
    answers_alone,
)


class MuteSession(InProcessSession):
    """It may be asked for everything and knows nothing."""

    def counters(self) -> Mapping[str, int]:
        return {}

    def events(self) -> Sequence[TargetEvent]:
        return ()

    def ev_probe_results(self) -> Mapping[int, int | None]:
        return {}

    def connect(self, setup: Setup, tester: Any) -> Any:
        qp = super().connect(setup, tester)
        qp.__class__ = MuteQp
        return qp


class MuteQp(InProcessQp):
    def state(self) -> str:
        return "RTS"

    def completions(self) -> Sequence[TargetCompletion]:
        return ()

    def ev_states(self) -> Mapping[int, str]:
        return {}


class MuteTarget(InProcess):
    def open(self, setup: Setup, wire: WireProfile, seed: int) -> Session:
        session = super().open(setup, wire, seed)
        session.__class__ = MuteSession
        return session
