# SPDX-License-Identifier: BSD-2-Clause
"""The delay of one direction of a link: a filter, a tap and the relay process behind it (mrc.lab.impairment.relay).

The tap's alias says what the delay is, so any process reads it from the kernel; the tap ends with its process.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mrc import netlink
from mrc.errors import SystemRefused
from mrc.fabric.impairment import Impairment
from mrc.lab import installed, processes
from mrc.lab.impairment import relay
from mrc.lab.impairment import traffic_control as tc
from mrc.lab.netlink import NetlinkSocket, Request
from mrc.untrusted import NotJson, parse_json

FIELDS = ("delay_ns", "jitter_ns", "reorder")
_ALIAS = "mrc-delay "
_START_S = 20.0
_NEWLINK, _DELLINK, _IFALIAS, _ENODEV = 16, 17, 20, 19

Inside = Callable[[Callable[[], Any]], Any]


def tap_name(index: int) -> str:
    return f"mrc-delay{index}"


@dataclass(frozen=True, slots=True)
class DelayFound:
    """The delay of a sending interface: the fields of Impairment that its relay has, and what found its tap full."""

    settings: Mapping[str, Any]
    dropped_packets: int


NO_DELAY = DelayFound({}, 0)


def of(found: Mapping[int, installed.InterfaceFound]) -> dict[int, DelayFound]:
    """By the index of the sending interface, the delays among a node's interfaces."""
    delays = {}
    for each in found.values():
        if each.alias.startswith(_ALIAS):
            try:
                said = parse_json(each.alias.removeprefix(_ALIAS).encode())
                delays[said["index"]] = DelayFound({name: said[name] for name in FIELDS}, each.dropped_packets)
            except (NotJson, KeyError, TypeError):
                continue  # not ours
    return delays


def taps(found: Mapping[int, installed.InterfaceFound], index: int) -> list[int]:
    """The interface index of the tap for the sending interface `index`: one, or none."""
    starts = _ALIAS + json.dumps({"index": index})[:-1] + ","
    return [number for number, each in found.items() if each.alias.startswith(starts)]


def change(
    route: NetlinkSocket, inside: Inside, index: int, interface: str, lab_file: Path, wanted: Impairment
) -> None:
    """Give an interface the delay of `wanted`, or take it away. Raises SystemRefused."""
    settings = {"index": index, **{name: getattr(wanted, name) for name in FIELDS}}
    there = taps(installed.interfaces(route, interface), index)
    if not wanted.delay_ns and not wanted.jitter_ns:
        remove(route, index, there)
        return
    if there:
        inside(lambda: _tell(tap_name(index), settings))
    else:
        remove(route, index, there)
        shell = os.environ.get(processes.SHELL_VARIABLE, "0")
        start = [interface, tap_name(index), str(lab_file), processes.OF_LINKS, shell, *_words(settings)]
        there = [inside(lambda: _started(start))]
    route.transact([_described(there[0], settings)])
    route.transact([tc.hook(index), tc.redirect_filter(index, there[0], _mac_of(inside, interface))])


def remove(route: NetlinkSocket, index: int, there: list[int]) -> None:
    """Take the filter off and the taps away. What their relays hold they send in time. No error when none is there."""
    requests = [tc.without_redirect(index)]
    for tap in there:
        data = netlink.message(_DELLINK, netlink.ACK, netlink.LINK.pack(0, 0, tap, 0, 0))
        requests.append(Request("take away the tap of a delay", data, frozenset({_ENODEV})))
    route.transact(requests)


def _described(tap: int, settings: Mapping[str, Any]) -> Request:
    body = netlink.LINK.pack(0, 0, tap, 0, 0)
    text = netlink.attribute(_IFALIAS, (_ALIAS + json.dumps(settings)).encode())
    return Request("describe a delay", netlink.message(_NEWLINK, netlink.ACK, body + text))


def _words(settings: Mapping[str, Any]) -> list[str]:
    """What `relay.delay_of` reads."""
    return [str(settings[name]) for name in ("delay_ns", "jitter_ns", "reorder")]


def _started(arguments: Sequence[str]) -> int:
    """Start a relay in this thread's namespace; the interface index of its tap."""
    argv = [sys.executable, "-I", "-S", relay.__file__, *arguments]
    try:
        ended = subprocess.run(argv, capture_output=True, text=True, timeout=_START_S, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        raise SystemRefused(f"the process that delays packets did not start in {_START_S:.0f} s: try again") from None
    if ended.returncode:
        raise SystemRefused(f"cannot delay packets: {ended.stderr.strip()}: it needs /dev/net/tun (modprobe tun)")
    return socket.if_nametoindex(arguments[1])


def _tell(name: str, settings: Mapping[str, Any]) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        try:
            sender.sendto(" ".join(_words(settings)).encode(), f"\0{name}")
        except OSError as error:
            raise SystemRefused(f"the process that delays packets does not answer: {error.strerror}") from None


def _mac_of(inside: Inside, interface: str) -> bytes:
    def ask() -> bytes:
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as found:
            found.bind((interface, 0))
            return bytes(found.getsockname()[4])

    return bytes(inside(ask))
