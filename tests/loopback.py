# SPDX-License-Identifier: BSD-2-Clause
"""A network namespace of a test's own: what runs there has real sockets and meets nobody else."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import pytest
from patience import until_in_use

from mrc.lab.namespace import in_namespace, unshare_network
from mrc.threads import in_thread

Inside = Callable[[Callable[[], None]], None]
skipped_without_root = pytest.mark.skipif(
    os.geteuid() != 0 and os.environ.get("CI") != "true", reason="needs root for raw sockets and a namespace"
)
needs_root = [pytest.mark.root, skipped_without_root]


@contextmanager
def own_loopback(addresses: Iterable[str]) -> Iterator[Inside]:
    """Gives what runs a function in a namespace whose loopback has these addresses."""

    def make() -> int:
        descriptor = unshare_network()
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        for address in addresses:
            bits = 128 if ":" in address else 32
            subprocess.run(["ip", "addr", "add", f"{address}/{bits}", "dev", "lo", "nodad"], check=True)
        until_in_use({"lo"})
        return descriptor

    descriptor = in_thread(make)
    try:
        yield lambda function: in_namespace(descriptor, function)
    finally:
        os.close(descriptor)
