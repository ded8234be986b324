# SPDX-License-Identifier: BSD-2-Clause
"""A peer that has fallen silent takes all QPs with it that wait for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mrc.endpoint.node.peer_node import PeerKey
from mrc.endpoint.qp import QueuePair
from mrc.endpoint.qp_states import MAY_SEND
from mrc.endpoint.requestor.loss import STOPPED_NS

# A QP with more patience than this waits for ever, as far as anybody can tell.
_FOREVER_NS = 1 << 60


@dataclass
class _Watch:
    """The QPs `qpns` had work for a silent peer when the QP `given_up` was given up, at `noticed`. The peer was last
    heard at `heard`. Unless it is heard again, they are given up at `at`. All times are in ns."""

    given_up: int
    qpns: set[int]
    heard: int
    noticed: int
    at: int


class Silence:
    """Which QPs are given up together, and when."""

    def __init__(self) -> None:
        self._watches: dict[PeerKey, _Watch] = {}

    def wait_in_vain(self, qp: QueuePair, others: Sequence[QueuePair], waited: int, now: int) -> list[QueuePair]:
        """Return the QPs of `others` that are to be given up together with `qp`. All of them have the same peer.

        `qp` has waited for an answer for `waited` ns. A QP goes with it if it has work and one of its own timeouts has
        run out. So does a QP with work that was connected when the peer was last heard: QPs that wait in vain fill the
        window, and it may have had its first turn just now. One that was connected later stays, for the peer may have
        come back as another. So does a QP without work, and one whose retries would last longer than those of `qp`.

        If any QP has heard from the peer meanwhile, the result is empty: the peer is alive, and only `qp` has failed.
        Or it fell silent a little later. So what waits now goes when the peer has been silent for as long as `qp` would
        have waited (`due`).
        """
        most = qp.requestor.waits_at_most_ns
        # One that was given up before may have been the last that heard from the peer.
        heard = max(each.heard_at for each in (qp, *others))
        waiting = [each for each in others if each is not qp and _waits(each, heard) and _patience(each) <= most]
        # Where NACKs have used up retries it has waited for less.
        at = heard + max(waited, qp.config.gives_up_after_ns or most)
        if heard < now - waited and at <= now:
            return waiting
        if waiting and most < _FOREVER_NS and qp.peer_node is not None:
            self._watch(qp.peer_node.key, _Watch(qp.qpn, {each.qpn for each in waiting}, heard, now, at))
        return []

    def _watch(self, key: PeerKey, watch: _Watch) -> None:
        before = self._watches.get(key)
        if before is not None and before.heard == watch.heard:
            watch.qpns |= before.qpns
            watch.at = max(watch.at, before.at)
        self._watches[key] = watch

    def next_deadline(self) -> int | None:
        """When `due` wants to be called next, ns, or None."""
        return min(watch.at for watch in self._watches.values()) if self._watches else None

    def due(self, qps: Mapping[int, QueuePair], now: int) -> list[tuple[QueuePair, int]]:
        """The QPs that are given up now, each with the number of the QP that was given up before it."""
        found: list[tuple[QueuePair, int]] = []
        if not self._watches:
            return found
        for key, watch in list(self._watches.items()):
            if watch.at > now:
                continue
            if now - watch.at >= STOPPED_NS:
                # This endpoint itself stood still. What has come meanwhile has not been looked at.
                watch.noticed, watch.at = now, now + watch.at - watch.noticed
                continue
            del self._watches[key]
            of_peer = [qp for qp in qps.values() if qp.peer_node is not None and qp.peer_node.key == key]
            if all(qp.heard_at <= watch.heard for qp in of_peer):
                left = (qp for qp in of_peer if qp.qpn in watch.qpns and qp.state in MAY_SEND)
                found += [(qp, watch.given_up) for qp in left if qp.requestor.waits]
        return found


def _waits(qp: QueuePair, heard: int) -> bool:
    """Whether this QP waits for its peer. `heard` is when a packet of that peer last arrived on any QP, in ns."""
    if qp.state not in MAY_SEND:
        return False
    return qp.requestor.waited_ns > 0 or (qp.ready_at < heard and qp.requestor.waits)


def _patience(qp: QueuePair) -> int:
    return qp.requestor.waits_at_most_ns
