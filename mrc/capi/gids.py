# SPDX-License-Identifier: BSD-2-Clause
"""A node by its GID: the 16 bytes are the address of its first port, an IPv4 address in its IPv6 form.

All that a peer has to know follows from them. In a lab the other hosts' fabric files lie beside this host's. Between
ordinary hosts with one address each the address is all there is; with several, the file that MRC_HOSTS names lists
each host's addresses: {"hosts": [["10.0.0.1", "10.1.0.1"], ...]}.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Sequence
from dataclasses import replace
from errno import ENOENT
from pathlib import Path

from mrc.errors import CallerError
from mrc.fabric.host_view import HOST_FABRIC, Fabric
from mrc.net.device import FABRIC_VARIABLE
from mrc.net.negotiation import NodeDescription, PortDescription
from mrc.untrusted import json_file
from mrc.verbs import VerbsError

HOSTS_VARIABLE = "MRC_HOSTS"
_MOST_BYTES = 1 << 24


def gid_of(address: str) -> bytes:
    """The GID of a node whose first port has this address."""
    parsed = ipaddress.ip_address(address)
    return parsed.packed if parsed.version == 6 else b"\0" * 10 + b"\xff\xff" + parsed.packed


def address_of(gid: bytes) -> str:
    """The address in a GID."""
    parsed = ipaddress.IPv6Address(gid)
    return str(parsed.ipv4_mapped or parsed)


class Peers:
    """The nodes of a fabric by GID, as one of its hosts sees them."""

    def __init__(self, fabric: Fabric, own: NodeDescription) -> None:
        self._fabric = fabric
        self._own = own
        self._known: dict[bytes, NodeDescription] = {}

    def find(self, gid: bytes) -> NodeDescription:
        """How to reach the node of this GID. Raises VerbsError ENOENT for one that the fabric does not have."""
        if gid not in self._known:
            self._known |= self._of_the_lab() if self._fabric.name != HOST_FABRIC else self._of_hosts()
        if gid in self._known:
            return self._known[gid]
        if self._fabric.name == HOST_FABRIC and len(self._fabric.ports) == 1:
            return replace(self._own, ports=(PortDescription(self._fabric.ports[0].plane, address_of(gid), 0),))
        raise VerbsError(ENOENT, self._unknown(address_of(gid)))

    def _unknown(self, address: str) -> str:
        if self._fabric.name != HOST_FABRIC:
            return f"no host of {self._fabric.name} has the GID {address}"
        path = os.environ.get(HOSTS_VARIABLE)
        if path:
            return f"{path} ({HOSTS_VARIABLE}) has no host whose first address is {address}"
        return (
            f"this host has several addresses, and nothing says which others belong to {address}: "
            f"name a file of all hosts in {HOSTS_VARIABLE} (docs/capi.md)"
        )

    def _of_the_lab(self) -> dict[bytes, NodeDescription]:
        path = Path(os.environ.get(FABRIC_VARIABLE, ""))
        known = {}
        for file in path.parent.glob("*.json"):
            try:
                fabric = Fabric.load(file)
            except CallerError:  # what else lies there
                continue
            if fabric.name == self._fabric.name:
                ports = tuple(PortDescription(port.plane, port.address, port.leaf) for port in fabric.ports)
                known[gid_of(ports[0].address)] = replace(self._own, host=fabric.host, ports=ports)
        return known

    def _of_hosts(self) -> dict[bytes, NodeDescription]:
        path = os.environ.get(HOSTS_VARIABLE)
        document = json_file(path, "hosts file", _MOST_BYTES) if path else {"hosts": []}
        hosts = document.get("hosts") if isinstance(document, dict) else None
        if not isinstance(hosts, list) or not all(_is_host(each) for each in hosts):
            raise VerbsError(ENOENT, f"{path}: a hosts file is an object with `hosts`, a list of lists of addresses")
        return {gid_of(each[0]): self._host(each) for each in hosts}

    def _host(self, addresses: Sequence[str]) -> NodeDescription:
        ports = tuple(PortDescription(plane, address, 0) for plane, address in enumerate(addresses))
        return replace(self._own, ports=ports)


def _is_host(document: object) -> bool:
    if not isinstance(document, list) or not document or not all(isinstance(each, str) for each in document):
        return False
    try:
        return all(ipaddress.ip_address(each) for each in document)
    except ValueError:
        return False
