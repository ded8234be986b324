# SPDX-License-Identifier: BSD-2-Clause
"""The lines between an agent and the collector: JSON, one object a line, over a local stream socket.

    collector: {"version": 2, "fabric": NAME, "leaves": 4}       first, or {"refused": REASON}
    agent:     {"version": 2, "host": 0, "rate": 100, "loops": [[own leaf, ..., own host], ...]}  by uSIDs
    agent:     {"sent_ns": ..., "back": [...], "rtt_us": [...], "lost": [...], "void": 0}   a tick; loops by number
    agent:     {"sent": ..., "late": ..., "repeated": ..., "foreign": ..., "cpu_s": ...}    every second

What comes from an agent is checked here; nothing behind this module sees a line.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeGuard

from mrc.errors import CallerError, PeerError
from mrc.fabric.address import node_of_usid
from mrc.map.loops import Loop
from mrc.map.prober import MOST_RATE, Counters, Report
from mrc.untrusted import NotJson, parse_json, quoted

VERSION = 2
LONGEST_LINE = 1 << 20
_MOST_LOOPS = 20_000
_MOST_IN_A_TICK = 4 * MOST_RATE
# CLOCK_MONOTONIC in nanoseconds stays below this for a century.
_MOST_NS = 1 << 62
_QUOTES = "'\""
_LONGEST_RTT_US = 3_600_000_000


@dataclass(frozen=True, slots=True)
class Welcome:
    """What an agent receives: the lab's name, and how many leaves each plane has."""

    fabric: str
    leaves: int


@dataclass(frozen=True, slots=True)
class Hello:
    """What an agent says first: its host, how many probes a second it sends, and the loops that its reports number."""

    host: int
    rate: int
    loops: tuple[Loop, ...]


@dataclass(frozen=True, slots=True)
class Totals:
    """An agent's counters since it began, and the processor time that it has taken, in seconds."""

    counters: Counters
    cpu_s: float


def to_line(document: dict[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode() + b"\n"


def welcome_line(welcome: Welcome) -> bytes:
    return to_line({"version": VERSION, "fabric": welcome.fabric, "leaves": welcome.leaves})


class CollectorRefused(PeerError):
    """The collector wants no agent just now, and says why."""


def refusal_line(reason: str) -> bytes:
    return to_line({"refused": reason})


def hello_line(hello: Hello) -> bytes:
    loops = [each.usids for each in hello.loops]
    return to_line({"version": VERSION, "host": hello.host, "rate": hello.rate, "loops": loops})


def report_line(report: Report) -> bytes:
    return to_line(asdict(report))


def totals_line(totals: Totals) -> bytes:
    return to_line({**asdict(totals.counters), "cpu_s": round(totals.cpu_s, 4)})


def read_welcome(line: bytes) -> Welcome:
    """Raises CollectorRefused when that is what it says, PeerError for anything else that is no welcome."""
    document = _object(line)
    if "refused" in document:
        raise CollectorRefused(f"the collector refuses: {quoted(document['refused'], 200).strip(_QUOTES)}")
    if document.get("version") != VERSION:
        raise PeerError("the collector is of another version of mrc")
    fabric = document.get("fabric")
    if not isinstance(fabric, str):
        raise PeerError("the collector's welcome names no fabric")
    return Welcome(fabric, _number(document, "leaves", 1, 256))


def read_hello(line: bytes) -> Hello:
    """Raises PeerError for anything but a well-formed hello."""
    document = _object(line)
    if document.get("version") != VERSION:
        raise PeerError("the agent is of another version of mrc")
    host = _number(document, "host", 0, 255)
    listed = document.get("loops")
    if not isinstance(listed, list) or not 0 < len(listed) <= _MOST_LOOPS:
        raise PeerError("loops is not a list of loops")
    loops = tuple(_loop(host, each) for each in listed)
    if len(set(loops)) != len(loops):
        raise PeerError("a loop is listed twice")
    return Hello(host, _number(document, "rate", 1, MOST_RATE), loops)


def read_result(line: bytes, loop_count: int) -> Report | Totals:
    """A report or totals of an agent with so many loops. Raises PeerError for anything else."""
    document = _object(line)
    if "sent_ns" not in document:
        counts = (_number(document, name, 0, _MOST_NS) for name in ("sent", "late", "repeated", "foreign"))
        cpu = document.get("cpu_s")
        if isinstance(cpu, bool) or not isinstance(cpu, int | float) or not 0 <= cpu < 1e9:
            raise PeerError("cpu_s is not a number of seconds")
        return Totals(Counters(*counts), float(cpu))
    back = _numbers(document, "back", 0, loop_count - 1)
    rtt_us = _numbers(document, "rtt_us", -1, _LONGEST_RTT_US)
    if len(back) != len(rtt_us):
        raise PeerError("back and rtt_us are not of the same length")
    return Report(
        _number(document, "sent_ns", 0, _MOST_NS),
        back,
        rtt_us,
        _numbers(document, "lost", 0, loop_count - 1),
        _number(document, "void", 0, _MOST_IN_A_TICK),
    )


def _object(line: bytes) -> dict[str, Any]:
    try:
        document = parse_json(line, "a line")
    except NotJson as error:
        raise PeerError(str(error)) from None
    if not isinstance(document, dict):
        raise PeerError("a line is not a JSON object")
    return document


def _number(document: dict[str, Any], name: str, least: int, most: int) -> int:
    value = document.get(name)
    if not _is_number(value, least, most):
        raise PeerError(f"{name} is not a whole number from {least} to {most}")
    return value


def _numbers(document: dict[str, Any], name: str, least: int, most: int) -> tuple[int, ...]:
    values = document.get(name)
    if not isinstance(values, list) or len(values) > _MOST_IN_A_TICK:
        raise PeerError(f"{name} is not a list")
    if not all(_is_number(value, least, most) for value in values):
        raise PeerError(f"{name} holds something else than whole numbers from {least} to {most}")
    return tuple(values)


def _is_number(value: Any, least: int, most: int) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _loop(host: int, usids: Any) -> Loop:
    if not isinstance(usids, Sequence) or not usids or not all(_is_number(each, 0, 0xFFFF) for each in usids):
        raise PeerError("a loop is not a list of uSIDs")
    named = node_of_usid(usids[0])
    if named is None:
        raise PeerError("the first uSID of a loop names no node")
    try:
        loop = Loop(named[0], tuple(usids))
    except CallerError as error:
        raise PeerError(str(error)) from None
    if loop.host != host:
        raise PeerError(f"a loop of h{loop.host} among those of h{host}")
    return loop
