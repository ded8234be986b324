# SPDX-License-Identifier: BSD-2-Clause
"""What the two nodes of a world are like, and how that is drawn."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from mrc.endpoint.completions import Completion
from mrc.endpoint.config import Capability, PathConfig, QpConfig, ResponderConfig

MICROSECOND, MILLISECOND, SECOND = 1_000, 1_000_000, 1_000_000_000
ALL = Capability.TRIM_NACK | Capability.SVC_TIME | Capability.DYNAMIC_MPR
# What a QP's own traffic class may be: codepoints that a switch trims, one that it does not, and with bits of ECN.
TRAFFIC_CLASSES = (4 << 2, 8 << 2 | 1, 46 << 2, 0, 255)


@dataclass(frozen=True, slots=True)
class Setting:
    """What the two nodes of one world are like. `before_wrap`: how many PSNs before 2^24 the QPs' first ones lie.
    `traffic_classes` are those of the QPs of a node in turn, None for what the wire profile says; `solicits`: whether
    writes may be solicited."""

    controller: str = "fixed"
    config: QpConfig = field(default_factory=lambda: QpConfig(path_mtu=256, mpr=1, mpr_dest=1, capabilities=ALL))
    planes: int = 2
    spines: int = 3
    pairs: int = 2
    before_wrap: int = 20
    fair_share: int = 128
    transmit_batch: int = 64
    seed: int = 0
    traffic_classes: tuple[int | None, ...] = (None,)
    solicits: bool = False

    @property
    def for_ever(self) -> bool:
        """Whether no QP may give up of its own accord."""
        return self.config.exponential_retries == 25

    @property
    def unknown_reasons_are_fatal(self) -> bool:
        # An older checkout has no such switch (tools/differential --before).
        return bool(getattr(self.config, "fail_on_unknown_nack", False))


def draw_setting(chance: random.Random, known: Collection[str] | None = None) -> Setting:
    """Any of them. Of the switches, which an older checkout may lack, only those that are `known` are set (None: all):
    the rest is drawn as ever."""
    capabilities = chance.choice((ALL, ALL, ALL & ~Capability.DYNAMIC_MPR, Capability.DYNAMIC_MPR, Capability(0)))
    config = QpConfig(
        path_mtu=chance.choice((256, 256, 256, 512)),
        mpr=1,
        mpr_dest=1,
        max_mpr=chance.choice((1, 2, 4)),
        max_wimm=(wimm := chance.choice((0, 1, 2, 32, 32))),
        max_wimm_dest=wimm,
        capabilities=capabilities,
        timeout=chance.choice((10, 14)),
        linear_retries=chance.choice((1, 7)),
        exponential_retries=chance.choice((25, 25, 2, 7)),
        sack_threshold_bytes=chance.choice((1, 4096, 16384, 1 << 20)),
        timestamps=chance.random() < 0.7,
        paths=PathConfig(
            active_count=chance.choice((None, None, 2, 4)), ev_min_active=chance.choice((None, None, 1, 4))
        ),
        responder=chance.choice(
            (
                ResponderConfig(),
                ResponderConfig(),
                ResponderConfig(),
                ResponderConfig(max_span=40),
                ResponderConfig(max_held_packets=8),
                ResponderConfig(max_span=9, max_held_packets=3, max_stashed_immediates=0),
            )
        ),
    )
    setting = Setting(
        controller=chance.choice(("fixed", "nscc")),
        config=config,
        planes=2,
        spines=chance.choice((1, 2, 3, 4)),
        pairs=chance.choice((1, 2, 3)),
        before_wrap=chance.choice((1, 20, 500, 1 << 22)),
        fair_share=chance.choice((1, 4, 128)),
        transmit_batch=chance.choice((1, 3, 64)),
        seed=chance.randrange(1 << 30),
    )
    return with_switches(
        setting, {name: value for name, value in draw_switches(chance) if known is None or name in known}
    )


def draw_switches(chance: random.Random) -> Iterator[tuple[str, Any]]:
    """Each switch by its name, with a value."""
    yield "sack_beyond_threshold", chance.random() < 0.4
    yield "follow_shrinking_mpr", chance.random() < 0.7
    yield "fail_on_unknown_nack", chance.random() < 0.15
    yield "retry_budget_per_qp", chance.random() < 0.4
    yield "skip_at_least_ns", chance.choice((0, 0, 100 * MICROSECOND, 10 * MILLISECOND, 1000 * MILLISECOND))
    yield "solicited", chance.random() < 0.6
    # Of QPs in turn; and so those of a node may differ, and the ends of a pair.
    classes = (None, *chance.choices((None, *TRAFFIC_CLASSES), k=2))
    yield "traffic_class", chance.choice(((None,), classes))


def with_switches(setting: Setting, switches: Mapping[str, Any]) -> Setting:
    """`setting` with these in place of their defaults."""
    of_paths = {name: value for name, value in switches.items() if name == "skip_at_least_ns"}
    of_qp = {
        name: value
        for name, value in switches.items()
        if name not in {"skip_at_least_ns", "solicited", "traffic_class"}
    }
    config = replace(setting.config, paths=replace(setting.config.paths, **of_paths), **of_qp)
    classes = switches.get("traffic_class", (None,))
    return replace(setting, config=config, traffic_classes=classes, solicits=switches.get("solicited", False))


def known_switches() -> set[str]:
    """What this checkout knows of what `draw_switches` names."""
    names = {each.name for kind in (QpConfig, PathConfig, Completion) for each in fields(kind)}
    return names & dict(draw_switches(random.Random(0))).keys()
