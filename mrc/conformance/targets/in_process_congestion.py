# SPDX-License-Identifier: BSD-2-Clause
"""The congestion controller of the endpoint as a case wants it: by name, with the numbers of the network it is for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mrc.endpoint.congestion import ControllerFactory, config_of, configured
from mrc.errors import CallerError

# By option, the setting of the controller.
CONGESTION_OPTIONS = {
    "base_rtt_ns": "base_rtt",
    "line_rate_bps": "line_rate_bps",
    "trimming": "trimming",
    "initial_cwnd": "initial_cwnd",
    "max_cwnd": "max_cwnd",
}


def controller_of(options: Mapping[str, int | str]) -> str | ControllerFactory | None:
    """What `Endpoint.create_qp` is to be given; None: nothing, the case asks for the default. Raises CallerError."""
    name = str(options.get("controller", "fixed"))
    changes: dict[str, Any] = {
        CONGESTION_OPTIONS[option]: int(value) for option, value in options.items() if option in CONGESTION_OPTIONS
    }
    if not changes:
        return name or None
    config = config_of(name)
    settings = config.profile_settings() if config is not None else {}
    if config is None or not changes.keys() <= settings.keys():
        raise CallerError(f"controller {name} has not all of the settings {', '.join(changes)}")
    if "trimming" in changes:
        changes["trimming"] = bool(changes["trimming"])
    return configured(name, replace(config, **changes))  # type: ignore[type-var]
