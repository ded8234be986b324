# SPDX-License-Identifier: BSD-2-Clause
"""The line that says on which machine `mrc bench lab` measured."""

from __future__ import annotations


def machine_line() -> str:
    """Processor, how many, kernel, Python."""
    from mrc.bench.lab_run import machine

    known = machine()
    return f"{known['cpu']}, {known['cpus']} CPUs, Linux {known['kernel']}, Python {known['python']}"
