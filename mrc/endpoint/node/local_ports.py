# SPDX-License-Identifier: BSD-2-Clause
"""Which local ports are in use: those with a link, not set down by the controller, with an MTU for the QPs' packets."""

from __future__ import annotations

from collections.abc import Collection

from mrc.endpoint.config import PATH_MTUS
from mrc.endpoint.paths.port_set import PortSet
from mrc.records import record


@record(frozen=True, slots=True)
class PortLimit:
    """A port carries up to `payload_bytes` of payload a packet. `says` is why: "interface p0 has MTU 1500"."""

    payload_bytes: int
    says: str


class LocalPorts:
    """The state of an endpoint's ports.

    `down` are those out of use, `full` those without room for a packet just now; QPs see both. `closed` are those that
    are `down`, for code without the interpreter. `disabled` were set down by the controller, `without_link` have lost
    their link.
    """

    __slots__ = ("_limits", "closed", "disabled", "down", "full", "without_link")

    def __init__(self) -> None:
        self.down: set[int] = set()
        self.closed = PortSet()
        self.full = PortSet()
        self.disabled: set[int] = set()
        self.without_link: set[int] = set()
        self._limits: dict[int, PortLimit] = {}

    @property
    def limited(self) -> bool:
        """Whether any port has a limit."""
        return bool(self._limits)

    def limit(self, port: int, limit: PortLimit | None) -> None:
        """Set or lift the limit of a port."""
        if limit is None:
            self._limits.pop(port, None)
        else:
            self._limits[port] = limit

    def review(self, path_mtu: int) -> dict[int, bool]:
        """Bring `down` up to date for QPs with up to this path MTU: which ports left use (False) or are back (True)."""
        down = self.disabled | self.without_link | {port for port in self._limits if self._too_narrow(port, path_mtu)}
        changed = {port: port not in down for port in sorted(down ^ self.down)}
        # The set itself stays: others hold it.
        self.down.symmetric_difference_update(changed)
        for port, up in changed.items():
            (self.closed.discard if up else self.closed.add)(port)
        return changed

    def _too_narrow(self, port: int, path_mtu: int) -> bool:
        return port in self._limits and self._limits[port].payload_bytes < path_mtu

    def why_down(self, port: int) -> str:
        """A clause for people where a port is down for its limit alone, else ""."""
        other = port in self.disabled or port in self.without_link or port not in self.down
        return "" if other else f": {self._limits[port].says}"

    def refuse_all(self, ports: Collection[int], path_mtu: int) -> str:
        """What to say when none of `ports` is in use, at least one of them because of its limit; else ""."""
        narrow = [port for port in sorted(ports) if self._too_narrow(port, path_mtu)]
        if not narrow or not self.down.union(narrow).issuperset(ports):
            return ""
        limits = [self._limits[port] for port in narrow]
        return (
            f"no port takes packets with a path MTU of {path_mtu}: {', '.join(limit.says for limit in limits)}: "
            f"{advice(max(limit.payload_bytes for limit in limits))}"
        )


def advice(payload_bytes: int) -> str:
    """What to do where packets have room for so much payload only."""
    fitting = [mtu for mtu in PATH_MTUS if mtu <= payload_bytes]
    return f"raise the interface's MTU, or use --mtu {max(fitting)}" if fitting else "raise the interface's MTU"
