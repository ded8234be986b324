# SPDX-License-Identifier: BSD-2-Clause
"""What one host must know of the fabric it is on: the file MRC_FABRIC names.

It holds only the host's own side (ports, leaf, uplinks, block). The peer's half of a path (its leaf, host
number and addresses) comes with the out-of-band exchange, so that the file does not grow with the fabric.
"""

from __future__ import annotations

import ipaddress
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mrc.errors import CallerError
from mrc.fabric.place import DEFAULT_SHAPE, Place
from mrc.fabric.shapes import shape_class
from mrc.records import record
from mrc.untrusted import json_file
from mrc.wire.address_template import AddressTemplate
from mrc.wire.usid import DEFAULT_BLOCK, MAX_PLANES, PathTemplate

FABRIC_VERSION = 1
_MOST_BYTES = 1 << 20
# How its switches choose a packet's way: a uSID list (with the last of it in a segment routing header), fields of the
# EV, or a hash over the UDP source port (ECMP).
MODES = ("srv6", "srv6-srh", "stev", "udp")
USID_MODES = ("srv6", "srv6-srh")
HOST_FABRIC = "host"  # the name of the fabric of a host on its ordinary addresses (mrc.net.hosts)


@record(frozen=True, slots=True)
class FabricPort:
    """One local port: the host's foot in one plane.

    `interface` is the kernel's name, `address` the port's own address (IPv6; IPv4 too in stev and udp modes), `leaf`
    the number of the leaf it hangs on, `uplinks` how many ways that leaf has to another one (to as many spines),
    0 where that is not known.
    """

    plane: int
    interface: str
    address: str
    leaf: int
    uplinks: int

    def __post_init__(self) -> None:
        try:
            ipaddress.ip_address(self.address)
        except ValueError as error:
            raise CallerError(f"fabric port of plane {self.plane}: {error}") from None


@record(frozen=True, slots=True)
class HostTemplate:
    """A deployment's address template from this host's port in `plane` to host `host`."""

    plane: int
    host: int
    template: AddressTemplate

    @classmethod
    def from_document(cls, document: Any) -> HostTemplate:
        """Read an entry of `templates`. Raises CallerError."""
        if not isinstance(document, dict):
            raise CallerError("templates has an entry that is no object")
        plane, host = document.get("plane"), document.get("host")
        if type(plane) is not int or type(host) is not int or min(plane, host) < 0:
            raise CallerError("an entry of templates names no plane or no host by its number")
        return cls(plane, host, AddressTemplate.from_document(document, f"the template of plane {plane}, host {host}"))

    def to_document(self) -> dict[str, Any]:
        """What `from_document` reads."""
        return {"plane": self.plane, "host": self.host, **self.template.to_document()}


@record(frozen=True, slots=True)
class Fabric:
    """A host's view of its fabric. `host` is its number, `block` the 32-bit uSID block, `mtu` in bytes.

    `mode` is one of MODES; `ev_widths` the widths in bits of the EV's fields in stev mode, most significant first.
    `shape` is the name of the fabric's shape (mrc/fabric/shapes), `leaves` how many leaves each plane has, 0 where that
    is not known. `templates`, in srv6 mode, take the place of this project's address plan: one for each plane and host.
    """

    name: str
    host: int
    mtu: int
    ports: tuple[FabricPort, ...]
    mode: str = "srv6"
    block: int = DEFAULT_BLOCK
    ev_widths: tuple[int, ...] = ()
    shape: str = DEFAULT_SHAPE
    leaves: int = 0
    templates: tuple[HostTemplate, ...] = ()

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise CallerError(f"fabric {self.name}: mode {self.mode!r} is none of {', '.join(MODES)}")
        if not self.ports:
            raise CallerError("a fabric needs at least one port")
        if len(self.ports) > MAX_PLANES:
            raise CallerError(f"a fabric has at most {MAX_PLANES} ports, got {len(self.ports)}")
        if len({port.plane for port in self.ports}) != len(self.ports):
            raise CallerError("a fabric has one port per plane, two ports name the same plane")
        if self.templates and self.mode != "srv6":
            raise CallerError(f"fabric {self.name}: templates are for srv6 mode, not for {self.mode}")
        for each in self.templates:
            if each.plane not in self.planes:
                raise CallerError(
                    f"fabric {self.name}: a template is of plane {each.plane}, where the host has no port"
                )
        if len({(each.plane, each.host) for each in self.templates}) != len(self.templates):
            raise CallerError(f"fabric {self.name}: two templates are of one plane and one host")
        for port in self.ports:
            if self.uses_usids and ipaddress.ip_address(port.address).version == 4:
                raise CallerError(f"fabric port of plane {port.plane}: {self.mode} mode needs IPv6, not {port.address}")

    @property
    def uses_usids(self) -> bool:
        """Whether packets travel inside an outer IPv6 header that lists the switches they pass."""
        return self.mode in USID_MODES

    @property
    def planes(self) -> tuple[int, ...]:
        """The planes that the host has a port in."""
        return tuple(port.plane for port in self.ports)

    def place(self, port: FabricPort) -> Place:
        """Where this host stands in the plane of one of its ports."""
        return Place(port.plane, port.leaf, self.leaves, port.uplinks, self.shape)

    def template(self, port: FabricPort, leaf: int, host: int) -> PathTemplate | None:
        """The paths from a port to host `host` on leaf `leaf`; None where packets carry no uSIDs.

        Raises CallerError for a leaf that the fabric does not have, and where it has templates for one that is missing.
        """
        if self.templates:
            for each in self.templates:
                if (each.plane, each.host) == (port.plane, host):
                    return each.template
            raise CallerError(f"fabric {self.name} has no template to host {host} in plane {port.plane}")
        if not self.uses_usids:
            return None
        return shape_class(self.shape).template(self.place(port), leaf, host, self.block)

    def to_json(self) -> str:
        """Return the text of a fabric file, which `load` reads."""
        document: dict[str, Any] = {"version": FABRIC_VERSION, **asdict(self)}
        document["templates"] = [each.to_document() for each in self.templates]
        if not self.templates:
            del document["templates"]
        return json.dumps(document, indent=2) + "\n"

    @classmethod
    def load(cls, path: str | Path) -> Fabric:
        """Read a fabric file. Raises CallerError when it is missing, unreadable or of another version."""
        document = json_file(path, "fabric file", _MOST_BYTES)
        if not isinstance(document, dict) or document.pop("version", None) != FABRIC_VERSION:
            raise CallerError(f"fabric file {path}: not a version {FABRIC_VERSION} fabric description")
        try:
            ports = tuple(FabricPort(**port) for port in document.pop("ports"))
            widths = tuple(document.pop("ev_widths", ()))
            entries = document.pop("templates", [])
            if not isinstance(entries, list):
                raise CallerError("templates is no list of address templates")
            templates = tuple(map(HostTemplate.from_document, entries))
            return cls(ports=ports, ev_widths=widths, templates=templates, **document)
        except KeyError as error:
            raise CallerError(f"fabric file {path}: {error} is missing") from None
        except (TypeError, CallerError) as error:
            raise CallerError(f"fabric file {path}: {error}") from None
