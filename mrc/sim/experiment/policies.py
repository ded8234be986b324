# SPDX-License-Identifier: BSD-2-Clause
"""How endpoints behave, as the file says it: fields of their configuration by name, classes of the user's."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from functools import partial
from typing import Any, TypeVar

from mrc.endpoint.config import LossConfig, PathConfig, QpConfig, ResponderConfig
from mrc.endpoint.congestion import DEFAULT_ALGORITHM, ControllerConfig, algorithm_names, config_of
from mrc.endpoint.congestion.config import units_of
from mrc.errors import CallerError
from mrc.fabric import units
from mrc.fabric.yaml_tree import KeyPath
from mrc.sim.cluster import EvChoice, Policies
from mrc.sim.experiment import calls
from mrc.sim.experiment.problems import Blame

T = TypeVar("T")

_PARTS = {"loss_detection": "loss", "paths": "paths", "responder": "responder"}
_CLASSES = {"loss_detection": LossConfig, "paths": PathConfig, "responder": ResponderConfig}
_NOT_HERE = frozenset({"loss", "paths", "responder", "capabilities"})
# How a quantity is written, and what reads it, by the unit that a controller's setting has or a field's name ends in.
_QUANTITIES: Mapping[str, tuple[str, Callable[[str], int]]] = {
    "ns": ("a time such as 5.35us, or whole nanoseconds", units.duration_ns),
    "bytes": ("a size such as 64KiB, or whole bytes", units.size_bytes),
    "bps": ("a rate such as 100gbit, or whole bits a second", units.rate_bps),
}
_ENDINGS = {"bits a second": "bps"}


def policies(said: Mapping[str, Any], files: Mapping[str, str], line_rate_bps: int, blame: Blame) -> Policies:
    """`line_rate_bps` is a host's rate over all planes: what a controller is told where the file says nothing.

    Raises FileProblems.
    """
    at: KeyPath = ("policies",)
    found: dict[str, Any] = {}
    qp = QpConfig()
    for key, name in _PARTS.items():
        if key in said:
            qp = replace(qp, **{name: _changed(_CLASSES[key](), said[key], (*at, key), blame)})
    if "qp" in said:
        qp = _changed(qp, said["qp"], (*at, "qp"), blame)
    found["qp"] = qp
    if "evs" in said:
        found["evs"] = None if said["evs"] == "all" else int(said["evs"])
    if "ev_choice" in said:
        with blame.at((*at, "ev_choice")):
            found["ev_choice"] = _ev_choice(said["ev_choice"], files)
    if "controller" in said:
        with blame.at((*at, "controller")):
            found["controller"] = _controller(said["controller"], files)
    found["controller_settings"] = _settings(said, line_rate_bps, blame)
    with blame.at(at):
        return Policies(**found)


def _controller(name: str, files: Mapping[str, str]) -> Any:
    if ":" in name:
        return partial(calls.call, calls.load(name, files), name)
    if name not in algorithm_names():
        raise CallerError(f"no congestion controller {name!r}: there are {', '.join(algorithm_names())}")
    return name


def _ev_choice(name: str, files: Mapping[str, str]) -> str | EvChoice:
    """A name, a function of the user's, or an object of a class of the user's, which is made once for an experiment."""
    if ":" not in name:
        return name
    choice = calls.load(name, files)
    if isinstance(choice, type):
        choice = calls.call(choice, name)
        if not callable(choice):
            raise CallerError(f"{name} makes objects that cannot be called: it lacks __call__(self, request)")
    return partial(calls.call, choice, name)


def _settings(said: Mapping[str, Any], line_rate_bps: int, blame: Blame) -> tuple[tuple[str, Any], ...]:
    settings, path = said.get("controller_settings", {}), ("policies", "controller_settings")
    name = said.get("controller", DEFAULT_ALGORITHM)
    config = None if ":" in name else config_of(name)
    if config is None:
        if settings:
            raise blame.problem(path, f"{name} takes no settings", at_key=True)
        return ()
    made = _changed(config, settings, path, blame)
    known = {"line_rate_bps": line_rate_bps} if hasattr(config, "line_rate_bps") else {}
    return tuple({**known, **{name: getattr(made, name) for name in settings}}.items())


def _changed(config: T, said: Mapping[str, Any], path: KeyPath, blame: Blame) -> T:
    """The configuration with the fields that a mapping gives."""
    known = {each.name: getattr(config, each.name) for each in fields(config)}  # type: ignore[arg-type]
    known = {name: value for name, value in known.items() if name not in _NOT_HERE}
    own_units = units_of(config) if isinstance(config, ControllerConfig) else {}
    found = {}
    for key, value in said.items():
        if key not in known:
            near = difflib.get_close_matches(key, known, 1)
            advice = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
            raise blame.problem((*path, key), f"unknown key, {advice}", at_key=True)
        unit = own_units.get(key, key.rpartition("_")[2])
        quantity = _QUANTITIES.get(_ENDINGS.get(unit, unit))
        found[key] = value
        if quantity is not None and isinstance(value, str):
            with blame.at((*path, key)):
                found[key] = quantity[1](value)
        if not _fits(found[key], known[key]):
            raise blame.problem((*path, key), f"must be {_kind(known[key], quantity and quantity[0])}")
    with blame.at(path):
        made: T = replace(config, **found)  # type: ignore[type-var]
    return made


def _fits(value: Any, default: Any) -> bool:
    if isinstance(default, bool):
        return isinstance(value, bool)
    number = isinstance(value, int) and not isinstance(value, bool)
    if default is None:
        return value is None or number
    return number or (isinstance(default, float) and isinstance(value, float))


def _kind(default: Any, quantity: str | None) -> str:
    if isinstance(default, bool):
        return "true or false"
    whole = quantity or "a whole number"
    if default is None:
        return f"{whole}, or null"
    return "a number" if isinstance(default, float) else whole
