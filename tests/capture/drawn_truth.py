# SPDX-License-Identifier: BSD-2-Clause
"""Hold an analysis against the truth of a drawn capture: a figure may be unknown, never wrong."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import NamedTuple

from analyzing import analysis_of
from drawn_asked_truth import STEP_SLACK_NS, judged_asked, unanswered
from drawn_captures import Drawn, Sighting
from drawn_faults import LOSSES, answers, found_fault
from drawn_mrc import HOST, Packet, past

from mrc.capture.analysis.analysis import Analysis
from mrc.capture.analysis.figures import DirectionFigures
from mrc.capture.analysis.finding import Finding
from mrc.capture.analysis.findings import findings

# What a finding of these kinds says is a measure and no fault, or of the capture itself.
_NAMED = {"sender": "sender", "middle": "middle", "receiver": "receiver", "ends": "both"}
_MEASURES = {"idle", "window-limited", "copies", "path-retransmissions", "path-carried-less", "plane-imbalance"}
_FOLLOW = {
    "none": set[str](),
    "loss": LOSSES | {"spurious-retransmissions"},
    "path": LOSSES,
    "plane": LOSSES,
    "dead": LOSSES,
    # There and back.
    "slow": {"slow-path", "slow-answers", "spurious-retransmissions", "path-out"},
    "slower": {"slow-path", "slow-plane", "slow-switch", "spurious-retransmissions", "path-out", "stall"},
    "slower-back": {"slow-answers", "spurious-retransmissions", "path-out", "stall"},
    "late": {"spurious-retransmissions", "path-out", "stall"},
    # With the SACK lost, a packet that others overtook looks as if it had been lost.
    "back-loss": {"spurious-retransmissions", "path-out", "stall", "loss"},
    "host-loss": LOSSES,
    "doubled": {"duplicates"},
    "congested": {"congestion", "spurious-retransmissions", "path-out", "stall"},
    "rnr": {"receiver-not-ready", "stall", "spurious-retransmissions"},
    "timeouts": LOSSES | {"spurious-retransmissions"},
}  # fmt: skip


def wrongs(made: Drawn) -> list[str]:
    """What the analysis says that is not so."""
    return judged(made).wrong


class Judged(NamedTuple):
    """What an analysis says of a drawn capture: what is `wrong`, which figures it leaves open though the place of the
    capture would show them (`unknown`), and whether it `found` the fault (None where the file does not show one)."""

    wrong: list[str]
    unknown: list[str]
    found: bool | None


def judged(made: Drawn) -> Judged:
    analysis = analysis_of(made.capture)
    said_findings = findings(analysis)
    by_qpn = {each.figures.responder_qpn: each.figures for each in analysis.directions}
    wrong, unknown = [], []
    flows = [each for each in (made, *made.beside) if any(one.packet.forward for one in each.sightings)]
    strangers = by_qpn.keys() - {each.draw.responder_qpn for each in (made, *made.beside)} - {None}
    if strangers or by_qpn.keys() < {each.draw.responder_qpn for each in flows}:
        return Judged([f"directions: {sorted(map(str, by_qpn))}"], [], None)
    for one in flows:
        figures = by_qpn[one.draw.responder_qpn]
        said = _Said(one, analysis, figures)
        said.check()
        # What is about no flow is checked with the first.
        said.check_findings([each for each in said_findings if each.qp in (figures.name, *[None] * (one is made))])
        wrong += [f"flow {one.draw.flow}: {each}" if one.draw.flow else each for each in said.wrong]
        wrong_asked, unknown_asked = judged_asked(one, analysis.operations)
        wrong += wrong_asked
        unknown += _unknown(one, figures) + unknown_asked
    if made.cut_short and not any(each.kind == "snaplen-too-short" for each in said_findings):
        wrong.append("nothing is said of the snaplen")
    return Judged(wrong, unknown, found_fault(made, said_findings))


def _unknown(made: Drawn, figures: DirectionFigures) -> list[str]:
    names = ["packets", "retransmissions", "spurious_retransmissions"]
    names += ["lost"] if made.draw.place != "receiver" else []
    names += ["missing_before_capture"] if made.draw.place in ("receiver", "middle") else []
    names += ["lost_behind_capture"] if made.draw.place == "receiver" else []
    unknown = [name for name in names if getattr(figures, name) is None]
    return unknown + (["lost"] if figures.lost_unsure and "lost" not in unknown else [])


class _Said:
    def __init__(self, made: Drawn, analysis: Analysis, figures: DirectionFigures) -> None:
        self.made, self.draw, self.figures, self.analysis = made, made.draw, figures, analysis
        self.wrong: list[str] = []
        # Each transmission once, whatever number of times it is in the file.
        # When the responder first had each PSN.
        self.had: dict[int, int] = {}
        for packet in sorted(made.packets, key=lambda each: each.arrives or 0):
            taken = not packet.fields.get("dropped") and not packet.fields.get("refused")
            if packet.forward and packet.arrives is not None and taken:
                self.had.setdefault(packet.psn, packet.arrives)
        # What a switch trimmed on its way here is no request any more.
        near: dict[int, Sighting] = {}
        for each in made.sightings:
            if each.packet.forward and (id(each.packet) not in near or each.point == "sender"):
                near[id(each.packet)] = each
        self.requests = [each.packet for each in near.values() if not each.is_trimmed]
        self.trimmed_here = [each.packet for each in near.values() if each.is_trimmed]

    def equal(self, name: str, found: object, truth: object) -> None:
        if found is not None and found != truth:
            self.wrong.append(f"{name}: {found}, truly {truth}")

    def between(self, name: str, found: int | None, least: int, most: int) -> None:
        if found is not None and not least <= found <= most:
            self.wrong.append(f"{name}: {found}, truly {least} to {most}")

    def check(self) -> None:
        figures, requests = self.figures, self.requests
        if figures.capture_point != "unknown":
            # Where nothing tells two places apart it is the one near the requestor.
            near = self.draw.place == "ends" and figures.capture_point == "sender"
            self.equal("capture_point", figures.capture_point, "sender" if near else _NAMED.get(self.draw.place))
        self.equal("packets", figures.packets, len(requests))
        self.equal("retransmissions", figures.retransmissions, self.retransmissions())
        # Where an answer was lost a single packet sent again looks as if it had been.
        guessed = self.draw.fault == "back-loss" and figures.capture_point != "receiver"
        # Where a NACK is missing a packet that was trimmed looks lost.
        guessed |= self.lacks_nacks
        if not guessed:
            if figures.lost is not None and not 0 <= self.lost() - figures.lost <= figures.lost_unsure:
                self.wrong.append(f"lost: {figures.lost} and {figures.lost_unsure} unsure, truly {self.lost()}")
            spurious = self.spurious(True), self.spurious(False) + figures.lost_unsure
            # What is not known to be lost may have arrived.
            self.between("spurious", figures.spurious_retransmissions, spurious[0] - figures.lost_unsure, spurious[1])
        if figures.capture_point == "receiver":
            again = self.sent_again()
            # Of RC those that the requestor went back for.
            behind = sum(
                packet.lost == HOST and id(packet) in again and bool(packet.fields.get("needed", packet.kind == "data"))
                for packet in requests
            )
            least = behind - figures.lost_unsure
            self.between("lost_behind_capture", figures.lost_behind_capture, least, behind)
        self.check_step(figures)
        self.check_clocks(figures)
        self.check_one_way(figures)
        self.check_answer_paths(figures)
        self.check_resent(figures)
        self.check_congestion(figures)
        self.equal("missing_before_capture", figures.missing_before_capture, self.before())
        self.equal("not_captured", figures.not_captured, self.not_captured())
        if self.draw.transport == "mrc" and figures.lost is not None and not guessed:
            resent = self.sent_again()
            lost = Counter(packet.ev for packet in requests if packet.lost is not None and id(packet) in resent)
            said = Counter({path.ev: path.lost for path in figures.paths if path.lost})
            if said - lost or (lost - said).total() > figures.lost_unsure:
                self.wrong.append(f"lost by path: {dict(said)}, truly {dict(lost)}")

    @property
    def lacks_nacks(self) -> bool:
        return self.draw.fault == "congested" and self.draw.harm == "missing"

    def check_congestion(self, figures: DirectionFigures) -> None:
        back = answers(self.made)
        self.equal("marks", figures.marks, sum(packet.fields.get("m", 0) for packet in back))
        marked = sum(past(packet.marked, self.draw.place) for packet in self.requests)
        if self.draw.place != "ends":
            # Of two places that of the requestor counts, where the file has it.
            self.equal("ce_packets", figures.ce_packets, marked)
        refused = Counter((packet.fields["psn"], packet.fields["ev"]) for packet in back if packet.kind == "nack")
        if figures.capture_point == "receiver":
            self.equal("trimmed", figures.trimmed, len(self.trimmed_here))
        elif self.draw.harm == "none":
            here = Counter((packet.psn, packet.ev) for packet in self.requests if packet.trimmed is not None)
            came_trimmed = 0 if self.draw.place == "ends" else len(self.trimmed_here)
            self.equal("trimmed", figures.trimmed, (here & refused).total() + came_trimmed)

    def check_step(self, figures: DirectionFigures) -> None:
        """A clock set forward is found, with its size, or the pause is named; figures in time follow."""
        if self.draw.harm != "step":
            return
        truly, slack = self.draw.step_ns, STEP_SLACK_NS
        found, unsure = [-step.ns for step in self.analysis.clock_steps], self.analysis.clock_unsure
        if found:
            self.between("clock set forward", found[0], truly - slack, truly + slack)
        if len(found) + len(unsure) > 1:
            self.wrong.append(f"clock: {found}, {unsure}")
        if not found and not unsure and not self.looks_like_a_pause():
            self.wrong.append("a clock set forward is not noticed")
        if (found or unsure) and (figures.rtt.max_ns or 0) > truly:
            self.wrong.append(f"rtt: {figures.rtt}")

    def check_clocks(self, figures: DirectionFigures) -> None:
        """Between the two bounds the clocks are apart by what was drawn."""
        least, most = figures.clock_offset_least_ns, figures.clock_offset_most_ns
        if self.draw.harm == "offset" and least is not None and most is not None:
            self.between("clocks apart", self.draw.offset_ns, least, most)
            self.between("clocks apart", figures.clock_offset_ns, least, most)

    def check_one_way(self, figures: DirectionFigures) -> None:
        """By how much later the packets of each path come, whatever the clocks are."""
        weather = self.made.weather
        slack = weather.jitter_ns + 1000
        ways = [(path, weather.slower, "later on") for path in figures.paths]
        ways += [(path, weather.slower_back, "answers later on") for path in figures.answer_paths]
        for path, slower, words in ways:
            # Paths are held against the quicker ones of those that enough packets took.
            held = [each.ev for each, of, _ in ways if of is slower and each.one_way_later_ns is not None]
            extra = slower.get(path.ev, 0) + round((weather.slow.get(path.ev, 1.0) - 1) * weather.one_way_ns)
            if 2 * len({*held} & {*self.draw.culprit}) <= len(held):
                self.between(f"{words} {path.ev:#x}", path.one_way_later_ns, extra - slack, extra + slack)

    def check_answer_paths(self, figures: DirectionFigures) -> None:
        """How many answers came on each path."""
        # Of two clocks that drift apart, or one that was set, where no hop limit tells two places apart some may count
        # twice.
        alike = self.draw.place == "ends" and not self.draw.srv6
        if self.draw.transport == "mrc" and not (alike and self.draw.harm in ("drift", "step")):
            truly = Counter(packet.ev for packet in answers(self.made))
            self.equal("answers by path", Counter({path.ev: path.packets for path in figures.answer_paths}), truly)

    def check_resent(self, figures: DirectionFigures) -> None:
        """By the path of what was sent again, and not of the retransmission."""
        if self.draw.transport != "mrc" or self.draw.place not in ("sender", "ends"):
            return
        again = self.sent_again()
        truly = Counter(packet.ev for packet in self.requests if id(packet) in again)
        if any(path.resent is None for path in figures.paths):
            return
        self.equal("resent by path", Counter({path.ev: path.resent for path in figures.paths if path.resent}), truly)
        in_vain = sum(path.resent_in_vain or 0 for path in figures.paths)
        if in_vain > (figures.spurious_retransmissions or in_vain):
            self.wrong.append(f"in vain: {in_vain} of {figures.spurious_retransmissions}")

    def looks_like_a_pause(self) -> bool:
        """Whether what the file shows of the step is what a requestor's timer or an idle program leaves too: it goes on
        with what it had sent before, or at the receiver between two messages. Of RC with any fault a timer may have
        gone back unseen."""
        at = self.draw.step_at
        fresh = next(each.packet for each in self.made.sightings[at:] if each.packet.forward)
        if self.draw.transport == "rc":
            return self.draw.fault != "none" or self.draw.place in ("receiver", "middle")
        return fresh.rtx or (self.draw.place == "receiver" and fresh.psn % 16 == 0)

    def unseen(self, came: set[int]) -> list[Packet]:
        """Requests of these PSNs."""
        return [packet for packet in self.made.packets if packet.forward and packet.psn in came]

    def retransmissions(self) -> int:
        """Of RC, those behind a PSN that the file has before."""
        highest, found = -1, 0
        for each in sorted(self.requests, key=lambda packet: packet.sent):
            found += each.rtx and (self.draw.transport == "mrc" or each.psn <= highest)
            highest = max(highest, each.psn)
        return found

    def lost(self) -> int:
        """Captured transmissions that were lost, as far as anybody can know: sent again within the file."""
        resent = self.sent_again()
        if self.draw.transport == "rc":
            return sum(bool(packet.fields.get("needed")) for packet in self.requests if id(packet) in resent)
        return sum(packet.lost is not None for packet in self.requests if id(packet) in resent)

    def sent_again(self) -> set[int]:
        """Transmissions with another of their PSN later in the file."""
        last: dict[int, int] = {}
        for packet in sorted(self.requests, key=lambda packet: packet.sent):
            last[packet.psn] = packet.sent
        return {id(packet) for packet in self.requests if packet.sent < last[packet.psn]}

    def spurious(self, sure: bool) -> int:
        """Captured retransmissions of packets that arrived; `sure`, of which another transmission is in the file."""
        times = Counter(packet.psn for packet in self.requests)
        if self.draw.transport == "rc":
            # One that was lost itself too, if its PSN had been taken before it was sent.
            return sum(
                packet.rtx
                and (packet.again or (packet.lost is not None and self.had.get(packet.psn, packet.sent) < packet.sent))
                and not sure
                for packet in self.requests
            )
        arrived: dict[int, int] = {}
        for packet in self.made.packets:
            if packet.forward and packet.arrives is not None and not packet.rtx:
                arrived[packet.psn] = packet.arrives
        found = 0
        for packet in self.requests:
            if packet.rtx and (packet.lost is None or not sure) and (times[packet.psn] > 1 or not sure):
                # Of two that arrived the original is the one that had to. One that was lost itself is spurious too, if
                # another had arrived before it was sent.
                before = packet.lost is None or self.had.get(packet.psn, packet.sent) < packet.sent
                found += before and (packet.again or packet.psn in arrived or packet.lost is not None)
        if sure and self.draw.harm == "begun":
            # Where the original passed before the file begins, the first in it may be the one that had to arrive.
            originals = {packet.psn for packet in self.requests if not packet.rtx}
            found -= sum(count > 1 and psn not in originals for psn, count in times.items())
        return found

    def before(self) -> int:
        """PSNs whose first transmission was lost before the place of the capture, and came as a retransmission."""
        point = self.draw.place
        first = {packet.psn: packet for packet in self.made.packets if packet.forward and not packet.rtx}
        begun = next(
            (each.packet.psn for each in self.made.sightings if each.packet.forward and not each.packet.rtx), 1 << 24
        )
        came = {packet.psn for packet in self.requests if packet.psn >= begun}
        if self.draw.transport == "rc":
            # One for each time the requestor is seen to go back; what else was lost behind it nobody can know.
            sent = sorted(self.requests, key=lambda packet: packet.sent)
            steps = [(one, after) for one, after in itertools.pairwise(sent) if after.psn <= one.psn]
            if point == "ends" or not steps:
                return 0
            one, after = steps[-1]
            return sum(
                bool(packet.fields.get("needed")) and point not in packet.at
                for packet in self.made.packets
                if packet.forward
                and sent[0].sent <= packet.sent < after.sent
                # What is sent again behind it, and lost again, is not known to be yet.
                and not (packet.sent > one.sent and packet.psn < after.psn)
            )
        return sum(point not in first[psn].at and point != "ends" for psn in came)

    def not_captured(self) -> int:
        """PSNs below the acknowledged edge that passed here while the capture ran, and are not in it."""
        seen = {packet.psn for packet in self.requests}
        points = {each.point for each in self.made.sightings}
        begin, first = min(
            (each.time, each.packet.psn) for each in self.made.sightings if each.packet.forward and not each.packet.rtx
        )
        passed = {
            packet.psn
            for packet in self.made.packets
            for point in points
            if packet.forward and packet.psn >= first and point in packet.at and packet.at[point] >= begin
        }
        edges = [
            self.edge(each.packet.fields, each.packet.kind) for each in self.made.sightings if not each.packet.forward
        ]
        return sum(psn <= max(edges, default=-1) for psn in passed - seen)

    def edge(self, fields: dict[str, int], kind: str) -> int:
        if kind == "sack":
            return fields["cack"]
        if kind == "nack":
            return -1
        return fields["psn"] if fields["syndrome"] == 0x1F else fields["psn"] - 1

    def check_findings(self, found: list[Finding]) -> None:
        allowed = _MEASURES | _FOLLOW[self.draw.fault]
        allowed |= {"missing": {"not-captured"}, "begun": set(), "cut": set()}.get(self.draw.harm, set())
        allowed |= {"spurious-retransmissions"} if self.spurious(False) >= 5 else set()
        allowed |= {"loss", "loss-before-capture"} if self.lacks_nacks else set()
        allowed |= {"snaplen-too-short"} if self.made.cut_short else set()
        allowed |= {"step": {"clock-stepped", "clock-unsure"}}.get(self.draw.harm, set())
        allowed |= {"drift": {"clocks-apart", "clocks-drift"}}.get(self.draw.harm, set())
        allowed |= {"offset": {"clocks-apart"}}.get(self.draw.harm, set())
        allowed |= {"unanswered-endpoint-requests"} if unanswered(self.made) else set()
        if self.draw.harm == "step" and not self.analysis.clock_steps and self.looks_like_a_pause():
            allowed |= {"stall"}
        # RC goes back for what comes late.
        late = self.draw.transport == "rc" and self.draw.fault == "late"
        allowed |= {"out-of-order"} if late else set()
        allowed |= {"mirrored"} if self.draw.form.startswith("erspan") else set()
        if min(packet.psn for packet in self.requests) > 0:
            allowed |= {"begun-in-the-middle"}
            if self.draw.transport == "mrc" and "begun-in-the-middle" not in {each.kind for each in found}:
                self.wrong.append("that the first packets are missing is not said")
        if self.draw.harm == "cut" and not any(not each.packet.forward for each in self.made.sightings):
            allowed |= {"no-answers"}
        for each in found:
            if each.kind == "no-answers" and "Or one comes later" not in each.text:
                self.wrong.append(f"finding {each.kind}: {each.text}")
            if late and each.kind == "loss" and "or came late" in each.text:
                continue
            if each.kind not in allowed:
                self.wrong.append(f"finding {each.kind}: {each.text}")
            if each.kind in ("lossy-path", "dead-path", "slow-path") and each.ev not in self.draw.culprit:
                self.wrong.append(f"wrong part {each.kind}: {each.text}")
            if each.kind == "slow-answers" and not set(each.evs) <= set(self.draw.culprit):
                self.wrong.append(f"wrong part {each.kind}: {each.text}")
            if each.kind in ("slow-plane", "slow-switch") and set(each.evs) != set(self.draw.culprit):
                self.wrong.append(f"wrong part {each.kind}: {each.text}")
            # Answers that come late are about packets of any path.
            slow = self.draw.fault in ("slow", "slower")
            if slow and each.kind == "spurious-retransmissions" and each.ev not in (None, *self.draw.culprit):
                self.wrong.append(f"wrong part {each.kind}: {each.text}")
            # What came short of its turns.
            local = self.draw.fault in ("path", "plane", "dead")
            named = each.kind == "loss-before-capture" and ("in turn" in each.text or "any more" in each.text)
            if named and (not local or (each.ev is not None and each.ev not in self.draw.culprit)):
                self.wrong.append(f"wrong part {each.kind}: {each.text}")
