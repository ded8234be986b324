# SPDX-License-Identifier: BSD-2-Clause
"""Congestion controllers by name, each with its configuration."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from mrc.endpoint.congestion.base import CongestionController, PacketSizes
from mrc.endpoint.congestion.config import ControllerConfig
from mrc.errors import CallerError
from mrc.records import record

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

# Makes the controller of a QP from the sizes of its packets.
ControllerFactory = Callable[[PacketSizes], CongestionController]
# What a QP has that names none.
DEFAULT_ALGORITHM = "uet-1.0-nscc"
# What turns congestion control off: in `mrc_ctl.h` an algorithm that is NULL.
NO_CONGESTION_CONTROL = "none"


@record(frozen=True, slots=True)
class Configured:
    """Makes controllers of one class with one configuration: `controller(sizes, config)`.

    Equal ones make controllers that QPs to one destination share.
    """

    controller: Callable[..., CongestionController]
    config: ControllerConfig

    def __call__(self, sizes: PacketSizes) -> CongestionController:
        return self.controller(sizes, self.config)


# An installed package offers a controller by an entry point of this group: `NAME = "module:factory"`.
ENTRY_POINTS = "mrc.congestion"
_registered: dict[str, ControllerFactory] = {}


def register(name: str, factory: ControllerFactory) -> None:
    """Make a controller known by name."""
    _registered[name] = factory


def _offered() -> dict[str, EntryPoint]:
    """By name, the controllers that installed packages offer."""
    # Loaded only when one of them is named: it takes some 20 ms.
    from importlib.metadata import entry_points

    return {each.name: each for each in entry_points(group=ENTRY_POINTS)}


def algorithm_names() -> tuple[str, ...]:
    """The controllers known by name: registered ones, and those that installed packages offer.

    >>> "fixed" in algorithm_names(), DEFAULT_ALGORITHM in algorithm_names()
    (True, True)
    """
    return tuple(sorted({*_registered, *_offered()}))


def factory_of(controller: str | ControllerFactory) -> ControllerFactory:
    """The factory of a controller given by name, or the one given.

    Raises CallerError for an unknown name, and for one whose package cannot be loaded.
    """
    if not isinstance(controller, str):
        return controller
    if controller not in _registered:
        offered = _offered()
        if controller not in offered:
            known = ", ".join(sorted({*_registered, *offered}))
            raise CallerError(f"no congestion controller {controller!r}: there are {known}")
        _registered[controller] = _loaded(offered[controller])
    return _registered[controller]


def name_of(factory: ControllerFactory) -> str:
    """The first name under which a controller was registered, with whatever configuration. Raises CallerError."""
    for name, known in _registered.items():
        if known == factory:
            return name
        if isinstance(known, Configured) and isinstance(factory, Configured) and known.controller == factory.controller:
            return name
    raise CallerError(f"{factory} is registered under no name")


def config_of(name: str) -> ControllerConfig | None:
    """The configuration that a controller has by default; None: it takes none. Raises CallerError as `factory_of`."""
    factory = factory_of(name)
    return factory.config if isinstance(factory, Configured) else None


def section_names() -> frozenset[str]:
    """The names of the configurations of all controllers that are registered or loaded."""
    return frozenset(each.config.section for each in _registered.values() if isinstance(each, Configured))


def configured(name: str, config: ControllerConfig | None) -> ControllerFactory:
    """The factory of a controller by name, with a configuration of its own type, or None for the default one.

    Raises CallerError for a configuration of another controller, and as `factory_of` does.

    >>> from mrc.endpoint.congestion import FixedWindowConfig, PacketSizes
    >>> configured("fixed", FixedWindowConfig(window_packets=8))(PacketSizes(mtu=4170, mss=4096)).cwnd
    33360
    """
    factory = factory_of(name)
    if config is None:
        return factory
    if not isinstance(factory, Configured):
        raise CallerError(f"{name} takes no configuration: {config.section} is of another controller")
    if type(config) is not type(factory.config):
        raise CallerError(f"{name} is configured by {factory.config.section}, not by {config.section}")
    return Configured(factory.controller, config)


def _loaded(entry: EntryPoint) -> ControllerFactory:
    try:
        factory: ControllerFactory = entry.load()
    except Exception as error:
        # Anything: it is another's code.
        raise CallerError(f"congestion controller {entry.name!r} ({entry.value}) cannot be loaded: {error}") from error
    if not callable(factory):
        raise CallerError(f"congestion controller {entry.name!r}: {entry.value} makes no controller")
    return factory
