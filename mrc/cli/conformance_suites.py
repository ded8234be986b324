# SPDX-License-Identifier: BSD-2-Clause
"""The suites of `mrc conformance`, by transport."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mrc.conformance.suite import Suite

TRANSPORTS = MRC, RC = "mrc", "rc"


def suite(transport: str) -> Suite:
    """The suite of one of TRANSPORTS."""
    if transport == RC:
        from mrc.rc.conformance.suite import rc_suite

        return rc_suite()
    from mrc.conformance.suite import mrc_suite

    return mrc_suite()
