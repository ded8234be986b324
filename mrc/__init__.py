# SPDX-License-Identifier: BSD-2-Clause
"""MRC, Multipath Reliable Connection: a user-space endpoint, its lab and its tools."""

import sys
from pathlib import Path

from mrc.core import Core, choose
from mrc.errors import MrcError

# The version of this package (docs/contributing/releasing.md).
__version__ = "1.0.0"


def _chosen() -> Core:
    """As `choose`; the command says what is wrong in a line and ends, as it does for everything else."""
    try:
        return choose()
    except MrcError as error:
        # While Python looks for the module that `-m` names, that is all it has for a program.
        if Path(sys.argv[0]).name in ("mrc", "-m"):
            raise SystemExit(f"Error: {error}") from None
        raise


# How the datapath runs in this process: "compiled", or "python" and why.
CORE = _chosen()

__all__ = ["CORE", "MrcError", "__version__"]
