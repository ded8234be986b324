# SPDX-License-Identifier: BSD-2-Clause
"""Filters on any field of a packet: `Filter("bth.psn > 100 and seth.m == 1").chosen(columns)`. docs/dissect.md has the
language for its users.

>>> Filter("bth.pns > 100")
Traceback (most recent call last):
...
mrc.capture.filter.language.FilterError: there is no field bth.pns: did you mean bth.psn or bth.ts or bth.se?
...
"""

from mrc.capture.filter.evaluate import Filter
from mrc.capture.filter.language import FilterError

__all__ = ["Filter", "FilterError"]
