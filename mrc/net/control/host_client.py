# SPDX-License-Identifier: BSD-2-Clause
"""The host's device asked as a control socket is: for `mrc ctl`, whether or not an endpoint runs."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mrc.control.service import Service, Session, to_line
from mrc.net.control.client import FoundEndpoint, result_of
from mrc.net.control.host_device import HostDevice
from mrc.net.this_host import fabric_found
from mrc.untrusted import parse_json


class HostClient:
    """Takes the requests that a ControlClient does, of one device in this process."""

    def __init__(self, device: HostDevice) -> None:
        about = {"pid": os.getpid(), "program": "host", "mode": device.fabric.mode, "device": str(device.store.path)}
        self._session = Session(Service(device, about))
        self._device = device
        self._numbers = itertools.count(1)

    def request(self, op: str, /, **members: Any) -> Any:
        """Ask, and return the answer. Raises ControlError for what is refused."""
        lines: list[bytes] = []
        line = to_line({"id": next(self._numbers), "op": op, **members})
        self._device.call(lambda: self._session.handle(line, lines.append))
        return result_of(parse_json(lines[0], "the answer"))


@contextmanager
def this_host() -> Iterator[tuple[FoundEndpoint, HostClient]]:
    """The device of the host that this process runs on, as `open_device` finds it.

    Raises CallerError, SystemRefused.
    """
    with HostDevice(fabric_found()) as device:
        client = HostClient(device)
        hello = client.request("hello")
        path = Path("host")
        yield FoundEndpoint(path, hello["pid"], "host", hello["name"], tuple(hello["addresses"]), hello), client
