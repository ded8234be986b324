"""The device of this process: opened with its first process group, closed with the last."""

from __future__ import annotations

import os
import threading
from contextlib import ExitStack

from mrc.errors import CallerError
from mrc.fabric.host_view import Fabric
from mrc.net.device import NodeDevice, open_device

_lock = threading.Lock()
_opened = ExitStack()
_device: NodeDevice | None = None
_users = 0


def take_device() -> NodeDevice:
    """The device on the fabric that MRC_FABRIC names. Give it back. Raises CallerError where no fabric is named."""
    global _device, _users
    with _lock:
        if _device is None:
            path = os.environ.get("MRC_FABRIC")
            if not path:
                raise CallerError(
                    "no fabric: the backend mrc of torch.distributed needs MRC_FABRIC, the file that describes the "
                    "fabric this host is on. In a lab `mrc lab exec h0 -- python ...` sets it"
                )
            _device = _opened.enter_context(open_device(Fabric.load(path)))
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
