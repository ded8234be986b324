# SPDX-License-Identifier: BSD-2-Clause
"""Congestion control of mrc_ctl.h: names and settings in a C program's memory. 0 is a setting that is as usual."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from errno import EINVAL
from typing import Any

from mrc.capi.control_structures import NsccCfg
from mrc.control import ControlError
from mrc.control.errors import arguments
from mrc.endpoint.congestion import NO_CONGESTION_CONTROL, ControllerConfig, NsccConfig, config_of

_WHOLE = (
    "adjust_bytes_threshold",
    "adjust_period_threshold",
    "base_rtt",
    "max_cwnd",
    "qa_threshold",
    "target_delay",
)
_FRACTIONS = ("eta", "fi", "fi_scale", "gamma", "max_md_jump")
# Programs have pointers to what they were told: names, lists, settings. Each is kept once, until the process ends.
_names: dict[str, ctypes.Array[ctypes.c_char]] = {}
_lists: dict[tuple[str, ...], Any] = {}
_settings: dict[NsccConfig, NsccCfg] = {}


def _kept(name: str) -> ctypes.Array[ctypes.c_char]:
    return _names.setdefault(name, ctypes.create_string_buffer(name.encode()))


def names(algorithms: Sequence[str]) -> int:
    """The address of a list that NULL ends, without the name that stands for none: C has NULL for that."""
    listed = tuple(each for each in algorithms if each != NO_CONGESTION_CONTROL)
    if listed not in _lists:
        _lists[listed] = (ctypes.c_void_p * (len(listed) + 1))(*(ctypes.addressof(_kept(each)) for each in listed))
    return ctypes.addressof(_lists[listed])


def kept_name(algorithm: str | None) -> Any:
    """A name for a structure; None: NULL."""
    if algorithm is None or algorithm == NO_CONGESTION_CONTROL:
        return None
    return ctypes.cast(_kept(algorithm), ctypes.c_char_p)


def algorithm_of(given: bytes | None) -> str:
    """Raises ControlError EINVAL for what is no name."""
    try:
        return NO_CONGESTION_CONTROL if given is None else given.decode("ascii")
    except UnicodeDecodeError:
        raise ControlError(EINVAL, f"no congestion control algorithm {given!r}") from None


def config_at(algorithm: str | None, address: int | None) -> ControllerConfig | None:
    """The settings in a program's memory. None: the algorithm takes none. Raises ControlError EINVAL."""
    if algorithm is None:
        raise ControlError(EINVAL, "a configuration is an algorithm's: give that too")
    with arguments():
        usual = config_of(algorithm)
    if not address:
        return usual
    if not isinstance(usual, NsccConfig):
        raise ControlError(EINVAL, f"mrc_ctl.h has no settings for {algorithm}: cc_config must be NULL")
    given = NsccCfg.from_address(address)
    chosen: dict[str, Any] = {name: value for name in (*_WHOLE, *_FRACTIONS) if (value := getattr(given, name))}
    with arguments():
        return NsccConfig(**chosen, quick_adapt=not given.disable_qa, qa_gate=given.qa_gate)


def nscc_cfg(config: ControllerConfig | None) -> int | None:
    """The address of NSCC's settings; None, which is NULL, for what has none in C."""
    if not isinstance(config, NsccConfig):
        return None
    if config not in _settings:
        made = NsccCfg(disable_qa=not config.quick_adapt, qa_gate=config.qa_gate)
        for name in (*_WHOLE, *_FRACTIONS):
            setattr(made, name, getattr(config, name) or 0)
        _settings[config] = made
    return ctypes.addressof(_settings[config])
