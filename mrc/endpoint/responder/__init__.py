"""The receiving half of a QP: PSNs, placement, SACKs, NACKs and ACKs."""
