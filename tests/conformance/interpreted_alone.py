# SPDX-License-Identifier: BSD-2-Clause
"""Files whose tests swap parts of the endpoint for wrong ones, which only interpreted ones can be."""

from __future__ import annotations

import pytest
from mutants.mutant import check_interpreted

from mrc.errors import CallerError


def interpreted_alone() -> None:
    """Skip the file that calls this where the datapath is compiled. `tools/test` runs it interpreted."""
    try:
        check_interpreted()
    except CallerError as error:
        pytest.skip(str(error), allow_module_level=True)
