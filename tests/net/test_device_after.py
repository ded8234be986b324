# SPDX-License-Identifier: BSD-2-Clause
"""What belongs to a device does nothing after its block: the numbers of its sockets may be other files by then."""

from __future__ import annotations

import pytest
from loopback import needs_root, own_loopback

from mrc.errors import CallerError, MrcError
from mrc.net.device import open_device
from mrc.verbs import Context

pytestmark = needs_root
ADDRESS = "127.0.0.2"


def test_a_queue_is_not_polled_after_its_device() -> None:
    def program() -> None:
        with open_device(addresses=[ADDRESS]) as device:
            queue = Context(device).cq()
            assert queue.poll() == []
        with pytest.raises(MrcError, match="the endpoint is shut down"):
            queue.poll()
        with pytest.raises(MrcError, match="the endpoint is shut down"):
            Context(device)

    with own_loopback([ADDRESS]) as inside:
        inside(program)


def test_a_device_without_a_loop_of_its_own_neither() -> None:
    """Whoever waits runs the loop then."""

    def program() -> None:
        from mrc.net.hosts import host_fabric
        from mrc.net.node import Node
        from mrc.net.node_device import NodeDevice

        with Node(host_fabric([ADDRESS])) as node:
            queue = Context(NodeDevice(node)).cq()
            assert queue.poll() == []
        with pytest.raises(MrcError, match="the endpoint is shut down"):
            queue.poll()

    with own_loopback([ADDRESS]) as inside:
        inside(program)


def test_addresses_are_a_list() -> None:
    with (
        pytest.raises(CallerError, match=r"a list of addresses, one for each plane: \['127.0.0.2'\]"),
        open_device(addresses=ADDRESS),
    ):
        pass
