# SPDX-License-Identifier: BSD-2-Clause
"""Each conformance case as a test of its own, for `tools/mutate`: a mutant then runs the cases that touch its line."""

from __future__ import annotations

import pytest

from mrc.conformance.case import Case
from mrc.conformance.catalogue import catalogue
from mrc.conformance.runner import run
from mrc.conformance.targets.in_process import target


@pytest.mark.parametrize("each", catalogue(), ids=lambda each: each.id)
def test_our_endpoint_passes(each: Case) -> None:
    assert {result.verdict for result in run([each], target(), strict=True).results} == {"passed"}
