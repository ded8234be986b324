# SPDX-License-Identifier: BSD-2-Clause
"""The context: a device opened, and everything made on it."""

from __future__ import annotations

from collections.abc import Callable
from errno import EBUSY, EINVAL, ENOENT
from typing import TYPE_CHECKING, Any

from mrc.endpoint.config import MAX_IMMEDIATES, Capability, QpConfig
from mrc.endpoint.congestion import ControllerFactory, factory_of
from mrc.endpoint.events import Event
from mrc.endpoint.paths.online import DEFAULT_PROFILE, OWN_PROFILE
from mrc.endpoint.paths.profiles import EvProfile
from mrc.endpoint.qpns import FIRST_QPN, QPN_LIMIT
from mrc.endpoint.work import MAX_MESSAGE
from mrc.errors import CallerError, Forked, MrcError
from mrc.records import record
from mrc.trace.vocabulary import LOCAL, PORT, QP_STATE
from mrc.verbs.attributes import MAX_INLINE, MAX_MPR, MAX_QP_WR, MPR_RESOLUTION, DeviceAttr, PortAttr
from mrc.verbs.cq import CQ, MAX_CQE, CompChannel
from mrc.verbs.device import Device
from mrc.verbs.enums import AsyncEventType, PortState, ProtocolVersion
from mrc.verbs.errors import VerbsError
from mrc.verbs.memory import PD
from mrc.verbs.notifications import Notifications
from mrc.verbs.tables import brief, table
from mrc.verbs.work import MAX_SGE, WC

if TYPE_CHECKING:
    from mrc.verbs.qp import QP

KEPT_EVENTS = 1024


@record(frozen=True, slots=True)
class AsyncEvent:
    """`element` is the CQ, the QP or the port number (from 1 on) it is about; `detail` a sentence for people."""

    event_type: AsyncEventType
    element: Any
    detail: str

    def __str__(self) -> str:
        return f"{self.event_type.name}: {self.detail}"


