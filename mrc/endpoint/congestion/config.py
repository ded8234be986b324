# SPDX-License-Identifier: BSD-2-Clause
"""What a controller is configured with: a frozen dataclass, its fields the settings that a CC profile may name."""

from __future__ import annotations

from dataclasses import Field, field, fields
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from mrc.errors import CallerError
from mrc.records import record

if TYPE_CHECKING:
    from collections.abc import Iterator

_SETTING = "setting"
C = TypeVar("C", bound="ControllerConfig")


@record(frozen=True, slots=True)
class Setting:
    """What is known of one field: what it means, its unit, its range, and whether a CC profile may name it."""

    doc: str
    unit: str
    low: float | None
    high: float | None
    in_profile: bool

    @property
    def text(self) -> str:
        """Unit, range and meaning in one line."""
        limits = "" if self.low is None else f"{self.low}..{self.high}"
        about = ", ".join(filter(None, (self.unit, limits)))
        return f"({about}) {self.doc}" if about else self.doc


def setting(
    default: object,
    doc: str,
    *,
    unit: str = "",
    low: float | None = None,
    high: float | None = None,
    in_profile: bool = True,
) -> Any:
    """Describe a field of a ControllerConfig. `low` and `high` come together; None as a value is in any range."""
    return field(default=default, metadata={_SETTING: Setting(doc, unit, low, high, in_profile)})


class ControllerConfig:
    """The base of a controller's configuration: a frozen dataclass, its fields made by `setting`.

    `section` is its name in a CC profile: `algorithm: aimd`, `aimd: {first_packets: 16}`. A CC profile gives bool, int,
    float and str, or None where the annotation says so. help() of a subclass lists the settings. Raises CallerError
    for a value out of range.
    """

    __slots__ = ()
    section: ClassVar[str]

    def __init_subclass__(cls) -> None:
        # Before `dataclass` has made attributes of them.
        own = [(name, each) for name, each in vars(cls).items() if isinstance(each, Field)]
        described = [f"  {name}: {each.metadata[_SETTING].text}" for name, each in own if _SETTING in each.metadata]
        if described:
            cls.__doc__ = "\n".join([(cls.__doc__ or cls.__name__).rstrip(), "", "Settings:", *described])

    def __post_init__(self) -> None:
        for name, each in _described(type(self)):
            value = getattr(self, name)
            if value is None or each.low is None or each.high is None:
                continue
            if not each.low <= value <= each.high:
                raise CallerError(f"{name} must be {each.low}..{each.high}, got {value}")

    @classmethod
    def profile_settings(cls) -> dict[str, str]:
        """The fields that a CC profile may name, each with its annotation: `int | None`."""
        hidden = {name for name, each in _described(cls) if not each.in_profile}
        return {each.name: _kind(each.type) for each in fields(cls) if each.name not in hidden}  # type: ignore[arg-type]

    def in_profile(self) -> dict[str, Any]:
        """The settings as a CC profile shows them, without those that are None."""
        values = {name: getattr(self, name) for name in self.profile_settings()}
        return {name: value for name, value in values.items() if value is not None}

    def with_line_rate(self: C, line_rate_bps: int) -> C:
        """This configuration for a network that carries so many bits a second. Raises CallerError."""
        raise CallerError(no_line_rate(self.section))


def no_line_rate(algorithm: str) -> str:
    """What to say of an algorithm that cannot be given a line rate."""
    return f"the algorithm {algorithm} takes no line rate: choose nscc, or leave --line-rate out"


def units_of(config: ControllerConfig) -> dict[str, str]:
    """The unit of each setting, by its name: `ns`, `bytes`, `bits a second`, or "" where it has none."""
    return {name: each.unit for name, each in _described(type(config))}


def _described(config: type[ControllerConfig]) -> Iterator[tuple[str, Setting]]:
    for each in fields(config):  # type: ignore[arg-type]
        if _SETTING in each.metadata:
            yield each.name, each.metadata[_SETTING]


def _kind(annotation: object) -> str:
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)
