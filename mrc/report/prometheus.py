# SPDX-License-Identifier: BSD-2-Clause
"""Whether metrics for Prometheus can be written: prometheus-client is an extra."""

from __future__ import annotations

from importlib.util import find_spec

from mrc.errors import SystemRefused


def check_prometheus_client() -> None:
    """Raises SystemRefused, which says how to get it, where prometheus-client is not installed."""
    if find_spec("prometheus_client") is None:
        raise SystemRefused("metrics need prometheus-client: pip install 'softmrc[metrics]'")
