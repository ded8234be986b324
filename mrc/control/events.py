# SPDX-License-Identifier: BSD-2-Clause
"""Events for a controller: a queue that never blocks, with an exact count of what found no room (api.md, EV events)."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from mrc.control.attributes import EvEventMask
from mrc.control.profiles import Profiles
from mrc.endpoint.events import Event
from mrc.endpoint.paths.ev_events import EvEvent, EvEvents
from mrc.endpoint.paths.states import EvState
from mrc.records import record
from mrc.trace.vocabulary import EV_STATE, LOCAL, PORT, QP_STATE, EventType
from mrc.verbs.device import Device
from mrc.verbs.notifications import Notifications
from mrc.verbs.tables import Tabular, brief


@record(frozen=True, slots=True)
class EvStateChange(Tabular):
    """An EV of a QP went to `state`. `at_ns` is the endpoint's clock; ports count from 1. `drop_count` events found no
    room between the one before it and this."""

    kind: ClassVar[EventType] = EV_STATE
    short_name: ClassVar[str] = "ev"

    at_ns: int
    profile_id: int
    ev: int
    port_num: int
    plane: int
    state: EvState
    qp_num: int
    peer: str
    drop_count: int = 0


@record(frozen=True, slots=True)
class PortChange(Tabular):
    """A port of ours, or a peer's towards us (`side` "local" or "peer"), is in use again or no longer."""

    kind: ClassVar[EventType] = PORT
    short_name: ClassVar[str] = "port"

    at_ns: int
    side: str
    plane: int
    up: bool


@record(frozen=True, slots=True)
class QpFailed(Tabular):
    """A QP went to ERROR."""

    kind: ClassVar[EventType] = QP_STATE
    short_name: ClassVar[str] = "qp"
    at_ns: int
    qp_num: int
    reason: str


# What a controller sees of the trace's vocabulary. Each has the event it shows, `kind`, and its name on the control
# socket, `short_name`.
ControlEvent = EvStateChange | PortChange | QpFailed


class EvEventQueue(EvEvents):
    """Events from the moment it is made until it is closed: at most `limit` wait, later ones are `dropped`.

    EV changes to the states in `mask`, as far as their profile's own event mask has them; ports and failed QPs too,
    unless `ev_only`. `fd` is readable while something waits. Made by `Controller.ev_events`.
    """

    __slots__ = ("_device", "_ev_only", "_notifications", "_on_put", "_planes", "_profiles", "_told_dropped")

    def __init__(
        self,
        profiles: Profiles,
        limit: int,
        mask: EvEventMask,
        *,
        ev_only: bool = False,
        on_put: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_put` is called with each event there is room for, where the endpoint runs."""
        super().__init__(limit, profiles.device.now)
        self.wanted = mask.states
        self._profiles = profiles
        self._device: Device = profiles.device
        # By port. Which ports a device has does not change.
        self._planes = [port.plane for port in self._device.ports()]
        self._ev_only = ev_only
        self._on_put = on_put
        self._notifications: Notifications[ControlEvent] = Notifications(self._device, limit)
        # Of what was dropped, as much as an event has told.
        self._told_dropped = 0

    def open(self, *, standing: bool = False) -> None:
        """Hear of changes from now on; with `standing` of what the EVs are that are no longer GOOD, first."""
        endpoint = self._profiles.endpoint
        if standing:
            self._put_standing()
        endpoint.ev_events.attach(self)
        if not self._ev_only:
            endpoint.listeners.append(self._on_event)

    def _put_standing(self) -> None:
        for qp in self._profiles.endpoint.qps.values():
            if (paths := qp.paths) is not None:
                for index in paths.current():
                    path, state = paths.paths[index], EvState(paths.state[index])
                    self.changed(qp.qpn, qp.ev_profile_id, path.ev, path.port, EvState.GOOD, state)

    def wanted_of(self, profile_id: int) -> frozenset[EvState]:
        return self.wanted & self._profiles.evs.event_mask(profile_id).states

    def put(self, event: object) -> None:
        if isinstance(event, EvEvent):
            self._put(self._state_change(event))

    def _state_change(self, event: EvEvent) -> EvStateChange:
        qp = self._profiles.endpoint.qps.get(event.qpn)
        peer = qp.peer_node.label if qp is not None and qp.peer_node is not None else ""
        plane = self._plane(event.port)
        return EvStateChange(
            event.at_ns,
            event.profile_id,
            self._profiles.evs.names(event.profile_id).get(event.ev, event.ev),
            event.port + 1,
            plane,
            event.state,
            event.qpn,
            peer,
            self._notifications.dropped - self._told_dropped,
        )

    def _plane(self, port: int) -> int:
        return self._planes[port] if port < len(self._planes) else -1

    def _on_event(self, event: Event) -> None:
        if event.kind is PORT:
            plane = self._plane(event["port"]) if event["side"] == LOCAL else event["port"]
            self._put(PortChange(event.at_ns, event["side"], plane, event["up"]))
        elif event.kind is QP_STATE and event.qpn is not None:
            self._put(QpFailed(event.at_ns, event.qpn, event.detail))

    def _put(self, event: ControlEvent) -> None:
        before = self._notifications.dropped
        self._notifications.put(event)
        self.dropped = self._notifications.dropped
        if self.dropped == before:
            self._told_dropped = before
            self._on_put()

    @property
    def waiting(self) -> int:
        """How many events wait."""
        return len(self._notifications)

    @property
    def fd(self) -> int:
        """A file descriptor that is readable while there is an event."""
        return self._notifications.fd

    def get(self, timeout: float | None = None) -> ControlEvent:
        """The oldest. Waits at most `timeout` seconds, without one for ever.

        Raises VerbsError EAGAIN with a timeout of 0 when there is none, ETIMEDOUT after any other, EIO when closed.
        """
        return self._notifications.get(timeout)

    def take(self, most: int) -> list[ControlEvent]:
        """The oldest ones that wait, at most so many."""
        return self._notifications.take(most)

    def detach_now(self) -> None:
        """Hear of nothing more. Called where the endpoint runs; safe to call twice."""
        endpoint = self._profiles.endpoint
        endpoint.ev_events.detach(self)
        if self._on_event in endpoint.listeners:
            endpoint.listeners.remove(self._on_event)
        self._notifications.close()

    def close(self) -> None:
        """End the subscription. Events that were not taken are gone."""
        self._device.call(self.detach_now)

    def __repr__(self) -> str:
        says = f"{self.waiting} of {self._limit} events waiting, {self.dropped} dropped"
        return brief("EvEventQueue", f"of {self._device.name}", closed=self._notifications.closed, says=says)

    def __enter__(self) -> EvEventQueue:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
