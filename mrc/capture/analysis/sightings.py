# SPDX-License-Identifier: BSD-2-Clause
"""The packets of one kind of a flow, sorted so that the sightings of one packet stand together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mrc.capture.analysis.distances import LEAST_TOLERANCE_NS, MOST_WINDOWS, Way, Window
from mrc.capture.analysis.pairing import Distance, firsts, mended, paired
from mrc.capture.frames import I64, Bools
from mrc.capture.rows import Rows

# From this share of packets seen twice on it is the capture that doubles them, and not the network here and there.
MOST = 0.5
# A path with fewer distances has none of its own.
_FEWEST = 3
# PSNs this close one after the other belong to a run, although the capture may lack some between.
_RUN = 5
# No fabric holds a packet up for longer.
_HELD_NS = 50_000_000


class Sightings:
    """The rows of one kind of a flow, sorted by packet; `again` are those that follow one of the same packet, `gap`
    and `moved` compare such a row with the one before. `sole`: only one such packet can have been sent.

    Where hop limits tell two places apart, rows of the place further along are compared as if they had been seen at the
    other: earlier by what the way and the two clocks make of it (`way`)."""

    def __init__(self, rows: Rows, key: I64, sole: Bools | None = None) -> None:
        self.rows = rows
        self.order = np.argsort(key, kind="stable")
        self.way = Way.of(rows["hop"], rows["time"], key, self.order, sole, rows["ev"])
        time = rows["time"]
        if self.way is not None:
            time = time - self.way.took
            self.order = np.lexsort((time, key))
        key = key[self.order]
        self.again = np.zeros(len(rows), np.bool_)
        self.again[1:] = key[1:] == key[:-1]
        self.at = np.flatnonzero(self.again)
        now, before = self.order[self.at], self.order[self.at - 1]
        self.time = time
        self.gap = time[now] - time[before]
        self.moved = rows["hop"][now] != rows["hop"][before]
        self.sole = np.zeros(len(self.at), np.bool_) if sole is None else sole[now]
        self.packets = len(rows) - len(self.at)

    def allow_as_much_as(self, way: Way | None) -> None:
        """Take sightings at two places for one packet's where they are as far apart as `way` allows."""
        if self.way is not None and way is not None:
            allowed = way.tolerance + abs(way.middle - self.way.middle)
            self.way = self.way._replace(tolerance=max(self.way.tolerance, allowed))

    def window(self, least_doubled: float, most: int = 1) -> Window | None:
        """The distance of copies at one place, or at places that look alike: where that many packets have one and most
        of the distances are alike, at least on each path. `most`: how many distances there may be of packets that may
        be sent again."""
        gap, packet, sole = self._gaps_at_one_place()
        twice = len(np.unique(packet)) / self.packets if self.packets else 0.0
        if sole.any():
            gap = gap[sole]
        if not len(gap) or twice < least_doubled:
            return None
        # Of packets that may be sent again a second distance would be that of their retransmissions.
        window = Window.of(gap, MOST_WINDOWS if sole.any() else most)
        alike = len(np.unique(packet[window.has(gap)])) if not sole.any() else self.packets
        if alike < MOST * self.packets:
            alike = self._windows_by_ev(window)[1]
        return window if alike >= MOST * self.packets else None

    def _gaps_at_one_place(self) -> tuple[I64, I64, Bools]:
        """Between each sighting and the next of the same packet with the same hop limit; which packet, and whether it
        can have been sent once only."""
        packet = np.cumsum(~self.again) - 1
        sole = np.zeros(len(packet), np.bool_)
        sole[self.at] = self.sole
        order, hop = self.order, self.rows["hop"][self.order]
        if self.moved.any():
            by_place = np.lexsort((self.time[order], hop, packet))
            order, hop, packet, sole = order[by_place], hop[by_place], packet[by_place], sole[by_place]
        same = (packet[1:] == packet[:-1]) & (hop[1:] == hop[:-1])
        gap = self.time[order[1:]] - self.time[order[:-1]]
        return gap[same], packet[1:][same], (sole[1:] | sole[:-1])[same]

    @property
    def _are_two(self) -> Bools:
        """Which of `at` are the second of just two sightings of a packet."""
        packet = np.cumsum(~self.again) - 1
        two: Bools = np.bincount(packet, minlength=self.packets)[packet[self.at]] == 2
        return two

    def _alone(self) -> tuple[Bools, Bools]:
        """By row: the second sightings, and those that stand between two rows that are none."""
        second = self.again[np.argsort(self.order, kind="stable")]
        beside = np.zeros(len(second) + 2, np.bool_)
        beside[1:-1] = second
        return second, second & ~beside[:-2] & ~beside[2:]

    def sooner_than(self, soonest: int, at_once: int) -> Bools:
        """Which of `at` come sooner than anybody can have sent them again: alone, and not in a run of PSNs, for of what
        is behind a packet gone back to some was sent just before. Within `at_once` nobody goes back to what was sent
        once."""
        seq = self.rows["seq"]
        at = self.order[self.at]
        ahead = seq[at] - seq[np.maximum(at - 1, 0)]
        behind = seq[np.minimum(at + 1, len(seq) - 1)] - seq[at]
        in_run = ((ahead > 0) & (ahead < _RUN)) | ((behind > 0) & (behind < _RUN) & (ahead != 0))
        # A timer and an answer may make it send one again twice in a row.
        once = ~self.again[self.at - 1]
        found: Bools = (self.gap < soonest) & self._alone()[1][at] & ~in_run
        # Of what is behind a packet gone back to some was sent just before; that packet itself was not.
        doubled: set[int] = set()
        quick = np.flatnonzero((self.gap <= at_once) & once)
        for place in quick[np.argsort(at[quick], kind="stable")].tolist():
            if ahead[place] != 1 or int(at[place]) - 1 in doubled:
                doubled.add(int(at[place]))
                found[place] = True
        return found

    def transmissions(self, window: Window | None, apart: Sequence[Distance] = (), *, held: bool = False) -> I64:
        """A number for each row, in order of packet, that the sightings of one transmission share: of a sole packet
        all, of others those at other places or at the distance of copies. `apart` are distances to be used one after
        the other instead. `held`: as many sightings at one of two places as at the other are in order of one
        transmission each, also where a host or a switch held one up for longer than these usually take."""
        if apart:
            key: I64 = np.cumsum(~self.again, dtype=np.int64)
            sent, time = np.arange(len(self.rows)), self.time[self.order]
            for each in apart:
                sent = paired(time, key, each, sent)
            # One place has what it has twice at once; a requestor sends again later than that.
            of_two = max(each.middle for each in apart) >= LEAST_TOLERANCE_NS
            return mended(self.rows["seq"], sent, self.order) if of_two else sent
        repeats: Bools = self.sole.copy()
        repeats |= self.moved & (np.abs(self.gap) <= self.way.tolerance if self.way else True)
        if held:
            repeats |= self.moved & self._are_two & (np.abs(self.gap) <= _HELD_NS)
        windows = {} if window is None or not held else self._windows_by_ev(window)[0]
        if window is not None:
            near = window.has(self.gap)
            for ev, own in windows.items():
                of_ev = self.rows["ev"][self.order[self.at]] == ev
                near[of_ev] = own.has(self.gap[of_ev])
            repeats |= ~self.moved & near
        fresh = np.ones(len(self.rows), np.bool_)
        fresh[self.at] = ~repeats
        sent = np.maximum.accumulate(np.where(fresh, np.arange(len(fresh)), 0))
        # Of three sightings and more, of what may have been sent twice, neighbours in time need not be the pairs.
        begins = np.flatnonzero(~self.again)
        sizes = np.diff(np.append(begins, len(self.rows)))
        group = np.cumsum(~self.again)[self.at] - 1
        several = (sizes[group] > 2) & ~self.sole
        for number in np.unique(group[several]).tolist():
            begin, end = begins[number], begins[number] + sizes[number]
            rows = self.order[begin:end]
            balanced = self._balanced(rows) if held and window is None else None
            usual = windows.get(int(self.rows["ev"][rows[0]]), window)
            sent[begin:end] = begin + (self._transmissions_of(rows, usual) if balanced is None else balanced)
        return sent

    def _windows_by_ev(self, window: Window) -> tuple[dict[int, Window], int]:
        """The distance of copies on each path of several, where most of its packets have it and it explains more than
        that of all (`window`), and how many packets have either: on a slow path copies of two places are further
        apart."""
        gap, packet, _ = self._gaps_at_one_place()
        ev = self.rows["ev"][self.order[~self.again]]
        evs, packets = np.unique(ev, return_counts=True)
        if len(evs) < 2:
            return {}, 0
        by_ev = np.argsort(ev[packet], kind="stable")
        begins = np.searchsorted(ev[packet][by_ev], evs)
        found, alike = dict[int, Window](), 0
        for each, count, rows in zip(evs.tolist(), packets.tolist(), np.split(by_ev, begins[1:]), strict=True):
            if len(rows) < _FEWEST and not len(rows) == count == len(np.unique(packet[rows])):
                continue  # and not each of its packets twice, as the others are
            own = Window.of(gap[rows], len(window.middles))
            best = own if own.has(gap[rows]).sum() > window.has(gap[rows]).sum() else window
            inside = len(np.unique(packet[rows][best.has(gap[rows])]))
            if best is own and inside >= MOST * count:
                found[each] = own
            alike += inside
        return found, alike

    def _balanced(self, rows: I64) -> I64 | None:
        """For each sighting of one packet, in order of time, the first of its transmission, where as many are of one
        place as of another and each follows its like in time; else None."""
        hops, place = np.unique(self.rows["hop"][rows], return_inverse=True)
        one, other = (np.flatnonzero(place == at) for at in (0, 1))
        if (
            len(hops) != 2
            or len(one) != len(other)
            or (np.abs(self.time[rows[one]] - self.time[rows[other]]) > _HELD_NS).any()
        ):
            return None
        found = np.zeros(len(rows), np.int64)
        found[one] = found[other] = np.minimum(one, other)
        return found

    def _transmissions_of(self, rows: I64, window: Window | None) -> I64:
        """For each sighting of one packet, in order of time, the first of its transmission."""
        seen: list[tuple[int, dict[int, tuple[int, int]]]] = []
        found = []
        for at, (time, hop) in enumerate(zip(self.time[rows].tolist(), self.rows["hop"][rows].tolist(), strict=True)):
            known = next((each for each in seen if self._fits(each[1], time, hop, window)), None)
            if known is None:
                known = at, {}
                seen.append(known)
            places = known[1]
            places[hop] = time, places.get(hop, (0, 0))[1] + 1
            found.append(known[0])
        return np.array(found, np.int64)

    def _fits(self, places: dict[int, tuple[int, int]], time: int, hop: int, window: Window | None) -> bool:
        """Whether a sighting can be of the transmission seen at these places: hop limit to time and number."""
        if hop in places:
            last, count = places[hop]
            full = window is None or count >= 2 * len(window.middles)
            return window is not None and not full and bool(window.has(np.array([time - last]))[0])
        return self.way is None or abs(time - max(last for last, _ in places.values())) <= self.way.tolerance


