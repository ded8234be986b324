# SPDX-License-Identifier: BSD-2-Clause
"""What the kernel lets through: the same packets over the same paths, sent and taken by a C program, no transport.

It is what a sender that costs nothing beside its system calls would reach: nothing is checked, acknowledged or sent
again, and what the receiver has no room for is gone.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping
from typing import Any

from mrc.bench.compiler import check_compiler, compile_program
from mrc.bench.prepared import harmless, through_the_fabric, write_packets
from mrc.bench.processes import SCRATCH
from mrc.bench.settings import Settings
from mrc.bench.subject import PATIENCE_S, RECEIVER, SENDER, cpu_seconds_per_gb
from mrc.child import Child
from mrc.endpoint.requestor.send import full_packet_bytes
from mrc.errors import PeerError
from mrc.lab import Lab
from mrc.lab.children import start_on
from mrc.lab.scratch import ScratchDirectory
from mrc.net.tuning import transfer_config

_PROGRAM = "bare-packets.c"
_WHO = "the baseline bare"
_DISCARD = 9


class Bare:
    """Compiled once, a receiver and a sender for each run. What counts is what arrived."""

    name = "bare"

    def __init__(self, seconds: float, mtu: int, loss: float) -> None:
        self.loss = loss
        self._seconds = seconds
        self._mtu = mtu
        self._scratch = ScratchDirectory(SCRATCH)
        self._program = self._scratch.path / "bare-packets"
        self._packets = self._scratch.path / "packets"

    def check(self) -> None:
        check_compiler(_WHO)

    def prepare(self, lab: Lab) -> None:
        compile_program(_PROGRAM, self._program, _WHO)
        write_packets(self._packets, self._spray(lab))

    def _spray(self, lab: Lab) -> list[bytes]:
        """One packet for each path, neighbours on different planes."""
        shape = lab.topology
        sender, receiver = (shape.hosts.index(host) for host in (SENDER, RECEIVER))
        way = shape.template_between(sender, receiver)
        length = full_packet_bytes(transfer_config(path_mtu=self._mtu))
        return [
            through_the_fabric(harmless(source, destination, _DISCARD, length), source, way, uplink, plane)
            for uplink in range(way.count(shape.uplinks))
            for plane, (source, destination) in enumerate(
                zip(lab.addresses(SENDER), lab.addresses(RECEIVER), strict=True)
            )
        ]

    def run(self, lab: Lab) -> Mapping[str, Any]:
        program, interfaces = str(self._program), [f"p{plane}" for plane in range(lab.topology.planes)]
        with start_on(lab, RECEIVER, "bare-packets", [program, "receive", *interfaces]) as receiver:
            receiver.started("ready")
            sending = [program, "send", str(self._packets), str(self._seconds)]
            with start_on(lab, SENDER, "bare-packets", sending) as sender:
                sent, sender_cpu = _said(sender, 2, self._seconds + PATIENCE_S)
            receiver.process.send_signal(signal.SIGTERM)
            arrived, seconds, receiver_cpu = _said(receiver, 3, PATIENCE_S)
        if not seconds:
            raise PeerError(f"of {sent:.0f} bare packets {arrived:.0f} arrived")
        goodput_gbps, cpu_seconds = arrived * self._mtu * 8 / seconds / 1e9, sender_cpu + receiver_cpu
        return {
            "goodput_gbps": goodput_gbps,
            "kpps": arrived / seconds / 1e3,
            "cpu_seconds": cpu_seconds,
            "cpu_seconds_per_gb": cpu_seconds_per_gb(cpu_seconds, goodput_gbps, seconds),
            "retransmitted_packets": 0,
            "lost_packets": int(sent - arrived),
        }


def make(name: str, settings: Settings) -> Bare:
    return Bare(settings.seconds, settings.mtu, settings.loss)


def _said(program: Child, numbers: int, timeout_s: float) -> list[float]:
    """The numbers a program ends with. Raises PeerError when it fails, says something else, or does not end."""
    words = program.rest(timeout_s).split()[-numbers:]
    if len(words) != numbers:
        raise PeerError(f"bare-packets failed: {program.why()}")
    return [float(word) for word in words]
