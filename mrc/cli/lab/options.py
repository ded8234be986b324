"""What every `mrc lab` command takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def name_option(function: F) -> F:
    return click.option("--name", default="mrc", show_default=True, help="Which lab.")(function)
