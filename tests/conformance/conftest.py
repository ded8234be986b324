# SPDX-License-Identifier: BSD-2-Clause
"""Parts of the endpoint are swapped for wrong ones here, which only interpreted ones can be."""

from __future__ import annotations

import pytest
from mutants.mutant import check_interpreted

from mrc.errors import CallerError

try:
    check_interpreted()
except CallerError as error:
    raise pytest.UsageError(f"tests/conformance: {error}") from None
