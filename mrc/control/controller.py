# SPDX-License-Identifier: BSD-2-Clause
"""The controller of one device: everything of `mrc_ctl.h`, as methods."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from errno import E2BIG, EINVAL, ENOENT, ETIMEDOUT
from typing import TypeVar

from mrc.control import operations
from mrc.control.attributes import (
    MAX_BATCH,
    MAX_EV_COUNT,
    MAX_FIELDS,
    MAX_PROFILES,
    MAX_TOTAL_EV_COUNT,
    USUAL_EV_EVENTS,
    CcProfileAttr,
    ControlCap,
    ControlDeviceAttr,
    EvEventMask,
    EvFormatAttr,
    EvFormatMask,
    EvModeMask,
    EvProfileAttr,
    PortAdmin,
    PortControlAttr,
)
from mrc.control.errors import ControlError
from mrc.control.ev_operations import EvEntry, EvOp, EvOpKind, EvOpResult, entries, run_batch
from mrc.control.events import EvEventQueue
from mrc.control.operations import Batch, OperationResult
from mrc.control.profiles import Profiles, profiles_of
from mrc.endpoint.congestion import algorithm_names
from mrc.endpoint.paths.formats import EvFormat
from mrc.verbs.device import Device
from mrc.verbs.enums import ProtocolVersion
from mrc.verbs.errors import VerbsError
from mrc.verbs.notifications import Notifications
from mrc.verbs.tables import brief

T = TypeVar("T")

_CAPABILITIES = (
    ControlCap.EV_PROFILE_MODIFY_ONLINE
    | ControlCap.EV_EVENT
    | ControlCap.EV_EVENT_PRECISE_DROP_CNT
    | ControlCap.EP_OP_EV_PROBE
)


class Controller:
    """Reads and controls a device and all QPs on it, also those of other Contexts. Calls may come from any thread.

    Every Controller of a device shares its profiles, and so do all endpoints of a host that are at the same addresses:
    EV formats, EV profiles, CC profiles, port states and EVs denied towards all. To change those a process needs
    CAP_NET_ADMIN, else EPERM; with `or_alone` it then changes its own endpoint's. A call that raises ControlError has
    changed nothing.
    """

    def __init__(self, device: Device, *, or_alone: bool = False) -> None:
        self.device = device
        self._or_alone = or_alone
        self.profiles: Profiles = device.call(lambda: profiles_of(device))

    def __repr__(self) -> str:
        return brief("Controller", f"of {self.device.name}", closed=False, says=self.profiles.counts)

    def _call(self, action: Callable[[], T]) -> T:
        return self.device.call(action)

    def _change(self, action: Callable[[], T]) -> T:
        return self._call(lambda: self.profiles.change(action, or_alone=self._or_alone))

    # ------------------------------------------------------------------ device and ports

    def query_device(self) -> ControlDeviceAttr:
        """Return what can be controlled here, and its limits."""
        profiles = self.profiles
        mode = profiles.formats.native
        formats = profiles.formats
        srh = bool(formats[0].attributes["srh"])
        return ControlDeviceAttr(
            name=self.device.name,
            protocol_version=ProtocolVersion.MRC_1,
            max_ev_format_profiles=MAX_PROFILES,
            max_ev_profiles=MAX_PROFILES,
            max_cc_profiles=MAX_PROFILES,
            max_ev_count=MAX_EV_COUNT,
            max_total_ev_count=MAX_TOTAL_EV_COUNT,
            free_ev_count=MAX_TOTAL_EV_COUNT - profiles.ev_count,
            ev_count_alignment=profiles.planes,
            max_fields=MAX_FIELDS,
            max_width=EvFormat(mode, (), srh).limit,
            ev_format_mask=EvFormatMask(mode),
            ev_mode_mask=EvModeMask.AUTO | EvModeMask.EXPLICIT | EvModeMask.GENERATED,
            cc_algorithms=algorithm_names(),
            port_mask=sum(1 << number for number in range(1, len(self.device.ports()) + 1)),
            max_batch=MAX_BATCH,
            caps=_CAPABILITIES,
        )

    def query_port(self, port_num: int) -> PortControlAttr:
        """A port, counted from 1. Raises ControlError ENOENT."""
        port = self.device.ports()[self._port(port_num)]
        endpoint = self.device.endpoint
        admin = PortAdmin(endpoint.port_is_enabled(port_num - 1))
        return PortControlAttr(port_num, port.plane, port.address, admin, endpoint.link_is_up(port_num - 1))

    def modify_port(self, port_num: int, admin: PortAdmin) -> None:
        """Set a port down, or give it back. Raises ControlError ENOENT, and EINVAL for a state that is none.

        Its EVs carry nothing from then on. Peers are notified over the other planes. What still arrives is received.
        """
        port = self._port(port_num)
        if not isinstance(admin, PortAdmin):
            raise ControlError(EINVAL, f"a port is set UP or DOWN, not {admin!r}")
        endpoint = self.device.endpoint
        self._change(lambda: endpoint.enable_port(port, admin == PortAdmin.UP, self.device.now()))

    def _port(self, port_num: int) -> int:
        count = len(self.device.ports())
        if type(port_num) is not int or not 1 <= port_num <= count:
            raise ControlError(ENOENT, f"no port {port_num!r}: there are 1 to {count}")
        return port_num - 1

    # ------------------------------------------------------------------ profiles

    def modify_ev_format(self, profile_id: int, attr: EvFormatAttr) -> None:
        """Take an EV format to `attr.state` with these attributes; None: it stays where it is.

        Raises ControlError: ENOENT no such number; EINVAL a way that does not exist, attributes missing or wrong; E2BIG
        fields too many or too wide; ENOTSUP a mode the network does not read, changes while ONLINE; EBUSY an EV profile
        has it; EPERM for the default one. So do the other two.
        """
        self._change(lambda: self.profiles.formats.modify(profile_id, attr))

    def query_ev_format(self, profile_id: int) -> EvFormatAttr:
        """Return state and attributes of an EV format profile. Raises ControlError ENOENT."""
        slot = self._call(lambda: self.profiles.formats.slot(profile_id))
        return EvFormatAttr(state=slot.state, **slot.attributes)

    def modify_ev_profile(self, profile_id: int, attr: EvProfileAttr) -> None:
        """Take an EV profile to `attr.state` with these attributes, as `modify_ev_format` does a format.

        One that is ONLINE may be changed: its QPs go on with the new EVs at once.
        """
        self._change(lambda: self.profiles.evs.modify(profile_id, attr))

    def query_ev_profile(self, profile_id: int) -> EvProfileAttr:
        """Return state and attributes of an EV profile. Raises ControlError ENOENT."""
        slot = self._call(lambda: self.profiles.evs.slot(profile_id))
        return EvProfileAttr(state=slot.state, **slot.attributes)

    def move_qps(self, old: int, new: int) -> int:
        """QPs that use EV profile `old` use `new` from now on. Returns how many. Both must be ONLINE, else EINVAL."""
        return self._call(lambda: self.profiles.evs.move(old, new))

    def modify_cc_profile(self, profile_id: int, attr: CcProfileAttr) -> None:
        """Take a CC profile to `attr.state` with these attributes, as `modify_ev_format` does a format."""
        self._change(lambda: self.profiles.ccs.modify(profile_id, attr))

    def query_cc_profile(self, profile_id: int) -> CcProfileAttr:
        """Return state and attributes of a CC profile. Raises ControlError ENOENT."""
        slot = self._call(lambda: self.profiles.ccs.slot(profile_id))
        return CcProfileAttr(state=slot.state, **slot.attributes)

    # ------------------------------------------------------------------ EVs

    def ev_operations(self, profile_id: int, batch: Sequence[EvOp], *, keep_going: bool = False) -> list[EvOpResult]:
        """Run a batch on the EVs of a profile, to the first entry that fails: its result is then the last.

        With `keep_going` the entries after it are run, too.

        An EV that was DENIED carries no packet from the return of this call on, but probes of `operate` that name it.
        A batch of queries alone changes nothing, and so takes no CAP_NET_ADMIN. Raises ControlError ENOENT for a
        profile nobody described, E2BIG for too long a batch.
        """
        carry_out = self._call if all(each.op == EvOpKind.QUERY_STATE for each in batch) else self._change
        return carry_out(lambda: run_batch(self.profiles, profile_id, batch, keep_going=keep_going))

    def query_ev_array(self, profile_id: int, most: int = MAX_EV_COUNT) -> list[int | None]:
        """The array of an EXPLICIT profile, None where it is not populated. Raises ControlError E2BIG, with the needed
        size, when it has more than `most` entries; ENOTSUP for a profile of another mode."""
        return self._call(lambda: self._array(profile_id, most))

    def _array(self, profile_id: int, most: int) -> list[int | None]:
        slot = self.profiles.evs.described(profile_id)
        if len(slot.array) > most:
            needed = len(slot.array)
            raise ControlError(E2BIG, f"the array has {needed} entries, room for {most} was given", needed)
        return list(slot.array)

    def query_evs(self, profile_id: int, most: int = 1 << 20) -> list[EvEntry]:
        """Every EV of every QP that uses a profile, with its state and counts.

        Raises ControlError ENOENT for a profile nobody described, E2BIG as above.
        """
        return self._call(lambda: entries(self.profiles, profile_id, most))

    # ------------------------------------------------------------------ events

    def ev_events(
        self, limit: int = 1024, mask: EvEventMask = USUAL_EV_EVENTS, *, ev_only: bool = False
    ) -> EvEventQueue:
        """A queue of events from now on. Close it, or use it as a context manager."""
        if limit < 1:
            raise ControlError(EINVAL, f"a queue has room for at least 1 event, got {limit}")
        queue = EvEventQueue(self.profiles, limit, mask, ev_only=ev_only)
        self._call(queue.open)
        return queue

    # ------------------------------------------------------------------ endpoint operations

    def operate(self, batch: Sequence[operations.Operation], timeout: float = 1.0) -> list[OperationResult]:
        """Send EV probes and port status updates and wait for the answers, at most `timeout` seconds.

        Each entry has its result. Raises ControlError E2BIG for too long a batch, EINVAL for one of two kinds and for
        a req_id that does not fit 16 bits, ETIMEDOUT when the endpoint itself does not come back in time.
        """
        over: Notifications[bool] = Notifications(self.device)
        try:
            timeout_ns = int(timeout * 1e9)
            running = self._call(
                lambda: Batch(self.profiles, batch, self.device.now(), lambda: over.put(True), timeout_ns)
            )
            try:
                over.get(timeout + 1.0)
            except VerbsError as error:
                if error.errno != ETIMEDOUT:
                    raise
                raise ControlError(ETIMEDOUT, "the endpoint does not come back") from None
        finally:
            over.close()
        return [result for result in running.results if result is not None]
