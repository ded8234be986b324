# SPDX-License-Identifier: BSD-2-Clause
"""What the tests of measurements need of the system."""

from __future__ import annotations

import os
import shutil

import pytest


@pytest.fixture
def c_compiler() -> None:
    if not any(map(shutil.which, ("cc", "gcc", "clang"))):
        if os.environ.get("CI") == "true":
            pytest.fail("needs a C compiler")
        pytest.skip("needs a C compiler")
