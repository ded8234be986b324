"""Filters on any field of a packet: `Filter("bth.psn > 100 and seth.m == 1").chosen(columns)`. docs/dissect.md has the
language for its users."""

from mrc.capture.filter.evaluate import Filter
from mrc.capture.filter.language import FilterError

__all__ = ["Filter", "FilterError"]
