"""A node on real sockets as a device for the verbs.

    with open_device(Fabric.load(path)) as device, Context(device) as context: ...

gives the node's loop a thread of its own. Without one (`NodeDevice(node)`) the loop turns while somebody waits or
polls, or in `node.driver.run`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from mrc.fabric.host_view import Fabric
from mrc.net.node import Node
from mrc.net.node_device import NodeDevice
from mrc.net.priority import go_first
from mrc.wire.profile import DEFAULT_WIRE_PROFILE, WireProfile

__all__ = ["NodeDevice", "open_device"]


@contextmanager
def open_device(
    fabric: Fabric, *, wire: WireProfile = DEFAULT_WIRE_PROFILE, path_mtu: int | None = None
) -> Iterator[NodeDevice]:
    """A node of `fabric` whose loop runs in a thread until the block ends. Raises SystemRefused as Node does."""
    with Node(fabric, wire=wire, path_mtu=path_mtu) as node:
        node.prepare_control()
        node.driver.have_stand_in()
        over = threading.Event()

        def run() -> None:
            go_first()
            node.driver.run(over.is_set)

        thread = threading.Thread(target=run, name=f"mrc {fabric.name}", daemon=True)
        thread.start()
        try:
            yield NodeDevice(node)
        finally:
            over.set()
            node.driver.wake()
            thread.join()
