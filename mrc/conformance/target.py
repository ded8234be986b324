# SPDX-License-Identifier: BSD-2-Clause
"""What an endpoint offers to be tested: an adapter implements `Target`, `Session` and `TargetQp`.

An adapter has to carry packets and to set up a connection. Everything else it may leave out: what a case asks and an
adapter does not have makes the case unsupported, with the reason, or leaves one of its checks undone, which its result
says. docs/conformance.md has an adapter as an example.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from mrc.conformance.setup import Plane, Setup, TargetQpTerms, TesterQp
from mrc.wire.profile import WireProfile

__all__ = [
    "ATTRIBUTES",
    "OPTIONS",
    "QP_ERROR",
    "AdapterFault",
    "Frame",
    "Refused",
    "Session",
    "Target",
    "TargetCompletion",
    "TargetCrashed",
    "TargetEvent",
    "TargetLost",
    "TargetQp",
    "Unsupported",
]

# Settings a case may ask for in `Setup.options`; an adapter raises Unsupported for what it cannot set.
OPTIONS: dict[str, str] = {
    "mpr_dest": "units of 128 PSNs that the target's responder grants",
    "max_wimm_dest": "writes with immediate that it grants",
    "sack_threshold_bytes": "bytes after which it sends a SACK unasked",
    "max_span": "PSNs above cack_psn beyond which it has no bitmap (NO_BITMAP)",
    "max_held_packets": "packets above a hole beyond which it has no buffer (NO_PKT_BUFFER)",
    "max_stashed_immediates": "early immediates beyond which it has no resource (NO_RESOURCE)",
    "timeout": "t of the local ACK timeout, 1.024 us x 2^t",
    "linear_retries": "retries at that interval",
    "exponential_retries": "retries after them, each doubling it",
    "timestamps": "1: requests carry a TSETH, 0: they do not",
    "active_count": "EVs that carry data at once",
    "ev_min_active": "EVs below which none goes bad",
    "evs_per_plane": "EVs of the profile in each plane",
    "ev_fields": "fields that EVs are generated from, as `mrc.conformance.setup.generated_fields` reads them",
    "ev_widths": "widths of the fields of the EV format, bits, the most significant first: `8 24`",
    "srh": "1: in SRv6 mode with a segment routing header",
    "target_leaf": "number of the leaf that the target, host 1, is on, 1 unless given",
    "tester_leaf": "number of the leaf that the tester is on, 0 unless given",
    "tester_host": "number of the tester's host, 0 unless given",
    "controller": "name of the congestion controller; empty: none is named",
    "base_rtt_ns": "the round trip without queues, ns, that NSCC is configured with; without it is measured",
    "line_rate_bps": "the line rate of NSCC's profile",
    "trimming": "1: NSCC is configured for switches that trim, 0: for those that do not",
    "initial_cwnd": "the window that NSCC starts with, bytes of nominal packet size",
    "max_cwnd": "the most it may become, in place of 1.5 BDP",
}


# Attributes a QP is given on its way up, and the step that takes them (api.md).
ATTRIBUTES: dict[str, str] = {
    "max_wimm_dest": "RTR",
    "mpr_dest": "RTR",
    "max_wimm": "RTS",
    "mpr": "RTS",
    "linear_retries": "RTS",
    "exponential_retries": "RTS",
    "timeout": "RTS",
}


class TargetLost(Exception):
    """The target cannot be reached any more: there is no point in any further case. The text says how it was lost."""


class TargetCrashed(Exception):
    """The endpoint under test broke down, by an exception of its own or by never coming to rest. The text says how.

    That is the target's failure. Whatever else an adapter raises is an error of the adapter, which fails no case.
    """


class AdapterFault(Exception):
    """The adapter gave what it may not give. The text says which method gave what."""


class Refused(Exception):
    """The target refuses what it was asked for: the protocol or its API does not allow it. The text says why."""


class Unsupported(Exception):
    """The target cannot do, or cannot tell, what a case asks. The text says what, and becomes the verdict's reason."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A packet at the target's port in `plane`: its bytes from the outermost IP header to the ICRC."""

    plane: int
    data: bytes


@dataclass(frozen=True, slots=True)
class TargetCompletion:
    """A completion at the target: `kind` WRITE or RECEIVE, `status` SUCCESS or the name of an error; `immediate` None
    where none came."""

    wr_id: int
    kind: str
    status: str
    length: int
    immediate: int | None = None


# The kind of the event that a QP went into ERROR.
QP_ERROR = "QP_ERROR"


@dataclass(frozen=True, slots=True)
class TargetEvent:
    """An event that the target reported to its owner.

    `kind` is QP_ERROR where a QP went to ERROR, and a name of the target's own for any other event. `qpn` is None where
    the event is about no QP.
    """

    kind: str
    qpn: int | None
    detail: str = ""


class TargetQp(ABC):
    """The target's end of one connection, in RTS unless `Setup.state` says otherwise."""

    terms: TargetQpTerms

    def memory(self, offset: int, length: int) -> bytes:
        """Bytes of the region that the tester may write to, as they are now."""
        self._cannot("show its memory")

    def state(self) -> str:
        """RESET, INIT, RTR, RTS or ERROR."""
        self._cannot("tell the state of its QP")

    def completions(self) -> Sequence[TargetCompletion]:
        """Those since the last call, in order."""
        self._cannot("tell its completions")

    def post_receive(self, wr_id: int) -> None:
        """Post a receive for one write with immediate. Raises Refused in a state that has none."""
        self._cannot("post a receive")

    def post_write(self, wr_id: int, data: bytes, remote_va: int, rkey: int, immediate: int | None) -> None:
        """Write to the tester's region, with an immediate unless it is None. Raises Refused in a state that does not
        write."""
        self._cannot("post a write")

    def ev_states(self) -> Mapping[int, str]:
        """GOOD, SKIP, ASSUMED_BAD or DENIED for each EV of its profile."""
        self._cannot("tell the states of its EVs")

    def deny_ev(self, ev: int) -> None:
        """What a controller does: send nothing on this EV."""
        self._cannot("be asked to deny an EV")

    def allow_ev(self, ev: int) -> None:
        """What a controller does: use it again."""
        self._cannot("be asked to allow an EV")

    def set_mpr(self, units: int) -> None:
        """Grant the tester `units` x 128 PSNs from now on."""
        self._cannot("change its MPR while it runs")

    def set_receiver_penalty(self, penalty: int, restore: bool) -> None:
        """Say so in every SACK from now on."""
        self._cannot("be asked to request a smaller window")

    def to_error(self) -> None:
        """Put the QP into ERROR."""
        self._cannot("be asked to put its QP into ERROR")

    def go_to(self, state: str, attributes: Mapping[str, int]) -> None:
        """Take the QP to INIT, RTR or RTS with these of `ATTRIBUTES`. Raises Refused, and leaves the QP in the state it
        is in, for a step or a value that is not allowed."""
        self._cannot("be asked to bring a QP up step by step")

    def _cannot(self, what: str) -> NoReturn:
        raise Unsupported(f"the target cannot {what}")


