"""The local socket on which a running endpoint can be seen and steered, and the way to it (docs/control.md)."""

from mrc.net.control.client import ControlClient, endpoints
from mrc.net.control.server import ControlServer

__all__ = ["ControlClient", "ControlServer", "endpoints"]
