# SPDX-License-Identifier: BSD-2-Clause
"""An agent: a prober on raw sockets in a host's namespace, and its line to the collector.

It wakes once a tick: takes in what came back, reports what is decided, sends what is due. Without a collector it sends
nothing and looks for one every second. It ends when its interfaces do, as those of a host of a lab do with the lab.
"""

from __future__ import annotations

import contextlib
import errno
import os
import random
import select
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from mrc.errors import CallerError, PeerError, SystemRefused
from mrc.fabric.host_view import Fabric, FabricPort
from mrc.map.interfaces import InterfacesGone
from mrc.map.loops import Loop
from mrc.map.probe import INNER_LENGTH, UDP_PORT, ProbeCodec
from mrc.map.prober import SECOND, Prober, ProberConfig
from mrc.map.wording import (
    LONGEST_LINE,
    CollectorRefused,
    Hello,
    Totals,
    hello_line,
    read_welcome,
    report_line,
    totals_line,
)
from mrc.net.filters import Instruction, attach_filter
from mrc.net.mtu import ignore_path_mtu
from mrc.net.ports import RAW_SOCKET_ADVICE, bind_to_interface, dropped_by
from mrc.wire.profile import DEFAULT_WIRE_PROFILE, WireProfile
from mrc.wire.rows import fields_at
from mrc.wire.usid import address_text

_IPV6_IN_IPV6, _UDP_PROTOCOL = 41, 17
(_NEXT_HEADER_AT,) = fields_at("ipv6", "nh")
(_UDP_DPORT_AT,) = fields_at("udp", "dport")
_LOAD_HALF, _LOAD_BYTE, _JUMP_IF_EQUAL, _RETURN, _WHOLE = 0x28, 0x30, 0x15, 0x06, 0xFFFFFFFF
# asm-generic/socket.h: option and control message have the same number; the latter is a struct timespec.
_SO_TIMESTAMPNS = 35
_TIMESPEC = struct.Struct("=qq")
_PORT_IS_DOWN = frozenset({errno.ENETUNREACH, errno.ENETDOWN, errno.EHOSTUNREACH, errno.ENXIO, errno.EADDRNOTAVAIL})
_RETRY_S, _TOTALS_NS, _ANSWER_S = 1.0, SECOND, 5.0
# What the collector does not take for so long is not worth keeping.
_MOST_UNSENT = 4 << 20


def own_packets_only() -> list[Instruction]:
    """A filter for a raw socket for IPv6 in IPv6: UDP to the probes' port, so that MRC's packets cost nothing."""
    return [
        (_LOAD_BYTE, 0, 0, _NEXT_HEADER_AT),
        (_JUMP_IF_EQUAL, 0, 3, _UDP_PROTOCOL),
        (_LOAD_HALF, 0, 0, _UDP_DPORT_AT),
        (_JUMP_IF_EQUAL, 0, 1, UDP_PORT),
        (_RETURN, 0, 0, _WHOLE),
        (_RETURN, 0, 0, 0),
    ]


