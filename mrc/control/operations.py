# SPDX-License-Identifier: BSD-2-Clause
"""Endpoint operations of a controller, sent as a batch that waits: EV probes and port status updates (api.md)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from errno import E2BIG, EINVAL, EIO, ENOENT, ETIMEDOUT

from mrc.control.attributes import MAX_BATCH
from mrc.control.errors import ControlError, arguments
from mrc.control.peers import find_peer
from mrc.control.profiles import Profiles
from mrc.endpoint.endpoint import Endpoint
from mrc.endpoint.node.operations import EvProbeResult
from mrc.endpoint.node.peer_node import PeerNode
from mrc.endpoint.paths.profiles import EvProfile, EvProfileMode
from mrc.errors import CallerError, PeerError
from mrc.records import record
from mrc.verbs.tables import Tabular, brief
from mrc.wire.entropy import EvMode

_DEFAULT_TIMEOUT_NS = 1_000_000_000


@record(frozen=True, slots=True)
class EvProbe(Tabular):
    """Measure EV `ev` to the peer at `destination` (an address or a name); it may be denied, and in no profile.

    `req_id` (16 bit) comes back with the answer. `source`, `port_num` and `format_id`, where given, have to be those
    of that EV. `dscp`: the class it travels in; control without.
    """

    req_id: int
    destination: str
    ev: int
    source: str | None = None
    port_num: int | None = None
    format_id: int | None = None
    dscp: int | None = None


@record(frozen=True, slots=True)
class PortStatusUpdate(Tabular):
    """Tell the peer at `destination` which ports are up: bit n of `mask` (32 bits) for the port of plane n, or for that
    of plane n - 1 where the wire profile's first_port_bit is 1.

    Without a mask the peer gets the port states as they are. A mask holds until the next update to that peer. It
    travels on EV `ev`, which may be denied and in no profile, and without one on any that is in use. `source`,
    `port_num`, `format_id` and `dscp` are as in EvProbe.
    """

    req_id: int
    destination: str
    mask: int | None = None
    ev: int | None = None
    source: str | None = None
    port_num: int | None = None
    format_id: int | None = None
    dscp: int | None = None


@record(frozen=True, slots=True)
class OperationResult(Tabular):
    """How one operation ended: `errno` 0, or ETIMEDOUT without an answer, or why it was never sent.

    `reason` does not name the operation's own EV. `port_num` is the port that the answer arrived on. Of an EV probe
    also the port it left by, the round trip, and whether the time the peer held it was taken off.
    """

    req_id: int
    errno: int = 0
    reason: str = ""
    port_num: int | None = None
    rtt_ns: int | None = None
    service_time_taken_off: bool = False
    left_by_port_num: int | None = None


_MOST_KNOWN = 1 << 14  # EVs of a peer node that probes may make known
Operation = EvProbe | PortStatusUpdate


class Batch:
    """A batch on its way. `results` in the order of the batch, None for those not over; `on_done` is called once."""

    def __init__(
        self, profiles: Profiles, batch: Sequence[Operation], now: int, on_done: Callable[[], None], timeout_ns: int
    ) -> None:
        """Called where the endpoint runs. Raises ControlError E2BIG for too many, EINVAL for a number out of range and
        for operations of two kinds."""
        if len(batch) > MAX_BATCH:
            raise ControlError(E2BIG, f"{len(batch)} operations in one batch, at most {MAX_BATCH}", len(batch))
        if len({type(operation) for operation in batch}) > 1:
            raise ControlError(EINVAL, "a batch is of EV probes, or of port status updates")
        self.results: list[OperationResult | None] = [None] * len(batch)
        self._profiles = profiles
        self._on_done = on_done
        self._left = len(batch)
        self._ends_at = now + (timeout_ns or _DEFAULT_TIMEOUT_NS)
        for place, operation in enumerate(batch):
            if not 0 <= operation.req_id < 1 << 16:
                raise ControlError(EINVAL, f"a req_id has 16 bits, got {operation.req_id}")
            try:
                if isinstance(operation, EvProbe):
                    self._probe(place, operation)
                else:
                    self._update(place, operation)
            except ControlError as error:
                self._over(place, OperationResult(operation.req_id, error.errno or EINVAL, error.reason))
        if not batch:
            on_done()

    def _over(self, place: int, result: OperationResult) -> None:
        if self.results[place] is None:
            self.results[place] = result
            self._left -= 1
            if not self._left:
                self._on_done()

    @property
    def done(self) -> bool:
        return not self._left

    def __repr__(self) -> str:
        says = f"{len(self.results) - self._left} of {len(self.results)} operations over"
        return brief("Batch", f"of {self._profiles.device.name}", closed=False, says=says)

    def _probe(self, place: int, probe: EvProbe) -> None:
        endpoint = self._profiles.endpoint
        node = find_peer(endpoint, probe.destination)
        number = self._number(node, probe, probe.ev)

        def answered(result: EvProbeResult) -> None:
            left_by = result.port + 1
            if result.rtt_ns is None or result.response_port is None:
                why = OperationResult(probe.req_id, ETIMEDOUT, "no answer", left_by_port_num=left_by)
            else:
                taken_off = result.service_time_taken_off
                why = OperationResult(probe.req_id, 0, "", result.response_port + 1, result.rtt_ns, taken_off, left_by)
            self._over(place, why)

        with arguments():
            endpoint.probe_ev(node, number, dscp=probe.dscp, on_result=answered, ends_at=self._ends_at)

    def _number(self, node: PeerNode, asked: Operation, ev: int) -> int:
        """What the node calls the EV of an operation, whose port has to be up and the one that is named, if one is."""
        number = self._known(node, asked, ev)
        path = node.paths[number]
        if asked.port_num is not None and asked.port_num != path.port + 1:
            raise ControlError(EINVAL, f"it leaves by port {path.port + 1}, not {asked.port_num}")
        if asked.source is not None and asked.source != self._profiles.device.ports()[path.port].address:
            raise ControlError(EINVAL, f"port {path.port + 1} is not at {asked.source}")
        if not self._profiles.endpoint.port_is_up(path.port):
            raise ControlError(EIO, f"port {path.port + 1} on plane {path.plane} is down")
        return number

    def _known(self, node: PeerNode, asked: Operation, ev: int) -> int:
        """What the node calls an EV, which it gets to know if need be."""
        fmt = self._profiles.formats.online(asked.format_id or 0)
        for number, path in enumerate(node.paths):
            if path.ev == ev:
                return number
        if len(node.paths) >= _MOST_KNOWN:
            raise ControlError(E2BIG, f"{len(node.paths)} EVs towards {node.label} are known: no more", _MOST_KNOWN + 1)
        if node.paths_of is None:
            raise ControlError(ENOENT, f"none of the EVs towards {node.label}")
        try:
            paths = node.paths_of(EvProfile(EvProfileMode.EXPLICIT, fmt, evs=_array_for(ev, asked.port_num, fmt.mode)))
        except (CallerError, PeerError) as error:
            raise ControlError(ENOENT, str(error)) from None
        return int(node.add_paths([path for path in paths if path.ev == ev])[0])

    def _update(self, place: int, update: PortStatusUpdate) -> None:
        if update.mask is not None and not 0 <= update.mask < 1 << 32:
            raise ControlError(EINVAL, f"a port mask has 32 bits, got {update.mask:#x}")
        endpoint: Endpoint = self._profiles.endpoint
        node = find_peer(endpoint, update.destination)
        number = None if update.ev is None else self._number(node, update, update.ev)
        if number is None and (update.port_num, update.source) != (None, None):
            raise ControlError(EINVAL, "port_num and source are those of an EV: name the EV")

        def answered(arrived_on: int | None) -> None:
            if arrived_on is None:
                self._over(place, OperationResult(update.req_id, ETIMEDOUT, "no answer"))
            else:
                self._over(place, OperationResult(update.req_id, port_num=arrived_on + 1))

        with arguments():
            endpoint.tell_port_status(node, update.mask, self._ends_at, answered, number=number, dscp=update.dscp)


def _array_for(ev: int, port_num: int | None, mode: EvMode) -> tuple[int, ...]:
    """The array of an EXPLICIT profile whose last entry is this EV, by this port. But for SRV6 EVs, which say by which
    port they leave, entries are dealt to the ports in turn."""
    before = 0 if port_num is None or mode == EvMode.SRV6 else max(0, port_num - 1)
    return (*(ev ^ other for other in range(1, before + 1)), ev)
