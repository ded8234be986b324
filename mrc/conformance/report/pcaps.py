# SPDX-License-Identifier: BSD-2-Clause
"""A pcap for each case."""

from __future__ import annotations

from pathlib import Path

from mrc.conformance.results import Result
from mrc.errors import SystemRefused


def make_directory(directory: Path) -> None:
    """Raises SystemRefused when it cannot be made."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SystemRefused(error.errno, f"{directory}: cannot be made: {error.strerror}") from error


def write_case_pcap(result: Result, directory: Path) -> Path:
    """`MRC-SACK-09.wrap.pcap` for case MRC-SACK-09/wrap. Raises SystemRefused when it cannot be written."""
    path = directory / f"{result.case.id.replace('/', '.')}.pcap"
    result.log.write_pcap(path)
    return path
