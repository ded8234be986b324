# SPDX-License-Identifier: BSD-2-Clause
"""The map over HTTP: the page at /, its document at /map.json, /metrics for Prometheus. Nothing is changed by it.

Without prometheus-client /metrics answers 501, and says what to install.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from mrc.report import html
from mrc.report.pages import PROMETHEUS, Page, PageServer
from mrc.report.prometheus import check_prometheus_client


def page() -> bytes:
    """The page, which asks for its document once a second."""
    return html.page("mrc.map", "page.html", script="page.js", asks=True).encode()


def _metrics(document: dict[str, Any], named: int) -> Page:
    check_prometheus_client()
    from mrc.map.metrics import metrics

    return metrics(document, named), PROMETHEUS


class MapServer(PageServer):
    """Serves what `latest` returns: (the picture with its past, how many faults were named)."""

    def __init__(self, host: str, port: int, latest: Callable[[], tuple[dict[str, Any], int]]) -> None:
        """`port` 0: any free one; `port` then says which. Raises SystemRefused when it is taken."""
        whole = page()
        pages = {
            "/": lambda: (whole, "text/html; charset=utf-8"),
            "/map.json": lambda: (json.dumps(latest()[0]).encode(), "application/json"),
            "/metrics": lambda: _metrics(*latest()),
        }
        super().__init__(host, port, pages, html.policy(scripts=True, asks=True))
