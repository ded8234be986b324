# SPDX-License-Identifier: BSD-2-Clause
"""EVs and places in the fabric that a target takes or refuses, for cases about how large they may be."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mrc.conformance.script import Bench
from mrc.conformance.setup import Setup


def expect_taken(bench: Bench, **changes: Any) -> None:
    """See that the target would be set up like this case but for these options, or fields of `Setup`."""
    setup = _changed(bench, changes)
    bench.ask(lambda: bench.network.session.check(setup))


def expect_refused(bench: Bench, what: str, **changes: Any) -> None:
    """See that the target would not be, because of `what`."""
    setup = _changed(bench, changes)
    bench.expect_refused(what, lambda: bench.network.session.check(setup))


def _changed(bench: Bench, changes: dict[str, Any]) -> Setup:
    fields = {name: value for name, value in changes.items() if name in ("mode", "ip", "planes")}
    options = {name: value for name, value in changes.items() if name not in fields}
    return replace(bench.setup, **fields, options={**bench.setup.options, **options})
