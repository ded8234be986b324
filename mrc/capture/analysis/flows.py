# SPDX-License-Identifier: BSD-2-Clause
"""Which packets belong together: the requests of one QP to its peer over all addresses, and what answers them.

A request names only the responder's QPN, an answer only the requestor's; a QP has an address in every plane. So what
binds them is looked for: the same QPN and PSNs and MSNs close by, the low 16 bits of QPNs in SACKs, either way round,
mirrored addresses. The first packets of an address pair and QPN (a leg) decide; the rest follow.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from mrc.capture.analysis.acknowledged import NEVER
from mrc.capture.analysis.distances import LEAST_TOLERANCE_NS, Apart
from mrc.capture.analysis.drift import Drift
from mrc.capture.analysis.one_way import Later
from mrc.capture.analysis.records import CNP, ENDPOINT, OTHER, PROBE, REQUEST, REQUEST_ROW, Fields
from mrc.capture.columns import Columns
from mrc.capture.frames import I64, Bools, rows_at
from mrc.capture.rows import Rows, empty_rows
from mrc.capture.summary import Summary
from mrc.wire.opcodes import Op
from mrc.wire.psn import PSN_MASK, psn_diff_array, unwrap

# PSNs further apart are another connection's; a new leg joins a flow only when it is nearer than that.
_SAME_FLOW = 1 << 20
_NEAR_PSN, _NEAR_MSN = 1 << 16, 1 << 12
# Junk can look like a new QP in every packet.
MOST_FLOWS = 4096
_MOST_PATHS = 65536

Pair = tuple[bytes, bytes]


class Leg(NamedTuple):
    """Source and destination (4 or 16 bytes each), destination QPN, and one of the kinds of `records`."""

    source: bytes
    destination: bytes
    qpn: int
    kind: int


class PathSeen(NamedTuple):
    """How a path looks in the first packet on it that has most of its way before it: uSIDs or addresses in words, how
    many uSIDs are left there, and its addresses."""

    text: str
    left: int
    pair: Pair


class Reached(NamedTuple):
    """When packets passed the place near the responder, by the clock of that place: by their number in the file, of
    the sighting that counts."""

    numbers: I64
    time: I64

    def of(self, numbers: I64) -> I64:
        """NEVER for those not seen there."""
        found = np.full(len(numbers), NEVER)
        if len(self.numbers):
            at = np.minimum(np.searchsorted(self.numbers, numbers), len(self.numbers) - 1)
            there = self.numbers[at] == numbers
            found[there] = self.time[at[there]]
        return found


class ClockOffset(NamedTuple):
    """How far the clock of the place near the responder is ahead of the other, in nanoseconds: at `least` and at
    `most`, for no packet comes before it was sent; `ns` if the quickest packets take as long there as back. Without the
    two bounds, which packets at two clocks that drift contradict, `ns` is that of the packets in the middle."""

    ns: int
    least: int | None = None
    most: int | None = None

    @classmethod
    def of(cls, above: I64, below: I64) -> ClockOffset:
        """Of answers and of requests how much later the far place's clock saw each than the near one's: the offset is
        `above` the first and `below` the second, by as long as each was on its way."""
        least, most = int(above.max()), int(below.min())
        if least > most:
            return cls(int(np.median(above) + np.median(below)) // 2)
        return cls((least + most) // 2, least, most)


@dataclass(frozen=True, slots=True)
class Copies:
    """What `mrc.capture.analysis.copies` took out of a flow: `copies` are second sightings by the capture,
    `duplicates` those that only a few of its requests have. `clock_offset`: None where one-way times do not show
    that the clock of the place near the responder is off. `there` and `back`: how much later
    the far place saw requests, and how much earlier answers, than the near one. `later` and `later_back`: by EV, how
    much later its requests, and the answers sent on it, came to the other place than those of the quicker paths."""

    copies: int = 0
    duplicates: int = 0
    # Of MRC, the second ones.
    doubled: Rows = field(default_factory=lambda: empty_rows(0, REQUEST_ROW))
    clock_offset: ClockOffset | None = None
    there: Apart | None = None
    back: Apart | None = None
    # Answers and requests are there more often than the distances found explain, or one place alone has some twice.
    is_unclear: bool = False
    # Of RC, most packets once more behind all others: copies, or sent again.
    may_be_resent: bool = False
    drift: Drift | None = None
    # Of MRC, where hop limits tell two places apart: of requests, and of answers.
    reached: Reached | None = None
    answered: Reached | None = None
    later: dict[int, Later] = field(default_factory=dict)
    later_back: dict[int, Later] = field(default_factory=dict)

    @property
    def of_two_places(self) -> bool:
        """Whether packets were seen at two places, and not twice at one."""
        return self.there is not None and (bool(self.there.far) or abs(self.there.usual) >= LEAST_TOLERANCE_NS)


class Flow:
    """Requests in one direction and their answers. `qpn` is the responder's QPN (the requests' DQP), `requestor_qpn`
    the answers'; each is None until a packet with it is seen. `pairs` are the (source, destination) of requests, `bad`
    requests that no endpoint takes. `paths` are those of requests by EV, `answer_paths` those of answers."""

    def __init__(self, mrc: bool, near: int) -> None:
        self.mrc, self.near = mrc, near
        self.qpn: int | None = None
        self.requestor_qpn: int | None = None
        self.msn = -1
        self.pairs: list[Pair] = []
        self.paths: dict[int, PathSeen] = {}
        self.answer_paths: dict[int, PathSeen] = {}
        self.requests: list[Rows] = []
        self.bad: list[Rows] = []
        self.answers: list[Rows] = []
        self.probes: list[Rows] = []
        self.congestion_notifications: list[Rows] = []
        self.copies = Copies()
        # Of RC: a pause may stand between two sightings of one packet (`forward_steps`).
        self.torn = False

    def distance(self, psn: int) -> int:
        """How many PSNs lie between one and the latest."""
        return abs(unwrap(psn, self.near) - self.near)

    def join(self, half: Flow) -> None:
        """Take over answers that were a flow of their own, their PSNs unwrapped beside ours."""
        shift = unwrap(half.near & PSN_MASK, self.near) - half.near
        for rows in half.answers:
            for name in ("cack", "trigger", "base"):
                rows[name] += shift
        self.answers += half.answers
        for ev, seen in half.answer_paths.items():
            known = self.answer_paths.get(ev)
            if known is None or known.left < seen.left:
                self.answer_paths[ev] = seen
        self.requestor_qpn = half.requestor_qpn


class Flows:
    """Takes in runs and sorts their packets; `all` are the flows, in order of appearance."""

    def __init__(self) -> None:
        self.all: list[Flow] = []
        self.left_out = 0
        self.endpoint_operations: dict[Pair, list[Rows]] = {}
        self._leg_flow: dict[Leg, Flow] = {}
        self._by_qpn: dict[int, list[Flow]] = {}
        self._by_requestor: dict[int, list[Flow]] = {}
        self._by_pair: dict[Pair, list[Flow]] = {}
        self._by_low_16: dict[int, list[Flow]] = {}
        self._waiting: list[tuple[Leg, Rows]] = []
        self._aside: list[tuple[Leg, Rows]] = []

    def add(self, columns: Columns, fields: Fields, aside: Bools) -> None:
        """Take in a run. What is put `aside`, because its ICRC is wrong, may say anything of itself: it makes no flow
        and changes none, and counts where it belongs to one that is known."""
        for leg, rows in _legs(columns, fields):
            if aside[rows].any():
                bad = rows[aside[rows]]
                if leg.kind == REQUEST:
                    self._aside.append((leg, fields.requests(bad, fields.psn[bad], 0)))
                else:
                    self.left_out += len(bad)
                rows = rows[~aside[rows]]
                if not len(rows):
                    continue
            if leg.kind == ENDPOINT:
                operations = self.endpoint_operations.setdefault((leg.source, leg.destination), [])
                operations.append(fields.endpoint_operations(rows))
            elif leg.kind in (PROBE, CNP):
                self._waiting.append((leg, fields.probes(rows)))
            else:
                self._sort(leg, rows, fields)

    def _sort(self, leg: Leg, rows: I64, fields: Fields) -> None:
        """Give the packets of a leg to flows; nearly always to one."""
        while len(rows):
            psn = fields.psn[rows]
            flow = self._leg_flow.get(leg)
            if flow is None or flow.distance(int(psn[0])) > _SAME_FLOW:
                flow = self._found(leg, int(rows[0]), fields)
                if flow is None:
                    self.left_out += len(rows)
                    return
                self._leg_flow[leg] = flow
            seq = flow.near + psn_diff_array(psn, flow.near & PSN_MASK)
            belongs = np.abs(seq - flow.near) <= _SAME_FLOW
            self._give(flow, leg, rows[belongs], seq[belongs], fields)
            rows = rows[~belongs]

    def _give(self, flow: Flow, leg: Leg, rows: I64, seq: I64, fields: Fields) -> None:
        if leg.kind == REQUEST:
            pair = (leg.source, leg.destination)
            if pair not in flow.pairs:
                flow.pairs.append(pair)
            if flow.qpn is None:
                flow.qpn = leg.qpn
                self._by_qpn.setdefault(leg.qpn, []).append(flow)
                self._by_low_16.setdefault(leg.qpn & 0xFFFF, []).append(flow)
            if flow not in (found := self._by_pair.setdefault(pair, [])):
                found.append(flow)
            made = fields.requests(rows, seq, flow.pairs.index(pair))
            _name_paths(flow.paths, made, rows, pair, fields, flow.mrc)
            flow.requests.append(made)
            if flow.mrc:
                flow.msn = int(made["msn"][-1])
        else:
            if flow.requestor_qpn is None:
                flow.requestor_qpn = leg.qpn
                self._by_requestor.setdefault(leg.qpn, []).append(flow)
            made = fields.answers(rows, seq)
            if flow.mrc:
                _name_paths(flow.answer_paths, made, rows, (leg.source, leg.destination), fields, True)
            flow.answers.append(made)
        flow.near = max(flow.near, int(seq.max()))

    def _found(self, leg: Leg, row: int, fields: Fields) -> Flow | None:
        psn, mrc = int(fields.psn[row]), bool(fields.mrc[row])
        if leg.kind == REQUEST:
            candidates = self._for_requests(leg, int(fields("meth", "msn")[row]), mrc)
        else:
            header = {Op.SACK: "seth", Op.NACK: "neth"}.get(Op(fields.opcode[row])) if mrc else None
            candidates = self._for_answers(leg, _responder_low_16(leg, row, header, fields) if header else -1)
        near = [flow for flow in candidates if flow.mrc == mrc and flow.distance(psn) <= _NEAR_PSN]
        if near:
            mirrored = (leg.destination, leg.source)
            # Requests name their QP: one that is known is nearer than answers whose requests are not known yet.
            named = leg.kind == REQUEST
            return min(
                near, key=lambda flow: (named and flow.qpn is None, mirrored not in flow.pairs, flow.distance(psn))
            )
        if len(self.all) >= MOST_FLOWS:
            return None
        flow = Flow(mrc, psn)
        self.all.append(flow)
        if leg.kind != REQUEST:
            self._by_pair.setdefault((leg.destination, leg.source), []).append(flow)
        return flow

    def _for_requests(self, leg: Leg, msn: int, mrc: bool) -> list[Flow]:
        pair = (leg.source, leg.destination)
        known = self._by_qpn.get(leg.qpn, [])
        if mrc:
            known = [flow for flow in known if abs((msn - flow.msn + 0x8000 & 0xFFFF) - 0x8000) <= _NEAR_MSN]
        else:
            known = [flow for flow in known if pair in flow.pairs]
        return known + [flow for flow in self._by_pair.get(pair, []) if flow.qpn is None]

    def _for_answers(self, leg: Leg, low_16: int) -> list[Flow]:
        mirrored = self._by_pair.get((leg.destination, leg.source), [])
        asked = [flow for flow in mirrored if flow.requestor_qpn in (None, leg.qpn)]
        # Control packets take any plane, also one without requests.
        asked += [flow for flow in self._by_requestor.get(leg.qpn, []) if flow.mrc or _meets(flow, leg)]
        named = [flow for flow in self._by_low_16.get(low_16, []) if flow.requestor_qpn in (None, leg.qpn)]
        return named or asked

    def finish(self) -> None:
        """Join answers to requests that came to be known later, and give probes and congestion notifications, which
        have no PSN, to the flows that their QPNs name."""
        for half in [flow for flow in self.all if flow.qpn is None]:
            asked = [flow for flow in self.all if flow.qpn is not None and _may_answer(half, flow)]
            if asked:
                min(asked, key=lambda flow: flow.distance(half.near & PSN_MASK)).join(half)
                self.all.remove(half)
        for leg, rows in self._waiting:
            flows = self._by_qpn if leg.kind == PROBE else self._by_requestor
            known = [flow for flow in flows.get(leg.qpn, []) if flow.mrc == (leg.kind == PROBE)]
            meeting = [flow for flow in known if _meets(flow, leg)] or known
            if not meeting:
                self.left_out += len(rows)
                continue
            flow = min(meeting, key=lambda flow: abs(_first_time(flow) - int(rows["time"][0])))
            (flow.probes if leg.kind == PROBE else flow.congestion_notifications).append(rows)
        self._waiting.clear()
        for leg, rows in self._aside:
            known_flow = self._leg_flow.get(leg)
            if known_flow is None:
                self.left_out += len(rows)
                continue
            rows["seq"] = known_flow.near + psn_diff_array(rows["seq"], known_flow.near & PSN_MASK)
            rows["pair"] = known_flow.pairs.index((leg.source, leg.destination))
            known_flow.bad.append(rows)
        self._aside.clear()


def _name_paths(paths: dict[int, PathSeen], made: Rows, rows: I64, pair: Pair, fields: Fields, mrc: bool) -> None:
    """Take in how the paths of these packets look, all of one address pair."""
    left = made["hop"] >> 8
    # Where a run has sightings of several places, the whole route is that of the one nearest to the sender.
    order = np.argsort(-left, kind="stable") if (left != left[0]).any() else np.arange(len(made))
    evs, first = np.unique(made["ev"][order], return_index=True)
    for ev, at in zip(evs.tolist(), order[first].tolist(), strict=True):
        seen = paths.get(ev)
        if seen.left < left[at] if seen is not None else len(paths) < _MOST_PATHS:
            walked = fields.columns.walked(int(rows[at]))
            text = Summary(fields.columns.profile).ends(walked)[2] if mrc else f"UDP source port {ev}"
            paths[ev] = PathSeen(text, int(left[at]), pair)


def _responder_low_16(leg: Leg, row: int, header: str, fields: Fields) -> int:
    """The low half of a SACK's or NACK's sender's QPN: spdcid, or dpdcid where it is spdcid that names the packet's own
    receiver (wire.md section 6: both are seen)."""
    own = int(fields(header, "spdcid")[row])
    return own if own != leg.qpn & 0xFFFF else int(fields(header, "dpdcid")[row])


def _may_answer(half: Flow, flow: Flow) -> bool:
    same = flow.mrc == half.mrc and flow.requestor_qpn in (None, half.requestor_qpn)
    return same and flow.distance(half.near & PSN_MASK) <= _NEAR_PSN


def _meets(flow: Flow, leg: Leg) -> bool:
    """Whether the two nodes of a leg are those of a flow, as far as one common address of each shows."""
    nodes = {address for pair in flow.pairs for address in pair}
    return leg.source in nodes or leg.destination in nodes


def _first_time(flow: Flow) -> int:
    return int(flow.requests[0]["time"][0]) if flow.requests else 0


def _legs(columns: Columns, fields: Fields) -> Iterator[tuple[Leg, I64]]:
    """The packets of a run by leg, in file order."""
    rows = np.flatnonzero(fields.kind != OTHER)
    if not len(rows):
        return
    keys = np.zeros((len(rows), 37), np.uint8)
    stacks, start = columns.stack[rows], columns.frames.start[rows]
    for index in set(stacks.tolist()):
        stack = columns.stacks[index]
        these = np.flatnonzero(stacks == index)
        ip, bth = stack.ip[-1], stack.transport_at or 0
        length = 4 if ("ipv4", ip) in stack.layers else 16
        at = start[these] + ip + (12 if length == 4 else 8)
        keys[these, 0] = length
        keys[these, 1 : 1 + length] = rows_at(columns.frames.data, at, length)
        keys[these, 17 : 17 + length] = rows_at(columns.frames.data, at + length, length)
        keys[these, 33:36] = rows_at(columns.frames.data, start[these] + bth + 5, 3)
    keys[:, 36] = fields.kind[rows]
    found: dict[bytes, list[int]] = {}
    for key, row in zip(keys.view("V37")[:, 0].tolist(), rows.tolist(), strict=True):
        found.setdefault(key, []).append(row)
    for key, of_leg in found.items():
        length = key[0]
        source, destination = key[1 : 1 + length], key[17 : 17 + length]
        yield Leg(source, destination, int.from_bytes(key[33:36], "big"), key[36]), np.array(of_leg, np.int64)
