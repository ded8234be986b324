# SPDX-License-Identifier: BSD-2-Clause
"""The traffic class each kind of packet is sent with (wire.md section 12)."""

from __future__ import annotations

from mrc.errors import CallerError
from mrc.records import record
from mrc.wire.profile import WireProfile

ECT0 = 0b10
CE = 0b11
ECN_MASK = 0b11


@record(frozen=True, slots=True)
class TrafficClasses:
    """DSCP and ECN as one byte each. Data is sent ECT(0), control is not ECN-capable."""

    data: int
    retransmission: int
    probe: int
    control: int

    @classmethod
    def of(cls, profile: WireProfile, *, peer_answers_trims: bool, traffic_class: int | None = None) -> TrafficClasses:
        """Codepoints of a profile. A peer that cannot answer trims is sent data that is not trimmed.

        With `traffic_class`, a QP's own, its DSCP is that of data, retransmissions and probes. Raises CallerError for a
        codepoint that marks trimmed packets.
        """
        if traffic_class is not None:
            if traffic_class >> 2 in profile.trimmed_dscps:
                raise CallerError(f"traffic class {traffic_class}: DSCP {traffic_class >> 2} marks trimmed packets")
            own = traffic_class & ~ECN_MASK | ECT0
            return cls(data=own, retransmission=own, probe=own, control=profile.dscp_control << 2)
        first = profile.dscp_trimmable if peer_answers_trims else profile.dscp_no_trim
        again = profile.dscp_trimmable_retx if peer_answers_trims else profile.dscp_no_trim
        return cls(
            data=first << 2 | ECT0,
            retransmission=again << 2 | ECT0,
            probe=profile.dscp_trimmable << 2 | ECT0,
            control=profile.dscp_control << 2,
        )
