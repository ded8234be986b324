# SPDX-License-Identifier: BSD-2-Clause
"""What an endpoint leaves for its owner: events of the trace's vocabulary, each with a sentence for people."""

from __future__ import annotations

from typing import Any

from mrc.endpoint.qp_states import QpState
from mrc.records import record
from mrc.trace.vocabulary import LOCAL, PEER, PORT, QP_STATE, EventType


@record(frozen=True, slots=True)
class Event:
    """Something the owner should know: `kind` is PORT, or QP_STATE where a QP went to ERROR.

    `kind`, `at_ns`, `qpn` and `values` are those of a trace; `detail` is a sentence. `event["port"]` is a field.
    """

    kind: EventType
    at_ns: int
    qpn: int | None
    values: tuple[object, ...]
    detail: str

    def __getitem__(self, name: str) -> Any:
        """A field by the name it has in the vocabulary. Raises KeyError."""
        return self.kind.named(self.values)[name]


def local_port(at_ns: int, port: int, up: bool, why: str = "") -> Event:
    """The port with this number, from 0 on, came into use or went out of it."""
    return Event(PORT, at_ns, None, (LOCAL, port, up), f"port {port} is {'up' if up else 'down'}{why}")


def peer_port(at_ns: int, plane: int, up: bool) -> Event:
    """A peer reported that its port on this plane went down or came back."""
    detail = f"the peer's port on plane {plane} is {'up' if up else 'down'}"
    return Event(PORT, at_ns, None, (PEER, plane, up), detail)


def qp_error(at_ns: int, qpn: int, old: QpState, why: str) -> Event:
    """A QP went from the state `old` to ERROR."""
    return Event(QP_STATE, at_ns, qpn, (old.name, QpState.ERROR.name, why), why)
