# SPDX-License-Identifier: BSD-2-Clause
"""One flow as its two ends see it, with paths that take longer than others there or back, and clocks that are apart.

Nothing here uses the package under test.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

from crafted_flows import FIRST, LAST, MICROSECOND, MIDDLE, Crafted, ev_of, pcap_of

PATHS = [ev_of(plane, spine) for plane in range(2) for spine in range(2)]
ONE_WAY, RESPONDER = 20 * MICROSECOND, MICROSECOND


def both_ends(
    later: Mapping[int, int],
    *,
    later_back: Mapping[int, int] | None = None,
    at_once: Mapping[int, float] | None = None,
    mirrored: bool = False,
    offset: int = 0,
    count: int = 240,
    jitter: int = 500,
    drift: int = 0,
    ends: tuple[str, ...] = ("sender", "receiver"),
) -> bytes:
    """A flow as sender and receiver see it, times in nanoseconds: `later` is by how much an EV's packets come later,
    `later_back` the same of answers, `offset` how far the receiver's clock is ahead, `drift` how much it gains
    meanwhile. Every packet is answered, on a path by chance, or (`mirrored`) on its own. `at_once` is the share of the
    answers on an EV that a busy receiver sends at once; it takes 60 to 600 us over the others."""
    chance, chooses, busy = random.Random(1), random.Random(2), random.Random(3)
    near, far = Crafted(payload=64), Crafted(at="receiver", payload=64)
    begin, have = 30_000 * MICROSECOND, set[int]()
    arrivals = []
    for psn in range(count):
        sent = begin + 10 * MICROSECOND * psn
        arrivals.append((sent + ONE_WAY + later.get(PATHS[psn % 4], 0) + chance.randrange(jitter + 1), psn, sent))
    end = 10 * MICROSECOND * count

    def there(time: int) -> int:
        return time + offset + drift * (time - begin) // end

    for came, psn, sent in sorted(arrivals):
        opcode = FIRST if psn == 0 else LAST if psn == count - 1 else MIDDLE
        near.data(sent, psn, PATHS[psn % 4], opcode=opcode)
        far.data(sent, psn, PATHS[psn % 4], opcode=opcode)
        far.records[-1] = there(came), far.records[-1][1]
        have.add(psn)
        cack = next(each for each in range(count + 1) if each not in have) - 1
        above = tuple(each for each in sorted(have) if cack < each <= cack + 64)
        back = PATHS[psn % 4] if mirrored else chooses.choice(PATHS)
        answered = came + RESPONDER
        if at_once is not None and busy.random() >= at_once[back]:
            answered += busy.randrange(60 * MICROSECOND, 600 * MICROSECOND)
        came_back = answered + ONE_WAY + (later_back or {}).get(back, 0) + chance.randrange(jitter + 1)
        for crafted, at in ((far, there(answered)), (near, came_back)):
            crafted.sack(at, cack, psn, PATHS[psn % 4], received=above, own_ev=back)
    records = {"sender": near.records, "receiver": far.records}
    return pcap_of(sorted((each for place in ends for each in records[place]), key=lambda each: each[0]))
