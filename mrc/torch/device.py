"""The device of this process: opened with its first process group, closed with the last."""

from __future__ import annotations

import os
import threading
from contextlib import ExitStack

from mrc.errors import CallerError
from mrc.fabric.host_view import Fabric
from mrc.net.device import NodeDevice, fabric_of_this_host, open_device

_lock = threading.Lock()
_opened = ExitStack()
_device: NodeDevice | None = None
_users = 0


def take_device() -> NodeDevice:
    """The device on the fabric that MRC_FABRIC names, or on the addresses of MRC_BIND. Give it back.

    Raises CallerError where neither is set.
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


def _fabric() -> Fabric:
    """MRC_FABRIC goes first: a lab sets it."""
    if path := os.environ.get("MRC_FABRIC"):
        return Fabric.load(path)
    if addresses := os.environ.get("MRC_BIND"):
        return fabric_of_this_host(addresses=[each.strip() for each in addresses.split(",")])
    raise CallerError(
        "no fabric: the backend mrc of torch.distributed needs MRC_FABRIC, the file that describes the fabric this "
        "host is on (in a lab `mrc lab exec h0 -- python ...` sets it), or MRC_BIND, this host's addresses with commas "
        "between them, one for each plane"
    )
