# SPDX-License-Identifier: BSD-2-Clause
"""An address to serve on."""

from __future__ import annotations

import re

from mrc.cli.common import Parsed
from mrc.errors import CallerError


class Listen(Parsed[tuple[str, int]]):
    """`ADDRESS:PORT` or `PORT`; IPv6 in brackets."""

    name = "address"
    kind = tuple

    def read(self, text: str) -> tuple[str, int]:
        match = re.fullmatch(r"(?:(\[[0-9a-fA-F:.]+\]|[0-9.]+):)?(\d{1,5})", text)
        if match is None or int(match[2]) > 65535:
            raise CallerError(f"{text!r} is not ADDRESS:PORT such as 127.0.0.1:8633")
        return (match[1] or "127.0.0.1").strip("[]"), int(match[2])
