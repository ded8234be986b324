# SPDX-License-Identifier: BSD-2-Clause
"""What every `mrc lab` command takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from mrc.cli.completing import complete_labs
from mrc.errors import CallerError

F = TypeVar("F", bound=Callable[..., Any])


class LabName(click.ParamType[str]):
    name = "name"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from mrc.lab.state import check_name

        try:
            return check_name(str(value))
        except CallerError as error:
            self.fail(str(error), param, ctx)

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