class ProbeSocket:
    """One port's sockets: one bound to its address to send, one for what the fabric brings to its uSID."""

    def __init__(self, port: FabricPort, block: int, key: bytes, session: bytes, wire: WireProfile) -> None:
        """Raises SystemRefused without the privilege for raw sockets, or when the interface is missing."""
        # Of the class of control packets: a full queue is congestion, not a fault, and those do not wait in it.
        traffic_class = wire.dscp_control << 2
        self.interface = port.interface
        self._codec = ProbeCodec(port.address, key, session, traffic_class)
        self._block = block
        self._addresses: dict[Loop, str] = {}
        self._dropped = 0
        try:
            self.receiver = socket.socket(socket.AF_INET6, socket.SOCK_RAW, _IPV6_IN_IPV6)
        except PermissionError as error:
            raise SystemRefused(error.errno, RAW_SOCKET_ADVICE) from None
        self.sender = socket.socket(socket.AF_INET6, socket.SOCK_RAW, _IPV6_IN_IPV6)
        try:
            attach_filter(self.receiver, own_packets_only())
            self.bind_again()
            for each in (self.receiver, self.sender):
                each.setblocking(False)
            self.receiver.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
            self.sender.bind((port.address, 0))
            ignore_path_mtu(self.sender)
            self.sender.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 0)
            self.sender.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS, traffic_class)
            self._dropped = dropped_by(self.receiver)
        except OSError as error:
            self.close()
            raise SystemRefused(
                error.errno, f"port {port.interface} ({port.address}): {error.strerror}; is the fabric up?"
            ) from None

    def bind_again(self) -> None:
        """Use the interface of this name as it is now. Raises OSError."""
        for each in (self.receiver, self.sender):
            bind_to_interface(each, self.interface)

    def send(self, sequence: int, loop: Loop) -> OSError | None:
        """What the system said when it did not take it."""
        address = self._addresses.get(loop)
        if address is None:
            address = self._addresses[loop] = address_text(loop.address(self._block))
        try:
            self.sender.sendto(self._codec.build(sequence, time.time_ns()), (address, 0))
        except OSError as error:
            return error
        return None

    def take_in(self, prober: Prober) -> None:
        """Give the prober everything that has arrived."""
        while True:
            try:
                packet, ancillary, _, _ = self.receiver.recvmsg(INNER_LENGTH + 1, 64)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                continue  # an ICMP error about a probe: it is lost, which shows by itself
            found = self._codec.read(packet)
            if found is None:
                prober.counters.foreign += 1
                continue
            sequence, sent_ns = found
            prober.came_back(sequence, _arrival_ns(ancillary) - sent_ns if ancillary else None)

    def overflowed(self) -> bool:
        """Whether the receive buffer dropped something since the last call."""
        before, self._dropped = self._dropped, dropped_by(self.receiver)
        return self._dropped != before

    def close(self) -> None:
        self.receiver.close()
        self.sender.close()


def _arrival_ns(ancillary: list[tuple[int, int, bytes]]) -> int:
    seconds, nanoseconds = _TIMESPEC.unpack_from(ancillary[0][2])
    return int(seconds) * SECOND + int(nanoseconds)


class CollectorLine:
    """A connection to the collector: lines out without waiting, and its first word in."""

    def __init__(self, path: Path) -> None:
        """Raises OSError when nobody listens there, PeerError when the collector refuses."""
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._unsent = b""
        self._heard = b""
        self.accepted = False
        try:
            self._socket.settimeout(_ANSWER_S)
            self._socket.connect(os.fspath(path))
            self.welcome = read_welcome(self._line())
        except BaseException:
            self._socket.close()
            raise
        self._socket.setblocking(False)

    def _line(self) -> bytes:
        while b"\n" not in self._heard:
            chunk = self._socket.recv(4096)
            if not chunk:
                raise ConnectionResetError(errno.ECONNRESET, "hung up without a word")
            if len(self._heard) > LONGEST_LINE:
                raise PeerError("the collector's welcome has no end")
            self._heard += chunk
        line, self._heard = self._heard.split(b"\n", 1)
        return line

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, lines: bytes) -> None:
        """Send lines, or keep them for the next call. Raises OSError or PeerError when the collector is gone."""
        self._unsent += lines
        if len(self._unsent) > _MOST_UNSENT:
            raise PeerError("the collector does not read")
        try:
            while self._unsent:
                self._unsent = self._unsent[self._socket.send(self._unsent) :]
        except (BlockingIOError, InterruptedError):
            pass
        except ConnectionError:
            self.heard()  # it may have said why
            raise PeerError("the collector hung up") from None

    def heard(self) -> None:
        """Take in that the collector takes this agent: its welcome once more (`accepted`).

        Raises PeerError when it hung up or refused; it says nothing else.
        """
        try:
            chunk = self._socket.recv(4096)
        except (BlockingIOError, InterruptedError):
            return
        except ConnectionError:
            chunk = b""
        self._heard += chunk
        while b"\n" in self._heard:
            line, self._heard = self._heard.split(b"\n", 1)
            read_welcome(line)
            self.accepted = True
        if not chunk:
            raise PeerError("the collector hung up")

    def close(self) -> None:
        self._socket.close()


