# SPDX-License-Identifier: BSD-2-Clause
"""The device of this process: opened with its first process group, closed with the last."""

from __future__ import annotations

import ipaddress
import os
import threading
from contextlib import ExitStack

from mrc.errors import CallerError, SystemRefused
from mrc.fabric.host_view import Fabric
from mrc.net.device import NodeDevice, fabric_of_this_host, open_device
from mrc.net.hosts import OwnAddress, own_addresses

BIND = "MRC_BIND"

_lock = threading.Lock()
_opened = ExitStack()
_device: NodeDevice | None = None
_users = 0


def take_device() -> NodeDevice:
    """The device on the fabric that MRC_FABRIC names, or on what MRC_BIND names. Give it back.

    Raises CallerError where neither is set, and as `fabric_of_bind` does.
    """
    global _device, _users
    with _lock:
        if _device is None:
            _device = _opened.enter_context(open_device(_fabric()))
        _users += 1
        return _device


def give_back_device() -> None:
    """The last one closes it."""
    global _device, _users
    with _lock:
        _users -= 1
        if not _users:
            _device = None
            _opened.close()


def fabric_of_bind(bind: str) -> Fabric:
    """This host on what MRC_BIND names: addresses or interfaces of its, with commas between them, a plane each.

    Of an interface this is the first address that others can use, an IPv4 one if it has any. Raises CallerError for
    what is neither, SystemRefused for an address that is not this host's; both name the variable.
    """
    names = [each.strip() for each in bind.split(",")]
    try:
        own = own_addresses()
        return fabric_of_this_host(addresses=[_address(each, own) for each in names])
    except CallerError as error:
        raise CallerError(f"{BIND}={bind}: {error}") from None
    except SystemRefused as error:
        raise SystemRefused(f"{BIND}={bind}: {error}") from None


def _address(name: str, own: list[OwnAddress]) -> str:
    try:
        return str(ipaddress.ip_address(name))
    except ValueError:
        pass
    there = [ipaddress.ip_address(each.address) for each in own if each.interface == name]
    usable = sorted((each for each in there if not each.is_link_local), key=lambda each: each.version)
    if usable:
        return str(usable[0])
    if there:
        raise CallerError(f"{name} has no address that others could reach: give it one, or name another interface")
    interfaces = ", ".join(dict.fromkeys(each.interface for each in own)) or "none"
    raise CallerError(f"{name!r} is no address, and no interface of this host that has one; those are {interfaces}")


def _fabric() -> Fabric:
    """MRC_FABRIC goes first: a lab sets it."""
    if path := os.environ.get("MRC_FABRIC"):
        return Fabric.load(path)
    if bind := os.environ.get(BIND):
        return fabric_of_bind(bind)
    raise CallerError(
        "no fabric: the backend mrc of torch.distributed needs MRC_FABRIC, the file that describes the fabric this "
        "host is on (in a lab `mrc lab exec h0 -- python ...` sets it), or MRC_BIND, this host's addresses or "
        "interfaces with commas between them, one for each plane (MRC_BIND=127.0.0.1 where all ranks are on this host)"
    )


def _after_fork() -> None:
    """The device is the parent's: a child must neither run it nor close it, and may open one of its own."""
    global _device, _users, _lock, _opened
    _opened.pop_all()
    _device, _users, _lock, _opened = None, 0, threading.Lock(), ExitStack()


os.register_at_fork(after_in_child=_after_fork)
