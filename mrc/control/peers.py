# SPDX-License-Identifier: BSD-2-Clause
"""Peer nodes as people and files name them: by a name, or by any of their inner addresses."""

from __future__ import annotations

import ipaddress
from errno import EINVAL, ENOENT

from mrc.control.errors import ControlError
from mrc.endpoint.endpoint import Endpoint
from mrc.endpoint.node.peer_node import PeerNode
from mrc.errors import CallerError
from mrc.untrusted import quoted
from mrc.wire.ipv4 import address_number, address_text


def find_peer(endpoint: Endpoint, wanted: str) -> PeerNode:
    """The peer node of this name or address. Raises ControlError ENOENT when no QP leads there."""
    if not isinstance(wanted, str) or not wanted:
        raise ControlError(EINVAL, f"a peer is a name or an address, not {quoted(wanted)}")
    nodes = list(endpoint.peer_nodes.values())
    found = [node for node in nodes if node.name == wanted] or _at(nodes, wanted)
    if not found:
        known = ", ".join(sorted(node.label for node in nodes)) or "nobody"
        raise ControlError(ENOENT, f"no QP leads to {wanted}: this endpoint is connected to {known}")
    return found[0]


def _at(nodes: list[PeerNode], wanted: str) -> list[PeerNode]:
    try:
        address = address_number(str(ipaddress.ip_address(wanted)))
    except (ValueError, CallerError):
        return []
    return [node for node in nodes if address in node.key]


def addresses(node: PeerNode) -> list[str]:
    """Its inner addresses, by local port."""
    return [address_text(address) for _, address in sorted(node.sources.items())]
