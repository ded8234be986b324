# SPDX-License-Identifier: BSD-2-Clause
"""MRC-like traffic through an impaired lab, and what `tc` and tshark, who know nothing of us, say of it."""

from __future__ import annotations

import json
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from bpf_frames import BTH, EXTENSIONS
from lab_wire import IPPROTO_IPV6, arrived, inner_packet, run, usid_address
from patience import PATIENCE_S, CaptureMarker, Fence

from mrc.lab import Lab
from mrc.lab.status import DirectionStatus

RECEIVE_BUFFER = 33  # SO_RCVBUFFORCE
ETHERNET_AND_OUTER = 14 + 40


def direction(lab: Lab, link: str, toward: str) -> DirectionStatus:
    return next(each for each in lab.status().links if each.name == link).toward[toward]


class Traffic:
    """One path from host 0 to host 1, sent by hand and received by hand."""

    def __init__(self, lab: Lab, uplink: int = 0) -> None:
        self.lab = lab
        self._target = (usid_address(lab.topology, 0, 1, 0, uplink), 0)
        self._sender, self._receiver = (
            lab.inside(host, lambda: socket.socket(socket.AF_INET6, socket.SOCK_RAW, IPPROTO_IPV6))
            for host in ("h0", "h1")
        )
        self._receiver.setsockopt(socket.SOL_SOCKET, RECEIVE_BUFFER, 1 << 24)
        self._class = -1
        self._fence = Fence.of(lab)

    def packet(self, payload: bytes) -> bytes:
        """An inner IPv6 packet: UDP, BTH, METH, TSETH, RETH, payload, ICRC."""
        content = BTH + EXTENSIONS + payload + b"icrc"
        return inner_packet(self.lab.addresses("h0")[0], self.lab.addresses("h1")[0], content)

    def send(self, inner: bytes, dscp: int, ecn: int = 2) -> None:
        """The codepoints go into the outer header."""
        if (wanted := dscp << 2 | ecn) != self._class:
            self._sender.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS, wanted)
            self._class = wanted
        self._sender.sendto(inner, self._target)

    def paced(self, inner: bytes, dscp: int, rate_bps: float, seconds: float) -> int:
        """Send at `rate_bps`, frames with their outer headers counted; how many packets that were.

        What was missed while this stood still is sent in one go. `pauses` has how long it sent nothing, each time.
        """
        size, began, sent = (len(inner) + ETHERNET_AND_OUTER) * 8, time.monotonic(), 0
        self.pauses, earlier = [], 0.0
        while (passed := time.monotonic() - began) < seconds:
            self.pauses.append(passed - earlier)
            earlier = passed
            while sent * size < min(passed, seconds) * rate_bps:
                self.send(inner, dscp)
                sent += 1
                if sent % 200 == 0:
                    # No CPU has room for any number of packets that it has not carried on yet.
                    self._fence.wait()
            time.sleep(0.0005)
        return sent

    def next(self) -> bytes:
        """The next inner packet, which has to come."""
        self._receiver.settimeout(PATIENCE_S)
        return self._receiver.recv(1 << 16)

    def arrived(self) -> list[bytes]:
        """Every inner packet that has come or will come, of those sent so far."""
        self._fence.wait()
        while any(way.queue_waiting_bytes for link in self.lab.status().links for way in link.toward.values()):
            time.sleep(0.005)
            self._fence.wait()
        self._fence.wait()
        return arrived(self._receiver)

    def arrived_unless_held(self) -> list[bytes]:
        """Every inner packet of those sent so far. Complete only where no link has a rate."""
        self._fence.wait()
        return arrived(self._receiver)

    def lengths(self) -> Counter[int]:
        return Counter(len(each) for each in self.arrived())

    def close(self) -> None:
        for each in (self._sender, self._receiver, self._fence):
            each.close()


@contextmanager
def captured(
    lab: Lab, tshark: str, node: str, interface: str, file: Path, wanted: str
) -> Iterator[list[dict[str, int]]]:
    """After the block: of each packet that arrived there and that the display filter `wanted` takes, some fields."""
    capture = lab.popen(
        node,
        [tshark, "-i", interface, "-w", str(file), "-q", "-B", "64"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    marker = CaptureMarker(partial(lab.inside, node), interface)
    seen: list[dict[str, int]] = []
    try:
        marker.wait(file)
        yield seen
        marker.wait(file)
    finally:
        marker.close()
        capture.terminate()
        capture.communicate(timeout=PATIENCE_S)
    fields = ("ipv6.tclass.dscp", "ipv6.tclass.ecn", "ipv6.plen", "frame.len")
    argv = [tshark, "-r", str(file), "-Y", wanted, "-T", "fields", "-E", "occurrence=f"]
    said = subprocess.run(
        argv + [word for field in fields for word in ("-e", field)], capture_output=True, text=True, check=True
    )
    lines = (line.split("\t") for line in said.stdout.splitlines())
    seen.extend(dict(zip(fields, map(int, line), strict=True)) for line in lines)


def disciplines(lab: Lab, tc: str, node: str, interface: str) -> list[str]:
    """The kinds of queueing disciplines on an interface, as `tc` names them."""
    return sorted(each["kind"] for each in json.loads(run(lab, node, tc, "-j", "qdisc", "show", "dev", interface)))


def filters(lab: Lab, tc: str, node: str, interface: str) -> list[str]:
    """The names of eBPF filters at the egress of an interface, as `tc` names them."""
    said = json.loads(run(lab, node, tc, "-j", "filter", "show", "dev", interface, "egress") or "[]")
    return [each["options"].get("bpf_name", "") for each in said if "handle" in each.get("options", {})]
