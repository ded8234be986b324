# SPDX-License-Identifier: BSD-2-Clause
"""Congestion control, pluggable: controllers by name, one for each destination."""

from mrc.endpoint.congestion.base import (
    NO_SAMPLE,
    PENALTY_UNKNOWN,
    CongestionController,
    ControllerFailed,
    PacketSizes,
)
from mrc.endpoint.congestion.config import ControllerConfig, Setting, setting
from mrc.endpoint.congestion.estimates import DelayAverage, EwmaDelay
from mrc.endpoint.congestion.fixed import FixedWindow, FixedWindowConfig
from mrc.endpoint.congestion.nscc import Nscc
from mrc.endpoint.congestion.nscc_config import NsccConfig, NsccParameters
from mrc.endpoint.congestion.registry import (
    DEFAULT_ALGORITHM,
    NO_CONGESTION_CONTROL,
    Configured,
    ControllerFactory,
    algorithm_names,
    config_of,
    configured,
    factory_of,
    name_of,
    register,
    section_names,
)
from mrc.endpoint.congestion.unlimited import NO_WINDOW, Unlimited

__all__ = [
    "DEFAULT_ALGORITHM",
    "NO_CONGESTION_CONTROL",
    "NO_SAMPLE",
    "NO_WINDOW",
    "PENALTY_UNKNOWN",
    "Configured",
    "CongestionController",
    "ControllerConfig",
    "ControllerFactory",
    "ControllerFailed",
    "DelayAverage",
    "EwmaDelay",
    "FixedWindow",
    "FixedWindowConfig",
    "Nscc",
    "NsccConfig",
    "NsccParameters",
    "PacketSizes",
    "Setting",
    "Unlimited",
    "algorithm_names",
    "config_of",
    "configured",
    "factory_of",
    "name_of",
    "register",
    "section_names",
    "setting",
]
