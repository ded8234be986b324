# SPDX-License-Identifier: BSD-2-Clause
"""What the two ends of a link tell each other before the first write, over the control.

Links are made when the first operation needs them: groups that never communicate between two ranks cost nothing there.
Each end says its side once, when it needs the link or when it hears the other's. One that has heard the other's side
has connected, and says so: from then on it may be sent to.
"""

from __future__ import annotations

from typing import Any

from mrc.collectives.config import GroupConfig
from mrc.errors import PeerError
from mrc.verbs import ConnectionParameters, Context, RemoteMemory, connect, describe
from mrc.verbs.qp import QP

Side = dict[str, Any]


class Linking:
    """One end of one link. `inbox` and `scratch` are the memory that the other end writes to."""

    def __init__(
        self,
        context: Context,
        qp: QP,
        config: GroupConfig,
        receives: int,
        inbox: RemoteMemory,
        scratch: RemoteMemory,
    ) -> None:
        device = context.query_device()
        ports = [context.query_port(number) for number in range(1, device.phys_port_cnt + 1)]
        self._qp, self._config = qp, config
        self._ours = describe(
            qp,
            path_mtu=min(port.max_mtu for port in ports),
            mpr_dest=config.tuning.mpr_dest,
            max_wimm_dest=receives,
        )
        self._memory = {"inbox": inbox.to_json(), "scratch": scratch.to_json()}

    def side(self) -> Side:
        """What to tell the other end, as plain JSON."""
        return {**self._ours.to_json(), **self._memory}

    def connect(self, theirs: Side) -> tuple[RemoteMemory, RemoteMemory]:
        """Connect to the side that the other end told; return its inbox and scratch memory.

        Raises PeerError for a malformed side and for a node that cannot be reached.
        """
        if not isinstance(theirs, dict):
            raise PeerError("the other end of a link told nothing of itself")
        inbox, scratch = RemoteMemory.from_json(theirs.get("inbox")), RemoteMemory.from_json(theirs.get("scratch"))
        connect(self._qp, self._ours, ConnectionParameters.from_json(theirs))
        return inbox, scratch
