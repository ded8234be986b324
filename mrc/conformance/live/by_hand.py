# SPDX-License-Identifier: BSD-2-Clause
"""A live endpoint that nobody can talk to beside the packets: its QPs were agreed on by hand, in a file."""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Iterable, Sequence

from mrc.conformance.case import Case
from mrc.conformance.codec.carriage import read_carriage
from mrc.conformance.codec.headers import ENDPOINT_REQUEST, PORT_STATUS_UPDATE
from mrc.conformance.live.qp_file import HandPlane, HandQp, QpFile
from mrc.conformance.live.tester_port import open_ports
from mrc.conformance.live.wire_clock import STALLED_NS, WireClock
from mrc.conformance.setup import DEFAULT_FIRST_PSN, SVC_TIME, Plane, Setup, TesterQp
from mrc.conformance.target import Frame, Session, Target, TargetQp, Unsupported
from mrc.conformance.targets.in_process_paths import PATH_OPTIONS
from mrc.errors import CallerError
from mrc.fabric.host_view import USID_MODES, Fabric
from mrc.wire.profile import WireProfile

# How long what the target does at once may take to come: it cannot be asked whether it is done.
QUIET_NS = 20_000_000
DEFAULT_MTU = 1024
_FIRST_TESTER_QPN = 0x2B0200
_OPERATION_AT = 13  # byte 1 of the ERTH, behind the BTH


class ByHandTarget(Target):
    """The target of a file, seen from `fabric`, this host's. Each connection takes a QP of the file that is set up as
    the case needs it and that none has taken before. Raises CallerError when this host is not the file's tester."""

    def __init__(self, file: QpFile, fabric: Fabric, wire: WireProfile, *, slack_ns: int) -> None:
        self.name = f"the QPs of {file.name}"
        self._file = file
        self._wire = wire
        self._slack_ns = slack_ns
        self._fresh = list(file.qps)
        ours = {port.plane: port for port in fabric.ports}
        for each in file.planes:
            port = ours.get(each.plane.number)
            if port is None or ipaddress.ip_address(port.address) != ipaddress.ip_address(each.plane.tester):
                raise CallerError(
                    f"{file.name}: this host is not {each.plane.tester} in plane {each.plane.number}: write the file "
                    "where the tester runs, with mrc conformance parameters"
                )
        used = [ours[each.plane.number] for each in file.planes]
        self._clock = WireClock(open_ports(used, uses_usids=file.mode in USID_MODES, udp_ports=wire.accepted_udp_ports))

    def open(self, setup: Setup, wire: WireProfile, seed: int) -> Session:
        if wire != self._wire:
            raise Unsupported("the target's wire profile is what it is: nobody can change it for a case")
        return ByHandSession(self._file, self._fresh, self._clock, self._slack_ns)

    def close(self) -> None:
        self._clock.close()


class ByHandSession(Session):
    """One case."""

    outer_as_sent = False

    def __init__(self, file: QpFile, fresh: list[HandQp], clock: WireClock, slack_ns: int) -> None:
        self.mode = file.mode
        self.planes: Sequence[Plane] = [each.plane for each in file.planes]
        self.slack_ns = slack_ns
        self._path_mtu = file.path_mtu
        self._planes = file.planes
        self._fresh = fresh
        self._clock = clock
        self._taken: list[HandQp] = []
        clock.begin()

    @property
    def now(self) -> int:
        return self._clock.now

    @property
    def disturbed(self) -> str:
        longest = self._clock.stalled_ns
        return f"the tester stood still for {longest / 1e6:.0f} ms" if longest > STALLED_NS else ""

    def connect(self, setup: Setup, tester: TesterQp) -> TargetQp:
        if setup.state != "RTS":
            raise Unsupported("the QPs of the file are in RTS already")
        fitting = [qp for qp in self._fresh if fits(qp, setup, self._path_mtu)]
        if not fitting:
            raise Unsupported(f"no QP is left in the file that {_description(setup)}")
        # A case that needs less leaves the other QPs to cases that need more.
        chosen = min(fitting, key=lambda qp: len(qp.tester.capabilities - setup.agreed))
        self._fresh.remove(chosen)
        self._taken.append(chosen)
        return ByHandQp(chosen)

    def put(self, frames: Sequence[Frame]) -> None:
        if any(map(_is_port_status_update, frames)):
            # QPs are of one case each, the node is there for all of them.
            raise Unsupported("what the target makes of the tester's ports would stay with it for all cases to come")
        self._clock.put(frames)

    def get(self, until: int) -> Sequence[Frame]:
        return self._clock.get(until)

    def settle(self) -> int | None:
        return time.monotonic_ns() + QUIET_NS

    def close(self) -> None:
        if not self._clock.sent:
            # The case could not even begin: its QPs are as they were.
            self._fresh[:0] = self._taken

    def outer_addresses(self, ev: int) -> tuple[int, int] | None:
        if self.mode not in USID_MODES:
            return None
        each = next((each for each in self._planes if ev in each.plane.evs), None) or _of_number(self._planes, ev >> 24)
        at = each.plane.evs.index(ev) if ev in each.plane.evs else 0
        return int(ipaddress.ip_address(each.plane.tester)), each.destinations[at]


