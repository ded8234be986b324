# SPDX-License-Identifier: BSD-2-Clause
"""The program of a fast fabric's switch ports: one for the whole fabric, and what it knows of each port.

The tc filters of the ports hold it, and with it the map; both go with the last of them. Another process finds it
through any of these filters (`PortsProgram.by_id`).
"""

from __future__ import annotations

import os
import struct
import time
from dataclasses import dataclass
from pathlib import Path

from mrc.lab.bpf import libbpf
from mrc.opened import Closing

USID_OBJECT = Path(__file__).with_name("usid.o")

_PORTS, _CHANGE, _DECISIONS = "ports", "change", "decisions"
# struct port of usid.c: block and uSID of the switch, then two numbers.
_PORT = struct.Struct("=8sII")
_NUMBER = struct.Struct("=Q")


@dataclass(frozen=True, slots=True)
class Port:
    """What the program knows of a port.

    `own`: block and uSID of the switch. `arriving` and `leaving`: whether the program takes what arrives there, and
    what is to leave there; otherwise the kernel does.
    """

    own: bytes
    arriving: bool
    leaving: bool


class PortsProgram(Closing):
    """Descriptors of the loaded program and of its map. Closing them does not end a program that a filter holds."""

    def __init__(self, descriptor: int) -> None:
        """Takes over `descriptor`. Raises SystemRefused when it is not this program."""
        self.descriptor = descriptor
        try:
            self._ports, self._change = libbpf.maps_of(descriptor, (_PORTS, _CHANGE))
        except BaseException:
            os.close(descriptor)
            raise

    @classmethod
    def load(cls, indices: int, path: Path = USID_OBJECT) -> PortsProgram:
        """A new one for ports with interface indices below `indices`. It leaves all to the kernel until they are set.

        Raises EbpfRefused, SystemRefused.
        """
        # There is one decision for each port of a switch at most.
        return cls(libbpf.load(path, {_PORTS: indices, _DECISIONS: indices}))

    @classmethod
    def by_id(cls, program_id: int) -> PortsProgram:
        """The one of that number, loaded by whomever. Raises EbpfRefused, SystemRefused."""
        return cls(libbpf.program_by_id(program_id))

    def close(self) -> None:
        for descriptor in (self.descriptor, self._ports, self._change):
            os.close(descriptor)

    def set(self, index: int, port: Port) -> None:
        """From the next packet on. Raises SystemRefused."""
        libbpf.write_map(self._ports, _PORT.pack(port.own, port.arriving, port.leaving), index)

    def forget(self) -> None:
        """Ask the kernel's routes again from the next packet on, not from the next tick. Raises SystemRefused."""
        libbpf.write_map(self._change, _NUMBER.pack(time.monotonic_ns()))

    def port(self, index: int) -> Port:
        """What was set last. Raises SystemRefused."""
        own, arriving, leaving = _PORT.unpack(libbpf.read_map(self._ports, _PORT.size, index))
        return Port(own[:6], bool(arriving), bool(leaving))
