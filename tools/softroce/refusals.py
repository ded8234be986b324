# SPDX-License-Identifier: BSD-2-Clause
"""What must not succeed, and what must wait: wrong keys and ranges, other requests than writes, missing receives."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pair import MEMORY_BYTES, PATIENCE_S, Pair, Write
from peer import REMOTE_ACCESS_ERROR, REMOTE_INVALID_REQUEST, SUCCESS, Peer
from transfers import VERSIONS

from mrc.endpoint.completions import WorkStatus
from mrc.endpoint.qp_states import QpState
from mrc.errors import PeerError
from mrc.rc.node import RcNode

_PATH_MTU = 1024
_OFFSET, _LENGTH, _IMMEDIATE = 100, 3000, 0xC0FFEE
_FLUSHED = 5  # enum ibv_wc_status


@dataclass(frozen=True, slots=True)
class Check:
    """One question, over one IP version: what was expected to happen and what did."""

    version: int
    what: str
    expected: str
    actual: str

    @property
    def passed(self) -> bool:
        return self.expected == self.actual


def checks(node: RcNode, peer: Peer) -> Iterator[Check]:
    """Every check, as soon as it is done."""
    for version in VERSIONS:
        for what, (expected, ask) in _QUESTIONS.items():
            with Pair(node, peer, version, _PATH_MTU) as pair:
                yield Check(version, what, expected, ask(pair))


def _our_statuses(pair: Pair, count: int) -> str:
    return ", ".join(done.status.name for done in pair.take(count))


def _our_wrong_key(pair: Pair) -> str:
    pair.write(Write(_OFFSET, _LENGTH), rkey=pair.theirs.rkey ^ 0xFF00)
    pair.write(Write(_OFFSET, _LENGTH))
    return _our_statuses(pair, 2)


def _our_wrong_range(pair: Pair) -> str:
    pair.write(Write(_OFFSET, _LENGTH), va=pair.theirs.va + pair.theirs.length - _LENGTH + 1)
    return _our_statuses(pair, 1)


def _their_statuses(pair: Pair, count: int) -> str:
    names = {SUCCESS: "SUCCESS", REMOTE_INVALID_REQUEST: "REM_INV_REQ_ERR", REMOTE_ACCESS_ERROR: "REM_ACCESS_ERR"}
    names[_FLUSHED] = "WR_FLUSH_ERR"
    told = ", ".join(names.get(done.status, str(done.status)) for done in pair.poll(count))
    return f"{told}; our QP in {pair.qp.state.name}"


def _their_wrong_key(pair: Pair) -> str:
    pair.peer.write(_OFFSET, _LENGTH, pair.region.va, pair.region.rkey ^ 0xFF00)
    pair.peer.write(_OFFSET, _LENGTH, pair.region.va, pair.region.rkey)
    told = _their_statuses(pair, 2)
    return told if pair.memory.count(0) == MEMORY_BYTES else f"{told}; something was written"


def _their_wrong_range(pair: Pair) -> str:
    pair.peer.write(_OFFSET, _LENGTH, pair.region.va + MEMORY_BYTES - _LENGTH + 1, pair.region.rkey)
    return _their_statuses(pair, 1)


def _their_send(pair: Pair) -> str:
    pair.receive(1)
    pair.peer.send(_LENGTH)
    return _their_statuses(pair, 1)


def _their_read(pair: Pair) -> str:
    pair.peer.read(_LENGTH, pair.region.va, pair.region.rkey)
    return _their_statuses(pair, 1)


def _our_immediate_waits(pair: Pair) -> str:
    pair.write(Write(_OFFSET, _LENGTH, _IMMEDIATE))
    _wait(pair, "rnr_naks_received")
    pair.peer.receive(1)
    (ours,), (theirs,) = pair.take(1), pair.poll(1)
    return f"{ours.status.name}, {theirs.immediate:#x}"


def _their_immediate_waits(pair: Pair) -> str:
    pair.peer.write(_OFFSET, _LENGTH, pair.region.va, pair.region.rkey, _IMMEDIATE)
    _wait(pair, "rnr_naks_sent")
    pair.receive(1)
    (ours,), theirs = pair.take(1), pair.poll(1)
    told = "SUCCESS" if [done.status for done in theirs] == [SUCCESS] else str(theirs)
    return f"{told}, {ours.immediate:#x}"


def _wait(pair: Pair, counter: str) -> None:
    """Until the counter has moved twice: one that was told to wait came back and was told again."""
    until = time.monotonic() + PATIENCE_S
    while pair.count(counter) < 2:
        if time.monotonic() > until:
            raise PeerError(f"{counter} stays at {pair.count(counter)}")
        time.sleep(0.001)


_ENDED = f"our QP in {QpState.ERROR.name}"
_QUESTIONS: dict[str, tuple[str, Callable[[Pair], str]]] = {
    "our write with a wrong R_Key": (
        f"{WorkStatus.REMOTE_ACCESS_ERROR.name}, {WorkStatus.FLUSHED.name}",
        _our_wrong_key,
    ),
    "our write beyond its memory": (WorkStatus.REMOTE_ACCESS_ERROR.name, _our_wrong_range),
    "its write with a wrong R_Key": (f"REM_ACCESS_ERR, WR_FLUSH_ERR; {_ENDED}", _their_wrong_key),
    "its write beyond our memory": (f"REM_ACCESS_ERR; {_ENDED}", _their_wrong_range),
    "its SEND": (f"REM_INV_REQ_ERR; {_ENDED}", _their_send),
    "its READ": (f"REM_INV_REQ_ERR; {_ENDED}", _their_read),
    "our immediate before its receive": (f"SUCCESS, {_IMMEDIATE:#x}", _our_immediate_waits),
    "its immediate before our receive": (f"SUCCESS, {_IMMEDIATE:#x}", _their_immediate_waits),
}
