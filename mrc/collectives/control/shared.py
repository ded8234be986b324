# SPDX-License-Identifier: BSD-2-Clause
"""One control for all groups on a device."""

from __future__ import annotations

import os
import threading
from weakref import WeakKeyDictionary

from mrc.collectives.control.tcp import TcpControl
from mrc.verbs.device import Device


class _Shared:
    """A control and how many groups use it."""

    def __init__(self, control: TcpControl) -> None:
        self.control = control
        self.users = 0
        self.pid = os.getpid()


_lock = threading.Lock()
_of_devices: WeakKeyDictionary[Device, _Shared] = WeakKeyDictionary()


def take_control(device: Device) -> TcpControl:
    """The control of a device. Give it back. Raises SystemRefused where it cannot be made."""
    with _lock:
        found = _of_devices.get(device)
        if found is None or found.pid != os.getpid():
            found = _of_devices[device] = _Shared(TcpControl([port.address for port in device.ports()]))
        found.users += 1
        return found.control


def give_back_control(device: Device) -> None:
    """The last group closes it: this returns when everything said is delivered, or after a short time limit."""
    with _lock:
        found = _of_devices[device]
        found.users -= 1
        if found.users:
            return
        del _of_devices[device]
    found.control.close()
