# SPDX-License-Identifier: BSD-2-Clause
"""The map over HTTP: the page at /, its document at /map.json, /metrics for Prometheus. Nothing is changed by it.

Without prometheus-client there is no /metrics.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from typing import Any

from mrc.report import html
from mrc.report.pages import PROMETHEUS, Page, PageServer


def page() -> bytes:
    """The page, which asks for its document once a second."""
    body, style, script = (html.resource("mrc.map", name) for name in ("body.html", "page.css", "page.js"))
    return html.page("mrc map", body, style=style, script=script, asks=True).encode()


class MapServer(PageServer):
    """Serves what `latest` returns: (the picture with its past, how many faults were named)."""

    def __init__(self, host: str, port: int, latest: Callable[[], tuple[dict[str, Any], int]]) -> None:
        """`port` 0: any free one; `port` then says which. Raises SystemRefused when it is taken."""
        whole = page()
        pages: dict[str, Callable[[], Page]] = {
            "/": lambda: (whole, "text/html; charset=utf-8"),
            "/map.json": lambda: (json.dumps(latest()[0]).encode(), "application/json"),
        }
        with contextlib.suppress(ModuleNotFoundError):
            from mrc.map.metrics import metrics

            pages["/metrics"] = lambda: (metrics(*latest()), PROMETHEUS)
        super().__init__(host, port, pages, html.policy(scripts=True, asks=True))
