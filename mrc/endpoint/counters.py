# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""Named counters: everything dropped, everything recovered. A name not declared here cannot be counted."""

from __future__ import annotations

from types import GetSetDescriptorType
from typing import Any

from mrc.wire.compiled import Subclassed, python


class Counters(Subclassed):
    """Counts since start. An endpoint has one; each QP has its own for what happens after dispatch.

    Counters can be given a value to begin with, by name. Raises AttributeError for a name that is none.
    """

    # Dropped before any QP saw it.
    too_short: int
    bad_length: int
    not_ipv6_udp: int
    bad_udp_port: int
    bad_tver: int
    unknown_opcode: int
    bad_icrc: int
    trimmed_received: int
    unknown_qp: int
    wrong_qp_state: int
    bad_source: int
    misdirected: int
    bad_pkey: int
    # Whole packets that were not answered, or not looked at, because too many of their kind came.
    over_rate: int
    # By the kernel, under a flood, for one of the reasons above (mrc.net.flood_filter).
    refused_by_kernel: int
    # Endpoint operations.
    unknown_peer: int
    unknown_endpoint_operation: int
    unexpected_endpoint_response: int
    endpoint_responses_dropped: int
    ev_probes_sent: int
    ev_probes_failed: int
    ev_probes_answered: int
    port_updates_sent: int
    port_updates_received: int
    port_status_overruled: int
    # Responder.
    requests_received: int
    bytes_placed: int
    duplicates_old: int
    duplicates_above_epsn: int
    psn_out_of_window: int
    psn_out_of_range: int
    ecn_marked_received: int
    bad_rkey: int
    bad_address: int
    bad_request_length: int
    invalid_request: int
    sacks_sent: int
    acks_sent: int
    naks_sent: int
    nacks_sent: int
    no_room: int
    waited_for_receive: int
    probes_answered: int
    # Requestor.
    data_packets_sent: int
    data_bytes_sent: int
    retransmitted_packets: int
    spurious_retransmissions: int
    sacks_received: int
    acks_received: int
    nacks_received: int
    naks_received: int
    ack_for_unsent_psn: int
    ack_too_old: int
    ack_before_first_psn: int
    unknown_probe_answer: int
    unknown_ev: int
    losses_by_hole: int
    losses_by_path_timer: int
    losses_by_nack: int
    unknown_nack_reason: int
    local_ack_timeouts: int
    tail_probes_sent: int
    path_probes_sent: int
    path_probes_failed: int
    rtt_samples: int
    not_sent_by_system: int

    def __init__(self, **values: int) -> None:
        for name in self.names():
            setattr(self, name, 0)
        for name, value in values.items():
            setattr(self, name, value)

    def names(self) -> python[tuple[str, ...]]:
        """All counters there are."""
        return COUNTERS

    @property
    def duplicates_received(self) -> int:
        """Requests that brought a PSN which had arrived before."""
        return self.duplicates_old + self.duplicates_above_epsn

    def as_dict(self, *, zeros: bool = False) -> python[dict[str, int]]:
        """Name to count; those still 0 are left out unless `zeros`."""
        values = {name: getattr(self, name) for name in self.names()}
        return {name: value for name, value in values.items() if value or zeros}

    def add(self, other: Counters) -> python[None]:
        """Add what another counted to these counters."""
        for name in self.names():
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Counters) and all(getattr(self, name) == getattr(other, name) for name in self.names())

    def __hash__(self) -> int:
        raise TypeError("counters change: they have no hash")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value}' for name, value in self.as_dict().items())})"


def _names() -> python[tuple[str, ...]]:
    """The names declared above. A compiled class keeps no annotations, but a descriptor for each, as for a property."""
    declared = getattr(Counters, "__annotations__", None) or [
        name
        for name, what in vars(Counters).items()
        if isinstance(what, GetSetDescriptorType) and name != "duplicates_received"
    ]
    return tuple(declared)


# The names of all counters.
COUNTERS = _names()
