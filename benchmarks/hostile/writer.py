# SPDX-License-Identifier: BSD-2-Clause
"""The sender of `benchmarks/hostile-load`: writes until it is ended, and notes how far it is in a file.

    python -m hostile.writer TICKET FILE SIZE MTU

Each line of FILE is a time (monotonic, ns) and the bits completed until then.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from mrc.bench.client import BenchClient, BenchOptions
from mrc.bench.terms import WRITE
from mrc.errors import MrcError
from mrc.fabric import Fabric
from mrc.net.node import Node
from mrc.net.ticket import Ticket

_FOR_EVER_S = 24 * 3600.0


def main(arguments: Sequence[str]) -> int:
    """1 when the writes failed, with what is wrong on stderr."""
    ticket, file, size, mtu = arguments
    try:
        with (
            Node(Fabric.load(os.environ["MRC_FABRIC"]), path_mtu=int(mtu)) as node,
            open(file, "w", buffering=1) as progress,
        ):

            def note(now: int, bits: int) -> None:
                progress.write(f"{now} {bits}\n")

            options = BenchOptions(WRITE, (int(size),), _FOR_EVER_S)
            with BenchClient(node, Ticket.parse(ticket), options, note) as client:
                client.measure()
    except MrcError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