class Once:
    """One sighting of each transmission (`rows`), of several the one with the most (`high`) or the least of its way
    before it, else the `last` or first, and the other way round on the EVs `turned`. `dropped` are how many others
    there were, `gap` how much later than this one the furthest other place saw the packets of `ev` that were seen
    there too: `hop` is that sighting's, `number` and `time` this one's."""

    def __init__(self, sightings: Sightings, sent: I64, *, last: bool, high: bool, turned: Sequence[int] = ()) -> None:
        rows, order = sightings.rows, sightings.order
        self.rows = rows
        self.dropped = len(rows) - int(firsts(sent).sum())
        self.gap = self.ev = self.hop = self.number = self.time = np.zeros(0, np.int64)
        if not self.dropped:
            return
        way = rows["hop"][order] * (-1 if high else 1)
        when = order * (-1 if last else 1)
        if turned and "ev" in (rows.dtype.names or ()):
            when[np.isin(rows["ev"][order], turned)] *= -1
        best = np.lexsort((when, way, sent))
        begins = np.flatnonzero(np.append(True, sent[best][1:] != sent[best][:-1]))
        sizes = np.diff(np.append(begins, len(best)))
        kept, other = order[best[begins]], order[best[begins + sizes - 1]]
        several = sizes > 1
        self.gap = rows["time"][other[several]] - rows["time"][kept[several]]
        self.hop = rows["hop"][other[several]].astype(np.int64)
        self.number, self.time = rows["number"][kept[several]], rows["time"][kept[several]]
        self.ev = rows["ev"][kept[several]] if "ev" in (rows.dtype.names or ()) else np.zeros(len(self.gap), np.int64)
        keep = np.zeros(len(rows), np.bool_)
        keep[kept] = True
        if "lone" in (rows.dtype.names or ()):
            rows["lone"][kept[~several]] = True
        self.rows = rows[keep]
