# SPDX-License-Identifier: BSD-2-Clause
"""What every `mrc lab` command takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from mrc.cli.common import Parsed
from mrc.cli.completing import complete_labs

F = TypeVar("F", bound=Callable[..., Any])


class LabName(Parsed[str]):
    name = "name"

    def read(self, text: str) -> str:
        from mrc.lab.state import check_name

        return check_name(text)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
        return complete_labs(ctx, param, incomplete)


def name_option(function: F) -> F:
    return click.option(
        "--name",
        type=LabName(),
        metavar="NAME",
        default="mrc",
        envvar="MRC_LAB",
        show_envvar=True,
        show_default=True,
        help="Name of the lab.",
    )(function)