class Context:
    """A device opened. `tuning` are the parameters of its QPs that no attribute sets; None: the device's.

    Closing it closes everything that was made on it; the device stays open.
    """

    def __init__(self, device: Device, *, tuning: QpConfig | None = None) -> None:
        self.device = device
        self.tuning = tuning or device.tuning or QpConfig()
        self.pds: set[PD] = set()
        self.channels: set[CompChannel] = set()
        self.cqs: set[CQ] = set()
        self._qps: dict[int, QP] = {}
        self._cc_profiles: dict[int, str | ControllerFactory] = {}
        self._ev_profiles: dict[int, EvProfile] = {}
        self._events: Notifications[AsyncEvent] = Notifications(device, KEPT_EVENTS)
        self._closed = False
        device.call(lambda: device.endpoint.listeners.append(self._on_event))

    # ------------------------------------------------------------------ making things

    def pd(self) -> PD:
        """Make a protection domain: `PD(self)`."""
        return PD(self)

    def comp_channel(self) -> CompChannel:
        """Make a completion channel: `CompChannel(self)`."""
        return CompChannel(self)

    def cq(
        self,
        cqe: int = 256,
        *,
        channel: CompChannel | None = None,
        cq_context: Any = None,
        handler: Callable[[WC], None] | None = None,
    ) -> CQ:
        """Make a completion queue: `CQ(self, cqe, ...)`."""
        return CQ(self, cqe, channel=channel, cq_context=cq_context, handler=handler)

    def call_soon(self, action: Callable[[], None]) -> None:
        """Run `action` soon in the endpoint's thread, without waiting for it. From any thread and from a CQ's handler.

        The endpoint goes on meanwhile, so the action may take long, and it may post work. It must not wait for
        completions and raises nothing. Actions run in the order of the calls.
        """
        self.device.call_soon(action)

    # ------------------------------------------------------------------ profiles

    def cc_profile(self, profile_id: int, controller: str | ControllerFactory) -> None:
        """Make a congestion control profile known under a number: a controller's name, or what makes one.

        It is this Context's own, beside the controller's. Raises VerbsError EINVAL for 0, which is the default, and for
        a number that does not fit 16 bits; EBUSY for one that is taken; ENOENT for an unknown name.
        """
        self._check_profile_id(profile_id, {**self._cc_profiles, **self.device.endpoint.online.cc})
        try:
            factory_of(controller)
        except CallerError as error:
            raise VerbsError(ENOENT, str(error)) from None
        self._cc_profiles[profile_id] = controller

    def ev_profile(self, profile_id: int, profile: EvProfile) -> None:
        """Make an EV profile known under a number. Raises VerbsError EINVAL and EBUSY as `cc_profile` does."""
        self._check_profile_id(profile_id, {**self._ev_profiles, **self.device.endpoint.online.ev})
        self._ev_profiles[profile_id] = profile

    @staticmethod
    def _check_profile_id(profile_id: int, known: dict[int, Any]) -> None:
        if type(profile_id) is not int or not 0 < profile_id <= 0xFFFF:
            raise VerbsError(EINVAL, f"a profile's number is 1..65535, got {profile_id!r}; 0 is the default one")
        if profile_id in known:
            raise VerbsError(EBUSY, f"there is a profile {profile_id} already")

    def controller_of(self, profile_id: int) -> str | ControllerFactory | None:
        """The controller of a profile; None: the endpoint's default. Raises VerbsError ENOENT."""
        known = {DEFAULT_PROFILE: None, **self.device.endpoint.online.cc, **self._cc_profiles}
        found: str | ControllerFactory | None = self._find(profile_id, known, "congestion control")
        return found

    def evs_of(self, profile_id: int) -> EvProfile:
        """An EV profile by number. Raises VerbsError ENOENT."""
        known = {DEFAULT_PROFILE: self.device.ev_profile, **self.device.endpoint.online.ev, **self._ev_profiles}
        found: EvProfile = self._find(profile_id, known, "EV")
        return found

    def shared_numbers(self, ev_profile_id: int, cc_profile_id: int) -> tuple[int, int]:
        """What the endpoint calls these profiles: by the same numbers, unless they are this Context's own."""
        ev = OWN_PROFILE if ev_profile_id in self._ev_profiles else ev_profile_id
        cc = OWN_PROFILE if cc_profile_id in self._cc_profiles else cc_profile_id
        return ev, cc

    @staticmethod
    def _find(profile_id: int, known: dict[int, Any], kind: str) -> Any:
        if profile_id not in known:
            raise VerbsError(ENOENT, f"no {kind} profile {profile_id}: there are {', '.join(map(str, sorted(known)))}")
        return known[profile_id]

    # ------------------------------------------------------------------ queries

    @property
    def address(self) -> dict[str, Any]:
        """Where this node is, as plain JSON: what a peer's `AHAttr` takes."""
        return self.device.address()

    def query_device(self) -> DeviceAttr:
        """Return what the device is capable of, and its limits."""
        return DeviceAttr(
            name=self.device.name,
            protocol_version=ProtocolVersion.MRC_1,
            caps=Capability.TRIM_NACK | Capability.DYNAMIC_MPR | Capability.SVC_TIME,
            max_wimm=MAX_IMMEDIATES,
            max_wimm_dest=MAX_IMMEDIATES,
            max_mpr=MAX_MPR,
            mpr_resolution=MPR_RESOLUTION,
            max_qp=QPN_LIMIT - FIRST_QPN,
            max_qp_wr=MAX_QP_WR,
            max_sge=MAX_SGE,
            max_cqe=MAX_CQE,
            max_inline_data=MAX_INLINE,
            max_msg_sz=MAX_MESSAGE,
            phys_port_cnt=len(self.device.ports()),
        )

    def query_port(self, port_num: int) -> PortAttr:
        """A port, counted from 1. Raises VerbsError ENOENT."""
        ports = self.device.ports()
        if type(port_num) is not int or not 1 <= port_num <= len(ports):
            raise VerbsError(ENOENT, f"no port {port_num!r}: there are 1 to {len(ports)}")
        port = ports[port_num - 1]
        state = PortState.ACTIVE if port.up else PortState.DOWN
        return PortAttr(port_num, state, port.plane, port.address, port.max_mtu)

    # ------------------------------------------------------------------ asynchronous events

    @property
    def async_fd(self) -> int:
        """A file descriptor that is readable while there is an asynchronous event."""
        return self._events.fd

    def get_async_event(self, timeout: float | None = None) -> AsyncEvent:
        """The oldest one: a QP in error, a CQ that overflowed, a port that went or came. The last 1024 wait.

        Waits at most `timeout` seconds, without one for ever. Raises VerbsError EAGAIN with a timeout of 0 when there
        is none, ETIMEDOUT after any other, EIO when the Context is closed.
        """
        return self._events.get(timeout)

    def report(self, event_type: AsyncEventType, element: object, detail: str) -> None:
        self._events.put(AsyncEvent(event_type, element, detail))

    def _on_event(self, event: Event) -> None:
        if event.kind is PORT and event["side"] == LOCAL:
            event_type = AsyncEventType.PORT_ACTIVE if event["up"] else AsyncEventType.PORT_ERR
            self.report(event_type, event["port"] + 1, event.detail)
        elif event.kind is QP_STATE and event.qpn in self._qps:
            self._qps[event.qpn].on_error(event.detail)

    # ------------------------------------------------------------------ for QPs

    def add(self, qp: QP) -> None:
        self._qps[qp.qp_num] = qp

    def remove(self, qp: QP) -> None:
        del self._qps[qp.qp_num]
        self._events.forget(lambda event: event.element is qp)

    def check_open(self) -> None:
        if self._closed:
            raise VerbsError(EINVAL, "the context is closed")

    def is_the_parents(self) -> bool:
        """Whether this process was forked from the one that has the device: then nothing of it is closed here."""
        try:
            self.device.check_open()
        except Forked:
            return True
        except MrcError:
            return False
        return False

    # ------------------------------------------------------------------ end

    def close(self) -> None:
        """Close it, with every QP, memory region, protection domain, queue and channel made on it."""
        if self._closed:
            return
        if self.is_the_parents():
            self._closed = True
            return
        for qp in list(self._qps.values()):
            qp.close()
        for pd in list(self.pds):
            for mr in pd.mrs:
                mr.close()
            pd.close()
        for cq in list(self.cqs):
            cq.close()
        for channel in list(self.channels):
            channel.close()
        self._closed = True
        self.device.call(lambda: self.device.endpoint.listeners.remove(self._on_event))
        self._events.close()

    def __enter__(self) -> Context:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        says = f"{len(self.pds)} PDs, {len(self.cqs)} CQs, {len(self._qps)} QPs"
        return brief("Context", f"of {self.device.name}", closed=self._closed, says=says)

    def __str__(self) -> str:
        return table(
            "Context",
            [("device", self.device.name), ("PDs", len(self.pds)), ("CQs", len(self.cqs)), ("QPs", len(self._qps))],
        )
