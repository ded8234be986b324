# SPDX-License-Identifier: BSD-2-Clause
"""What `mrc lab up` is to build: a topology file, options, or both where they do not contradict each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from mrc.cli.common import Parsed, options_named, options_of, usage_errors
from mrc.fabric.block import block_text, parse_block
from mrc.fabric.place import DEFAULT_SHAPE
from mrc.fabric.shape import FORWARDING_MODES
from mrc.fabric.shapes import shape_class, shape_names, shape_of

if TYPE_CHECKING:
    from mrc.fabric import Description
    from mrc.fabric.file import TopologyFile

F = TypeVar("F", bound=Callable[..., Any])


class Block(Parsed[int]):
    """A uSID block, an IPv6 prefix of 32 bits."""

    name = "prefix"
    kind = int

    def read(self, text: str) -> int:
        return parse_block(text)


def shape_options(function: F) -> F:
    """The options that describe a fabric. Not given, each is None: the file's value or the default counts."""
    default = shape_class(DEFAULT_SHAPE)().to_json()
    options: tuple[Callable[[F], F], ...] = (
        _option("--block", Block(), block_text(default["block"]), "uSID block, an IPv6 prefix of 32 bits."),
        _option("--mtu", int, default["mtu"], "Bytes a link carries, outer IPv6 header included."),
        _option("--mode", click.Choice(FORWARDING_MODES), default["mode"], "How switches choose a packet's way."),
        _option("--hosts-per-leaf", int, default["hosts_per_leaf"], "Hosts on each leaf."),
        _option("--spines", int, default["spines"], "Spines in each plane, 1 to 256."),
        _option("--leaves", int, default["leaves"], "Leaves in each plane, 1 to 256."),
        _option("--planes", int, default["planes"], "Independent planes, 1 to 16."),
        _option("--shape", click.Choice(shape_names()), DEFAULT_SHAPE, "How the switches are connected."),
    )
    return options_of(options)(function)


def _option(name: str, kind: Any, default: object, text: str) -> Callable[[F], F]:
    return click.option(name, type=kind, help=f"{text}  [default: {default}]")


def described(path: str | None, name: str, options: Mapping[str, Any]) -> tuple[str, Description]:
    """The name of the lab, and what it is built from.

    `options` are the values of `shape_options`, by the file's keys. Raises click.UsageError where the command line and
    the file at `path` say different things or there is no file and options no fabric can have, CallerError for a file
    that describes no fabric.
    """
    from mrc.fabric import Description

    given = {key: value for key, value in options.items() if value is not None}
    if path is None:
        with usage_errors(), options_named():
            return name, Description(shape_of(given))
    from mrc.fabric.file import TopologyFile

    file = TopologyFile.read(path)
    said = file.shape
    for key, value in given.items():
        if key in said and said[key] != value:
            shown = block_text(value) if key == "block" else value
            _contradiction(file, key, f"--{key.replace('_', '-')} {shown}")
    if file.name is not None:
        source = click.get_current_context().get_parameter_source("name")
        if source is ParameterSource.DEFAULT:
            name = file.name
        elif name != file.name:
            said_by = f"MRC_LAB={name}" if source is ParameterSource.ENVIRONMENT else f"--name {name}"
            _contradiction(file, "name", said_by)
    with options_named():
        return name, file.description(given)


def _contradiction(file: TopologyFile, key: str, option: str) -> None:
    raise click.UsageError(f"{option} contradicts '{key}: {file.text(key)}' in {file.where(key)}: say only one of them")
