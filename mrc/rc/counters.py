"""Named counters of an RC endpoint: everything dropped, everything recovered."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(slots=True)
class RcCounters:
    """Counts since start. An endpoint has one; each QP has its own for what happens after dispatch."""

    # Dropped before any QP saw it.
    too_short: int = 0
    not_udp: int = 0
    bad_length: int = 0
    bad_udp_port: int = 0
    bad_tver: int = 0
    unknown_opcode: int = 0
    bad_icrc: int = 0
    bad_pkey: int = 0
    unknown_qp: int = 0
    wrong_qp_state: int = 0
    bad_source: int = 0
    # Responder.
    requests_received: int = 0
    bytes_placed: int = 0
    messages_received: int = 0
    duplicates: int = 0
    out_of_sequence: int = 0
    acks_sent: int = 0
    sequence_naks_sent: int = 0
    rnr_naks_sent: int = 0
    fatal_naks_sent: int = 0
    # Requestor.
    data_packets_sent: int = 0
    data_bytes_sent: int = 0
    retransmitted_packets: int = 0
    acks_received: int = 0
    sequence_naks_received: int = 0
    rnr_naks_received: int = 0
    fatal_naks_received: int = 0
    answers_to_nothing: int = 0
    unknown_syndrome: int = 0
    local_ack_timeouts: int = 0
    not_sent_by_system: int = 0

    def as_dict(self, *, zeros: bool = False) -> dict[str, int]:
        """Name to count; those still 0 are left out unless `zeros`."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if value or zeros}

    def add(self, other: RcCounters) -> None:
        for field in fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))
