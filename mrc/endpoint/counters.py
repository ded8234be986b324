"""Named counters: everything dropped, everything recovered. A name not declared here cannot be counted."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(slots=True)
class Counters:
    """Counts since start. An endpoint has one; each QP has its own for what happens after dispatch."""

    # Dropped before any QP saw it.
    too_short: int = 0
    bad_length: int = 0
    not_ipv6_udp: int = 0
    bad_udp_port: int = 0
    bad_tver: int = 0
    unknown_opcode: int = 0
    bad_icrc: int = 0
    trimmed_received: int = 0
    unknown_qp: int = 0
    wrong_qp_state: int = 0
    bad_source: int = 0
    misdirected: int = 0
    bad_pkey: int = 0
    # Whole packets that were not answered, or not looked at, because too many of their kind came.
    over_rate: int = 0
    # By the kernel, under a flood, for one of the reasons above (mrc.net.flood_filter).
    refused_by_kernel: int = 0
    # Endpoint operations.
    unknown_peer: int = 0
    unknown_endpoint_operation: int = 0
    unexpected_endpoint_response: int = 0
    endpoint_responses_dropped: int = 0
    ev_probes_sent: int = 0
    ev_probes_failed: int = 0
    ev_probes_answered: int = 0
    port_updates_sent: int = 0
    port_updates_received: int = 0
    port_status_overruled: int = 0
    # Responder.
    requests_received: int = 0
    bytes_placed: int = 0
    duplicates_old: int = 0
    duplicates_above_epsn: int = 0
    psn_out_of_window: int = 0
    psn_out_of_range: int = 0
    ecn_marked_received: int = 0
    bad_rkey: int = 0
    bad_address: int = 0
    bad_request_length: int = 0
    invalid_request: int = 0
    sacks_sent: int = 0
    acks_sent: int = 0
    naks_sent: int = 0
    nacks_sent: int = 0
    no_room: int = 0
    probes_answered: int = 0
    # Requestor.
    data_packets_sent: int = 0
    data_bytes_sent: int = 0
    retransmitted_packets: int = 0
    spurious_retransmissions: int = 0
    sacks_received: int = 0
    acks_received: int = 0
    nacks_received: int = 0
    naks_received: int = 0
    ack_for_unsent_psn: int = 0
    ack_too_old: int = 0
    unknown_probe_answer: int = 0
    unknown_ev: int = 0
    losses_by_hole: int = 0
    losses_by_path_timer: int = 0
    losses_by_nack: int = 0
    unknown_nack_reason: int = 0
    local_ack_timeouts: int = 0
    tail_probes_sent: int = 0
    path_probes_sent: int = 0
    path_probes_failed: int = 0
    rtt_samples: int = 0
    not_sent_by_system: int = 0

    @property
    def duplicates_received(self) -> int:
        """Requests that brought a PSN which had arrived before."""
        return self.duplicates_old + self.duplicates_above_epsn

    def as_dict(self, *, zeros: bool = False) -> dict[str, int]:
        """Name to count; those still 0 are left out unless `zeros`."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if value or zeros}

    def add(self, other: Counters) -> None:
        for field in fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))