class Session(ABC):
    """A target that runs, and the network between it and the tester. Time is an integer of nanoseconds, `now`.

    `mode` is one of `mrc.conformance.setup.MODES`. `slack_ns` is added to every time limit of a case, 0 in
    virtual time; a packet may come too early by as much, but by a fifth of the time it was to wait at most.
    `outer_as_sent` is False where switches have shortened the uSIDs of what the tester gets.
    """

    mode: str
    planes: Sequence[Plane]
    slack_ns: int = 0
    # Packets of the tester's that network or host did not bring to the target, as far as that is known.
    never_came: int = 0
    outer_as_sent: bool = True
    # QPs the target can have at once in one case; None: as many as a case asks for.
    most_connections: int | None = None

    @property
    @abstractmethod
    def now(self) -> int:
        """The time."""

    @abstractmethod
    def connect(self, setup: Setup, tester: TesterQp) -> TargetQp:
        """A new connection, the target's end of it in RTS. Raises Unsupported for what cannot be had."""

    @abstractmethod
    def put(self, frames: Sequence[Frame]) -> None:
        """Give the target these, in one burst, now."""

    @abstractmethod
    def get(self, until: int) -> Sequence[Frame]:
        """What the target sent next, at time `now`, which moves there; nothing once `now` has come to `until`."""

    @abstractmethod
    def close(self) -> None:
        """The case is over."""

    def settle(self) -> int | None:
        """The script looks at what has come. In real time: wait until the target has done what it does at once, and
        say up to when packets of that may come; None in virtual time."""
        return self.now + self.slack_ns if self.slack_ns else None

    @property
    def disturbed(self) -> str:
        """Why the times of this session are not to be trusted, "" if they are. A failed case is run again then."""
        return ""

    def outer_addresses(self, ev: int) -> tuple[int, int] | None:
        """(source, destination) of the outer IPv6 header of a packet to the target on this EV; None: there is none."""
        return None

    def check(self, setup: Setup) -> None:
        """Raises Refused where the target would not be set up so. Nothing is done but to find that out."""
        self._cannot("say what it would refuse")

    def hold(self, duration: int) -> None:
        """From now on keep what the target gets for so long before it may answer."""
        self._cannot("be made to wait with its answers")

    def counters(self) -> Mapping[str, int]:
        """Everything the target counts, under its own names."""
        self._cannot("tell its counters")

    def events(self) -> Sequence[TargetEvent]:
        """The events that the target reported to its owner since the last call, in order."""
        self._cannot("tell its events")

    def set_port(self, plane: int, up: bool) -> None:
        """Take the link of the target's port in `plane` down or up."""
        self._cannot("have a port taken down")

    def set_port_room(self, plane: int, room: bool) -> None:
        """Fill up or empty the queue of the target's port in `plane`."""
        self._cannot("have the queue of a port filled")

    def probe_ev(self, ev: int, dscp: int | None) -> None:
        """What a controller does: an EV probe on this EV, with this codepoint."""
        self._cannot("be asked to probe an EV")

    def ev_probe_results(self) -> Mapping[int, int | None]:
        """By EV: the round trip in ns that the last probe measured, None where it failed."""
        self._cannot("tell what its EV probes found")

    def _cannot(self, what: str) -> NoReturn:
        raise Unsupported(f"the target cannot {what}")


class Target(ABC):
    """An endpoint under test. A session is opened for each case, so that cases do not know of each other."""

    name: str

    def close(self) -> None:
        """The run is over."""
        return

    @abstractmethod
    def open(self, setup: Setup, wire: WireProfile, seed: int) -> Session:
        """Start the target for one case; `seed` is the same for the same case. Raises Unsupported."""
