# SPDX-License-Identifier: BSD-2-Clause
"""A node on real sockets as a device for the verbs.

    with open_device() as device, Context(device) as context: ...

gives the node's loop a thread of its own. Without one (`NodeDevice(node)`) the loop turns while somebody waits or
polls, or in `node.driver.run`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from mrc.endpoint.config import QpConfig
from mrc.endpoint.tracing import Tracer
from mrc.errors import CallerError
from mrc.fabric.host_view import Fabric
from mrc.net.node import Node
from mrc.net.node_device import NodeDevice
from mrc.net.priority import go_first
from mrc.net.this_host import FABRIC_VARIABLE, fabric_found, fabric_of_this_host
from mrc.net.tuning import transfer_config
from mrc.threads import start_thread
from mrc.wire.profile import DEFAULT_WIRE_PROFILE, WireProfile

__all__ = ["FABRIC_VARIABLE", "NodeDevice", "fabric_found", "fabric_of_this_host", "open_device", "transfer_config"]


@contextmanager
def open_device(
    fabric: Fabric | str | Path | None = None,
    *,
    addresses: Sequence[str] = (),
    towards: Sequence[str] = (),
    wire: WireProfile = DEFAULT_WIRE_PROFILE,
    path_mtu: int | None = None,
    line_rate_bps: int | None = None,
    tuning: QpConfig | None = None,
    tracer: Tracer | None = None,
    program: str | None = None,
) -> Iterator[NodeDevice]:
    """Open a node whose loop runs in a thread until the block ends.

    fabric: what the host is part of, or the file that describes it. None: with `addresses` or `towards` this host on
    its ordinary addresses, in udp mode (`fabric_of_this_host`); else the file that MRC_FABRIC names, as on a host of a
    lab; else again this host, on the address of its default route.
    path_mtu: bytes, 256 to 4096 in powers of two; None: the largest the interfaces have room for.
    line_rate_bps: what the network carries to the other end; congestion control begins with it. None: 10 Gbit/s.
    tuning: timers and what else no attribute of a QP sets, for the Contexts that are not given their own.
    `transfer_config(path_mtu=...)` has what `mrc send` uses, timers for processes that share a machine.
    tracer: hears what the endpoint does (`mrc.trace.writer.TraceWriter`).
    program: its name for `mrc ctl` and `mrc top`.
    Raises SystemRefused as Node does, CallerError for arguments that contradict each other or make no sense.
    """
    if fabric is not None and (addresses or towards):
        raise CallerError("a fabric names its ports: leave out addresses and towards, or the fabric")
    with Node(
        fabric_found(fabric, addresses, towards), wire=wire, path_mtu=path_mtu, tracer=tracer, program=program
    ) as node:
        if line_rate_bps is not None:
            from mrc.net.profile_file import tell_line_rate

            tell_line_rate(node, line_rate_bps)
        node.prepare_control()
        node.driver.have_stand_in()
        over = threading.Event()

        def run() -> None:
            go_first()
            node.driver.run(over.is_set)

        thread = start_thread(run, name=f"mrc {node.fabric.name}")
        try:
            yield NodeDevice(node, tuning)
        finally:
            over.set()
            node.driver.wake()
            thread.join()
