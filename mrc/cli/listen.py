# SPDX-License-Identifier: BSD-2-Clause
"""An address to serve on."""

from __future__ import annotations

import re
from typing import Any

import click


class Listen(click.ParamType[tuple[str, int]]):
    """`ADDRESS:PORT` or `PORT`; IPv6 in brackets."""

    name = "address"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        if isinstance(value, tuple):
            return value
        match = re.fullmatch(r"(?:(\[[0-9a-fA-F:.]+\]|[0-9.]+):)?(\d{1,5})", str(value))
        if match is None or int(match[2]) > 65535:
            self.fail(f"{value!r} is not ADDRESS:PORT such as 127.0.0.1:8633", param, ctx)
        return (match[1] or "127.0.0.1").strip("[]"), int(match[2])
