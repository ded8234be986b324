# SPDX-License-Identifier: BSD-2-Clause
"""Where the in-process target's EVs lead: profile, place in the fabric, the outer header that its ports put on."""

from __future__ import annotations

from random import Random

import numpy as np

from mrc.conformance.codec.carriage import ROUTING, Outer
from mrc.conformance.setup import MODES, Plane, Setup, generated_fields
from mrc.conformance.target import Refused, Unsupported
from mrc.conformance.targets.endpoint_session import caller_error_as
from mrc.endpoint.paths.addressing import Path, PlanePair, srv6_path, stev_paths, udp_paths
from mrc.endpoint.paths.formats import EvFormat
from mrc.endpoint.paths.profiles import EvProfile, EvProfileMode
from mrc.fabric.address import address, usid
from mrc.wire.entropy import EvField, EvMode
from mrc.wire.header_rows import new_headers, split_rows
from mrc.wire.ipv4 import address_number
from mrc.wire.profile import WireProfile
from mrc.wire.usid import DEFAULT_BLOCK, UsidTemplate, container

PATH_OPTIONS = ("evs_per_plane", "ev_fields", "ev_widths", "srh", "target_leaf", "tester_leaf", "tester_host")
DEFAULT_PLANES = 2
DEFAULT_EVS_PER_PLANE = 4
_TARGET_HOST, _TESTER_HOST = 1, 0
_FIRST_UDP_EV = 0xC000
_UPLINKS = 256
_NEXT_HEADER = 6  # where an IPv6 header has it
_MODES = {"srv6": EvMode.SRV6, "stev": EvMode.STEV, "udp": EvMode.UDP}


class InProcessPaths:
    """The EVs of a target that is host 1 of the default lab, towards a tester that is host 0 unless options say
    otherwise. Raises Unsupported for a mode that there is not, CallerError for what the endpoint refuses."""

    def __init__(self, setup: Setup, wire: WireProfile, seed: int) -> None:
        options = setup.options
        self.mode = setup.mode or "srv6"
        if self.mode not in MODES:
            raise Unsupported(f"no mode {self.mode}")
        self._version = setup.ip or 6
        if self.mode == "srv6" and self._version == 4:
            raise Unsupported("SRv6 mode has no IPv4")
        self._wire = wire
        self._seed = seed
        self._srh = bool(options.get("srh", 0))
        self._evs_per_plane = int(options.get("evs_per_plane", DEFAULT_EVS_PER_PLANE))
        leaves = int(options.get("target_leaf", 1)), int(options.get("tester_leaf", 0))
        self._usids = UsidTemplate(*leaves, int(options.get("tester_host", 0)))
        self.pairs = [
            PlanePair(
                plane,
                plane,
                self._address(plane, _TARGET_HOST),
                self._address(plane, _TESTER_HOST),
                _UPLINKS,
                self._usids,
            )
            for plane in range(setup.planes or DEFAULT_PLANES)
        ]
        # Of outer headers, by plane. What the endpoint sends has this source. What has come to its port has this source
        # and, in the destination, what is left of the uSIDs: the block and the port towards the host.
        self._sources = [address_number(pair.local_address) for pair in self.pairs]
        self._arrived = [
            (address_number(pair.peer_address), container(DEFAULT_BLOCK, (usid(f"h{_TARGET_HOST}", pair.plane),)))
            for pair in (self.pairs if self.mode == "srv6" else ())
        ]
        # By plane, in order.
        self.paths = self._generated(setup) if "ev_fields" in options else list(map(self._plain, self.pairs))

    @property
    def planes(self) -> tuple[Plane, ...]:
        """The planes as the tester sees them, which uses the target's EVs."""
        found = []
        for pair, paths in zip(self.pairs, self.paths, strict=True):
            evs = tuple(path.ev for path in paths)
            found.append(Plane(pair.plane, pair.peer_address, pair.local_address, evs, evs))
        return tuple(found)

    def _address(self, plane: int, host: int) -> str:
        if self._version == 4:
            return f"10.0.{plane}.{host + 1}"
        return address(f"h{host}", plane)

    def _plain(self, pair: PlanePair) -> list[Path]:
        count, plane, wire = self._evs_per_plane, pair.plane, self._wire
        if self.mode == "srv6":
            return [srv6_path(pair, self._usids, uplink, wire) for uplink in range(count)]
        if self.mode == "udp":
            return udp_paths(pair, (_FIRST_UDP_EV + 0x100 * plane + number for number in range(count)), wire)
        width = 16 if self._version == 4 else 32
        top = width - 8
        return stev_paths(pair, ((number << top | 0x50 + plane, number) for number in range(count)), wire)

    def _generated(self, setup: Setup) -> list[list[Path]]:
        """The EVs of a GENERATED profile, as many for each plane as the script asks for."""
        widths = tuple(int(width) for width in str(setup.options.get("ev_widths", "")).split())
        ev_format = EvFormat(_MODES[self.mode], widths, self._srh)
        fields = tuple(
            EvField(each.width, each.init_val, each.mask, each.min_val, each.max_val)
            for each in generated_fields(str(setup.options["ev_fields"]))
        )
        count = self._evs_per_plane * len(self.pairs)
        profile = EvProfile(EvProfileMode.GENERATED, ev_format, count=count, fields=fields)
        found = profile.paths(self.pairs, Random(self._seed), self._wire)
        return [[path for path in found if path.plane == pair.plane] for pair in self.pairs]

    # ------------------------------------------------------------------ the outer header

    def outer_addresses(self, ev: int) -> tuple[int, int] | None:
        """Of a packet to the target when it has come to its port."""
        if self.mode != "srv6":
            return None
        return self._arrived[ev >> 24 if ev >> 24 < len(self.pairs) else 0]

    def on_the_wire(self, packet: bytes, port: int, destination: int, traffic_class: int) -> bytes:
        """A packet of the endpoint's as its port sends it. `destination` is the outer one the endpoint names."""
        if self.mode != "srv6":
            return packet
        source, routing = self._sources[port], b""
        if self._srh:
            destination, routing = self.routing_header(destination)
        frame = Outer(source, destination, traffic_class).around(routing + packet)
        return frame[:_NEXT_HEADER] + bytes((ROUTING,)) + frame[_NEXT_HEADER + 1 :] if routing else frame

    def routing_header(self, destination: int) -> tuple[int, bytes]:
        """(outer destination, SRH) of a packet that has one: what `mrc.net` makes of many at once."""
        header = new_headers(1)
        address = np.frombuffer(bytearray(destination.to_bytes(16, "big")), np.uint8).reshape(1, 16)
        split_rows(address, header)
        return int.from_bytes(address.tobytes(), "big"), header.tobytes()


def check_paths(paths: type[InProcessPaths], setup: Setup, wire: WireProfile) -> None:
    """Raises Refused where the endpoint would not take these EVs, or this place in the fabric."""
    with caller_error_as(Refused):
        paths(setup, wire, 0)
