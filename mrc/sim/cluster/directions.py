# SPDX-License-Identifier: BSD-2-Clause
"""What is known of each direction of each cable, in columns that all shards share. A direction belongs to one of them.

What is configured differs between the kinds of directions: from a host, to a host, between switches.
"""

from __future__ import annotations

from mrc.errors import CallerError
from mrc.sim.cluster.columns import numbers, octets, short_numbers
from mrc.sim.cluster.event_wheel import ROW
from mrc.sim.cluster.setup import ClusterLink, Topology
from mrc.sim.link import OUTER_BYTES
from mrc.wire.profile import WireProfile
from mrc.wire.rows import EXTENSION_AT

# A direction's numbers: first and last packet of the data queue and of the priority queue; bytes in each; packets in
# both; what else is known of it; how often it went down; packets put on it; the most bytes that waited; how long it
# was idle until it is free again, ns modulo 2^32. They fill a line of a processor's cache, with two words of 64 bits:
# when it is free again, ns, and bytes put on it.
(
    DATA_FIRST,
    DATA_LAST,
    PRIORITY_FIRST,
    PRIORITY_LAST,
    DATA_BYTES,
    PRIORITY_BYTES,
    WAITING,
    FLAGS,
    TIMES_DOWN,
    PACKETS,
    LARGEST,
    IDLE,
) = range(12)
ROW_OF_WORDS = ROW // 2
FREE_AT, BYTES = 6, 7
# In FLAGS: it is down; an event will tell that it is free; packets may vanish on it.
DOWN, FREE_TOLD, LOSSY = 1, 2, 4
# What befell the packets of a direction, which is rare.
DROPPED, LOST, CUT, MARKED = range(4)
FATES = 4
FROM_HOST, TO_HOST, BETWEEN = range(3)
KINDS = 3
# A host's cable that is down, among the numbers of packets that wait in its own end.
NO_PORT = 255
# A chance of 1, in 2**-32.
CERTAIN = 1 << 32
_NEVER = (1 << 31) - 1


def _bound(limit: int | None) -> int:
    return _NEVER if limit is None else limit


class Directions:
    """What is known of direction d lies from d * ROW on in `cells`, and from d * ROW_OF_WORDS on in `words`, which is
    the same memory. `waits_at_host`, by cable of a host, is how many packets wait in its own end, or NO_PORT where that
    is down. `loss`, by direction, is the chance that a packet vanishes there, in 2**-32. What befell packets lies from
    d * FATES on in `fates`.

    By kind: `rate` in bit/s, `delay` in ns, `framing`, `queue`, `trim_at`, `cut_to`, `ecn_low` and `ecn_high` in bytes,
    `trimmed_class`. By DSCP: `is_trimmable`, `is_priority`.
    """

    def __init__(
        self, topology: Topology, host_link: ClusterLink, fabric_link: ClusterLink, wire: WireProfile, seed: int
    ) -> None:
        self.count = 2 * topology.cables
        self.of_hosts = 2 * topology.host_cables
        self.seed = seed
        self.words = numbers(ROW_OF_WORDS * self.count)
        self.cells = self.words.cast("B").cast("i")
        self.waits_at_host = octets(topology.host_cables)
        self.loss = numbers(self.count)
        self.fates = short_numbers(FATES * self.count)
        self._configure((host_link, host_link, fabric_link), wire)
        self.is_trimmable, self.is_priority = memoryview(bytearray(64)), memoryview(bytearray(64))
        for dscp in (wire.dscp_trimmable, wire.dscp_trimmable_retx):
            self.is_trimmable[dscp] = 1
        for dscp in (wire.dscp_control, *wire.trimmed_dscps):
            self.is_priority[dscp] = 1

    def _configure(self, links: tuple[ClusterLink, ClusterLink, ClusterLink], wire: WireProfile) -> None:
        self.rate, self.delay, self.framing = numbers(KINDS), numbers(KINDS), numbers(KINDS)
        self.queue, self.trim_at, self.cut_to = numbers(KINDS), numbers(KINDS), numbers(KINDS)
        self.ecn_low, self.ecn_high, self.trimmed_class = numbers(KINDS), numbers(KINDS), numbers(KINDS)
        kept = OUTER_BYTES + EXTENSION_AT + wire.trim_keeps_after_bth
        for kind, link in enumerate(links):
            self.rate[kind], self.delay[kind], self.framing[kind] = link.rate_bps, link.delay_ns, link.framing_bytes
            self.queue[kind] = _bound(link.queue_bytes)
            # A host's own end neither trims nor marks; a mark says "this path", not "this receiver".
            self.trim_at[kind] = _NEVER if kind == FROM_HOST else _bound(link.trim_at_bytes)
            self.ecn_low[kind] = _NEVER if kind == FROM_HOST else _bound(link.ecn_low_bytes)
            self.ecn_high[kind] = _NEVER if kind == FROM_HOST else _bound(link.ecn_high_bytes)
            self.cut_to[kind] = kept if link.trim_to_bytes is None else link.trim_to_bytes
            last_hop = wire.dscp_trimmed_lasthop if kind == TO_HOST else wire.dscp_trimmed
            self.trimmed_class[kind] = last_hop << 2
            if link.loss:
                first = self.of_hosts if kind == BETWEEN else kind
                last, step = (self.count, 1) if kind == BETWEEN else (self.of_hosts, 2)
                for direction in range(first, last, step):
                    self.set_loss(direction, link.loss)

    def set_loss(self, direction: int, chance: float) -> None:
        """Packets vanish on this direction with this chance from now on. Raises CallerError outside 0..1."""
        if not 0 <= chance <= 1:
            raise CallerError(f"a chance is 0..1, got {chance}")
        self.loss[direction] = round(chance * CERTAIN)
        at = direction * ROW + FLAGS
        self.cells[at] = self.cells[at] | LOSSY if chance else self.cells[at] & ~LOSSY

    def is_up(self, direction: int) -> bool:
        return self.cells[direction * ROW + FLAGS] & DOWN == 0
