# SPDX-License-Identifier: BSD-2-Clause
"""What a case asks of the target, and the parameters that both ends exchange first (behaviour.md, QP life)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["CAPABILITIES", "MODES", "GeneratedField", "Plane", "Setup", "TargetQpTerms", "TesterQp", "generated_fields"]

TRIM_NACK, DYNAMIC_MPR, SVC_TIME = "TRIM_NACK", "DYNAMIC_MPR", "SVC_TIME"
# What a case may need of a target, or do without.
CAPABILITIES = frozenset({TRIM_NACK, DYNAMIC_MPR, SVC_TIME})
# How a packet gets its path (wire.md, Entropy value).
MODES = ("srv6", "stev", "udp")

DEFAULT_FIRST_PSN = 1000
TESTER_REGION_VA = 0x5E_0000_0000
TESTER_RKEY = 0x5EED0001


@dataclass(frozen=True, slots=True)
class Setup:
    """One connection as a case wants it. What a target cannot be brought to makes the case unsupported.

    None leaves the choice to the target. `mode` is how EVs are carried, `ip` 4 or 6, `planes` how many at least,
    `agreed` the capabilities that both ends are to have, `without` those of which one end lacks each; the tester has no
    others than `agreed`. `first_psn` is the tester's, `target_first_psn` the target's. `mpr` and `max_wimm` are what
    the tester grants the target. `options` are settings of the target by the names of `mrc.conformance.target.OPTIONS`.
    `wire` are switches of the wire profile that both ends are to follow, whatever the run's profile says of them.
    `own_timers`: the case is about timers that the endpoint has where nobody sets them; a live target may have coarser
    ones otherwise. `state` is how far the target's QP is brought up before the script begins: RESET, INIT, RTR or RTS.

    What the script needs of the target, at least, besides `planes`: `evs` are EVs to the target and
    `target_evs` EVs of its profile, of all planes together; `plane_evs` EVs of its profile in each plane; `window` PSNs
    that its responder takes (MPR x 128), `immediates` writes with immediate that it grants, `region` bytes open to the
    tester, `connections` QPs at once. `mrc.conformance.needs` looks at them before the script begins.
    """

    mode: str | None = None
    ip: int | None = None
    planes: int | None = None
    path_mtu: int | None = None
    agreed: frozenset[str] = frozenset()
    without: frozenset[str] = frozenset()
    first_psn: int | None = None
    target_first_psn: int | None = None
    mpr: int = 8
    max_wimm: int = 32
    options: Mapping[str, int | str] = field(default_factory=dict)
    wire: Mapping[str, Any] = field(default_factory=dict)
    own_timers: bool = False
    state: str = "RTS"
    evs: int = 1
    target_evs: int = 1
    plane_evs: int = 1
    window: int = 0
    immediates: int = 0
    region: int = 4096
    connections: int = 1


@dataclass(frozen=True, slots=True)
class GeneratedField:
    """One field of a generated EV (wire.md section 10). `max_val` None: all that the bits of the mask can say."""

    width: int
    init_val: int
    mask: int
    min_val: int = 0
    max_val: int | None = None


def generated_fields(text: str) -> tuple[GeneratedField, ...]:
    """The option `ev_fields`: `8:0xA0:0x0F:2:2 4:0:0xF`, each width, init_val, mask, and min_val and max_val if any."""
    return tuple(GeneratedField(*(int(value, 0) for value in each.split(":"))) for each in text.split())


@dataclass(frozen=True, slots=True)
class Plane:
    """One plane as the two ends see it. `evs` are EVs from the tester to the target, `target_evs` those of the target's
    profile towards the tester."""

    number: int
    tester: str
    target: str
    evs: tuple[int, ...]
    target_evs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TesterQp:
    """The tester's end of a connection, as it is described to the target. Writes of the target's may go to the
    `region_length` bytes at `region_va` under `rkey`."""

    qpn: int
    first_psn: int
    mpr: int
    max_wimm: int
    capabilities: frozenset[str]
    region_va: int = TESTER_REGION_VA
    region_length: int = 1 << 30
    rkey: int = TESTER_RKEY


@dataclass(frozen=True, slots=True)
class TargetQpTerms:
    """The target's end. `region_length` bytes at `region_va` are open to the tester under `rkey`; `mpr` (units of 128
    PSNs) and `max_wimm` are what the target grants; `agreed` is what both ends can do.

    `tester` is the tester's end where that was not up to the tester, but agreed on by hand say.
    """

    qpn: int
    first_psn: int
    path_mtu: int
    region_va: int
    region_length: int
    rkey: int
    mpr: int
    max_wimm: int
    agreed: frozenset[str]
    tester: TesterQp | None = None
