# SPDX-License-Identifier: BSD-2-Clause
"""What a QP knows of its peer before it can receive."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from mrc.endpoint.config import NO_CAPABILITIES, Capability
from mrc.endpoint.paths.addressing import Path
from mrc.endpoint.paths.profiles import EvProfile
from mrc.records import record


@record(frozen=True, slots=True)
class QpPeer:
    """What a QP must know of its peer before it can receive (behaviour.md, QP life).

    `first_psn` is the peer's first PSN (24 bit); `sources` its inner address (128 bit) by the local port its packets
    come in on; `paths` the EVs towards it; `capabilities` what it can do. `name` is what people call its node;
    `paths_of` gives the EVs of another profile towards it.
    """

    qpn: int
    first_psn: int
    paths: Sequence[Path]
    sources: Mapping[int, int]
    capabilities: Capability = NO_CAPABILITIES
    name: str = ""
    paths_of: Callable[[EvProfile], Sequence[Path]] | None = None
