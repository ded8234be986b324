"""Connect all ranks: each stores one document and reads those of all others."""

from __future__ import annotations

import json
from typing import Any

from mrc.collectives.config import GroupConfig
from mrc.collectives.engine import Engine
from mrc.errors import CallerError, PeerError
from mrc.verbs import ConnectionParameters, Context, RemoteMemory, connect, describe

_VERSION = 1


class Mesh:
    """The connections of one rank: first `document`, then `connect` with each other rank's document."""

    def __init__(self, context: Context, engine: Engine, config: GroupConfig) -> None:
        self._context = context
        self._engine = engine
        self._config = config
        device = context.query_device()
        ports = [context.query_port(number) for number in range(1, device.phys_port_cnt + 1)]
        path_mtu = min(port.max_mtu for port in ports)
        self._sides = {
            rank: describe(link.qp, path_mtu=path_mtu, mpr_dest=config.tuning.mpr_dest, max_wimm_dest=link.receives)
            for rank, link in engine.links.items()
        }

    def document(self, control: Any) -> bytes:
        """Return the document for all other ranks. `control`: the address of this rank's control."""
        engine = self._engine
        links = {}
        for rank, side in self._sides.items():
            described = side.to_json()
            # The same for all links.
            del described["node"]
            links[str(rank)] = described | {"inbox": engine.links[rank].inbox.to_json()}
        described = {
            "version": _VERSION,
            "rank": engine.rank,
            "size": engine.size,
            "config": self._config.shared,
            "node": self._context.address,
            "scratch": engine.scratch_mr.remote.to_json(),
            "links": links,
            "control": control,
        }
        return json.dumps(described).encode()

    def connect(self, rank: int, document: bytes) -> Any:
        """Connect the QP to a rank and return the rank's `control`. Raises PeerError for a malformed document and an
        unreachable rank, CallerError for other settings."""
        described = self._read(rank, document)
        config, link = self._config, self._engine.links[rank]
        ours = self._sides[rank]
        there = described["links"].get(str(self._engine.rank))
        if not isinstance(there, dict):
            raise PeerError(f"rank {rank} knows no rank {self._engine.rank}")
        theirs = ConnectionParameters.from_json(there | {"node": described.get("node")})
        connect(
            link.qp,
            ours,
            theirs,
            timeout=config.tuning.timeout,
            linear_retries=config.tuning.linear_retries,
            exponential_retries=config.tuning.exponential_retries,
        )
        link.open(RemoteMemory.from_json(there.get("inbox")), RemoteMemory.from_json(described.get("scratch")))
        return described.get("control")

    def _read(self, rank: int, document: bytes) -> dict[str, Any]:
        try:
            described = json.loads(document)
        except ValueError:
            described = None
        if not isinstance(described, dict) or not isinstance(described.get("links"), dict):
            raise PeerError(f"rank {rank} left no description of itself in the store")
        if described.get("version") != _VERSION:
            raise PeerError(f"rank {rank} runs another release of mrc: use the same one at all ranks")
        if (described.get("rank"), described.get("size")) != (rank, self._engine.size):
            raise PeerError(
                f"the store says that rank {rank} is rank {described.get('rank')} of {described.get('size')}, not of "
                f"{self._engine.size}: use a new store for each job, and the same size at all ranks"
            )
        ours, theirs = self._config.shared, described.get("config")
        if ours != theirs:
            differ = [name for name in ours if not isinstance(theirs, dict) or theirs.get(name) != ours[name]]
            raise CallerError(
                f"rank {rank} has other settings than this rank: {', '.join(differ)}; "
                "give all ranks the same GroupConfig"
            )
        return described
