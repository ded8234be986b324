"""Why a requirement has no case: the one table of reasons. `mrc conformance list --missing` prints it."""

from __future__ import annotations

REASONS: dict[str, str] = {
    "MRC-WIRE-21": (
        "SE and M are sent as 0 (MRC-WIRE-22) and change nothing on receipt (MRC-WIRE-20/received sets both), "
        "so no packet tells which of the two bits an endpoint takes for which"
    ),
    "MRC-RESP-12": (
        "the order of two steps inside the target: no packet shows it, and by the time a script can look at the memory "
        "both have been taken"
    ),
    "MRC-TRIM-01..03": (
        "what a switch does with a packet it trims: the target is an endpoint, and what it makes of such packets is "
        "MRC-TRIM-04 to MRC-TRIM-07"
    ),
    "MRC-PATH-02": (
        "how large a profile is, and how large its active set, is up to whoever sets up the QP and to the hardware: "
        "a script gives both"
    ),
}