class Agent:
    """Probes of one host. Must be made in the host's network namespace."""

    def __init__(
        self,
        fabric: Fabric,
        config: ProberConfig,
        collector: Path,
        *,
        wire: WireProfile = DEFAULT_WIRE_PROFILE,
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        """`collector`: the path of its socket. `say` is given lines for people.

        Raises CallerError for a fabric without uSIDs or without known uplinks, SystemRefused as ProbeSocket does.
        """
        if not fabric.uses_usids:
            raise CallerError(f"fabric {fabric.name} is in {fabric.mode} mode: probes find their way by uSIDs alone")
        for port in fabric.ports:
            if not port.uplinks:
                raise CallerError(f"the fabric file does not say how many uplinks the leaf of {port.interface} has")
        self._fabric, self._config, self._collector, self._say = fabric, config, collector, say
        key, session = ProbeCodec.new_secrets()
        self._sockets: dict[int, ProbeSocket] = {}
        try:
            for port in fabric.ports:
                self._sockets[port.plane] = ProbeSocket(port, fabric.block, key, session, wire)
        except BaseException:
            self.close()
            raise
        self._chance = random.Random()
        self._interfaces_gone = InterfacesGone((port.interface for port in fabric.ports), self._bind_again)
        self._said = ""

    def close(self) -> None:
        for each in self._sockets.values():
            each.close()

    def _bind_again(self, interface: str) -> None:
        for each in self._sockets.values():
            if each.interface == interface:
                with contextlib.suppress(OSError):  # gone again: it is looked for again
                    each.bind_again()

    def run(self, is_over: Callable[[], bool] = lambda: False) -> None:
        """Probe until `is_over` says so.

        Raises PeerError when the collector will not speak to this process at all (another user's, another version),
        SystemRefused when all its interfaces are gone for good.
        """
        while not is_over():
            if self._interfaces_gone():
                gone = ", ".join(port.interface for port in self._fabric.ports)
                raise SystemRefused(
                    errno.ENODEV,
                    f"h{self._fabric.host} has no {gone} any more, as when its lab is taken down: no probes go out",
                )
            line = self._connected()
            if line is None:
                time.sleep(_RETRY_S)
                continue
            try:
                self._probe(line, lambda: is_over() or self._interfaces_gone())
            except CollectorRefused as error:
                self._note_once(f"{error}; asking again every second")
                time.sleep(_RETRY_S)
            except (PeerError, OSError) as error:
                why = (
                    f"the collector has gone ({error.strerror or error})" if isinstance(error, OSError) else str(error)
                )
                self._note_once(f"{why}; looking for a collector at {self._collector}")
                time.sleep(_RETRY_S)
            finally:
                line.close()

    def _connected(self) -> CollectorLine | None:
        try:
            line = CollectorLine(self._collector)
        except OSError:
            self._note_once(f"no collector at {self._collector} yet: `mrc map serve` is one")
            return None
        return line

    def _note_once(self, what: str) -> None:
        if what != self._said:
            self._said = what
            self._say(what)

    def _probe(self, line: CollectorLine, is_over: Callable[[], bool]) -> None:
        # The collector's number of leaves: a fabric file need not say it.
        fabric = replace(self._fabric, leaves=line.welcome.leaves)
        places = [fabric.place(port) for port in fabric.ports]
        begun = time.monotonic_ns()
        prober = Prober(fabric.host, places, self._config, self._chance, begun)
        line.send(hello_line(Hello(self._fabric.host, self._config.rate, prober.loops)))
        poll = select.poll()
        poll.register(line.fileno(), select.POLLIN)
        # Hosts that were started together do not all send at the same moment.
        next_tick = begun + self._chance.randrange(self._config.tick_ns)
        next_totals = begun
        while not is_over():
            now = time.monotonic_ns()
            if now < next_tick:
                if poll.poll((next_tick - now) / 1e6):
                    line.heard()
                continue
            next_tick = max(next_tick + self._config.tick_ns, now)
            if line.accepted:
                self._note_once(f"probing {self._config.rate} times a second for {line.welcome.fabric}")
            said = self._tick(prober)
            if now >= next_totals:
                next_totals = now + _TOTALS_NS
                said += totals_line(Totals(prober.counters, time.process_time()))
            line.send(said)

    def _tick(self, prober: Prober) -> bytes:
        now = time.monotonic_ns()
        for each in self._sockets.values():
            each.take_in(prober)
            if each.overflowed():
                prober.echoes_dropped(now)
        said = b"".join(report_line(report) for report in prober.decided(now))
        for sequence, loop in prober.due(now):
            error = self._sockets[loop.plane].send(sequence, loop)
            if error is not None:
                prober.not_sent(sequence, port_is_down=error.errno in _PORT_IS_DOWN)
        return said
