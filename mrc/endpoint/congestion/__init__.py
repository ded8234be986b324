"""Congestion control, pluggable: controllers by name, one for each destination."""

from mrc.endpoint.congestion.base import (
    NO_SAMPLE,
    PENALTY_UNKNOWN,
    CongestionController,
    ControllerFactory,
    PacketSizes,
    algorithm_names,
    factory_of,
    register,
)
from mrc.endpoint.congestion.delay_average import DelayAverage, EwmaDelay
from mrc.endpoint.congestion.fixed import FixedWindow
from mrc.endpoint.congestion.nscc import Nscc, NsccFactory
from mrc.endpoint.congestion.nscc_config import NsccConfig, NsccParameters

__all__ = [
    "NO_SAMPLE",
    "PENALTY_UNKNOWN",
    "CongestionController",
    "ControllerFactory",
    "DelayAverage",
    "EwmaDelay",
    "FixedWindow",
    "Nscc",
    "NsccConfig",
    "NsccFactory",
    "NsccParameters",
    "PacketSizes",
    "algorithm_names",
    "factory_of",
    "register",
]