class ByHandQp(TargetQp):
    """A QP of the file: nothing but packets comes from it."""

    def __init__(self, qp: HandQp) -> None:
        if qp.target is None:
            raise Unsupported("the file does not say what the target's QP is")
        self.terms = qp.target


def _is_port_status_update(frame: Frame) -> bool:
    found = read_carriage(frame.data)
    if isinstance(found, str):
        return False
    bth, operation = frame.data[found.transport_at :][:1], frame.data[found.transport_at :][_OPERATION_AT:][:1]
    return (bth, operation) == (bytes((ENDPOINT_REQUEST,)), bytes((PORT_STATUS_UPDATE,)))


def fits(qp: HandQp, setup: Setup, path_mtu: int) -> bool:
    """Whether a QP is set up as a case needs it."""
    agreed, tester, target = qp.tester.capabilities, qp.tester, qp.target
    return (
        dict(qp.options) == dict(setup.options)
        and setup.agreed <= agreed
        and not setup.without & agreed
        and setup.path_mtu in (None, path_mtu)
        and tester.first_psn == (DEFAULT_FIRST_PSN if setup.first_psn is None else setup.first_psn)
        and (tester.mpr, tester.max_wimm) == (setup.mpr, setup.max_wimm)
        and (target is None or setup.target_first_psn in (None, target.first_psn))
    )


def _description(setup: Setup) -> str:
    needs = [f"{name} {value}" for name, value in setup.options.items()]
    usually = Setup()
    granted = (("MPR", setup.mpr, usually.mpr), ("immediates", setup.max_wimm, usually.max_wimm))
    needs += [f"{value} as {what} the tester grants" for what, value, usual in granted if value != usual]
    needs += [f"path MTU {setup.path_mtu}"] if setup.path_mtu else []
    needs += sorted(setup.agreed) + [f"no {name}" for name in sorted(setup.without)]
    psns = (("the tester's", setup.first_psn), ("the target's", setup.target_first_psn))
    needs += [f"{psn} as {whose} first PSN" for whose, psn in psns if psn is not None]
    return f"has {', '.join(needs)}" if needs else "nobody has used"


def _of_number(planes: Sequence[HandPlane], number: int) -> HandPlane:
    return next((each for each in planes if each.plane.number == number), planes[0])


def parameters(
    cases: Iterable[Case], fabric: Fabric, *, path_mtu: int, mode: str, spare: int
) -> tuple[QpFile, list[str]]:
    """What the tester asks of a target's operator: a QP for each of these cases and some to spare, for second
    connections, and a word on each QP. The target's own values are missing. Cases that cannot be run with such a target
    are left out."""
    qps: list[HandQp] = []
    notes: list[str] = []
    wanted_by = [(each.id, each.setup) for each in cases] + [("to spare", Setup())] * spare
    for name, setup in wanted_by:
        if not _by_hand(setup, fabric, path_mtu, mode):
            continue
        psn = DEFAULT_FIRST_PSN if setup.first_psn is None else setup.first_psn
        qpn = _FIRST_TESTER_QPN + 0x10001 * len(qps) & 0xFFFFFF
        tester = TesterQp(qpn, psn, setup.mpr, setup.max_wimm, setup.agreed)
        qps.append(HandQp(tester, None, setup.options, setup.target_first_psn))
        notes.append(name)
    planes = tuple(
        HandPlane(Plane(port.plane, port.address, "", (), ()), tester_leaf=port.leaf) for port in fabric.ports
    )
    return QpFile("parameters", mode, path_mtu, planes, tuple(qps), fabric.host), notes


def _by_hand(setup: Setup, fabric: Fabric, path_mtu: int, mode: str) -> bool:
    version = ipaddress.ip_address(fabric.ports[0].address).version
    return (
        setup.state == "RTS"
        and not setup.wire
        and not setup.options.keys() & set(PATH_OPTIONS)
        # It holds for a whole node, and nobody can hold packets up by hand to see it.
        and SVC_TIME not in setup.agreed
        # A controller begins when its QP comes up.
        and "controller" not in setup.options
        and setup.mode in (None, mode)
        and setup.ip in (None, version)
        and setup.path_mtu in (None, path_mtu)
        and (setup.planes or 1) <= len(fabric.ports)
    )
