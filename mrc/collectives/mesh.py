"""How the ranks of a group come together: each leaves one document in the store and reads all others'."""

from __future__ import annotations

import json
from typing import Any

from mrc.collectives.config import GroupConfig
from mrc.collectives.engine import Engine
from mrc.errors import CallerError, PeerError
from mrc.verbs import ConnectionParameters, Context, RemoteMemory, connect, describe

_VERSION = 1


class Mesh:
    """One rank's connections. `document` first, then `connect` with those of all others."""

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
        """How this rank is reached, for all others at once, by `control` too."""
        engine = self._engine
        links = {}
        for rank, side in self._sides.items():
            told = side.to_json()
            # The same for all of them.
            del told["node"]
            links[str(rank)] = told | {"inbox": engine.links[rank].inbox.to_json()}
        told = {
            "version": _VERSION,
            "rank": engine.rank,
            "size": engine.size,
            "config": self._config.shared,
            "node": self._context.address,
            "scratch": engine.scratch_mr.remote.to_json(),
            "links": links,
            "control": control,
        }
        return json.dumps(told).encode()

    def connect(self, rank: int, document: bytes) -> Any:
        """Connect the QP to a rank, and return its `control`. Raises PeerError for a document that does not fit, and
        for a rank that cannot be reached."""
        told = self._read(rank, document)
        config, link = self._config, self._engine.links[rank]
        ours = self._sides[rank]
        there = told["links"].get(str(self._engine.rank))
        if not isinstance(there, dict):
            raise PeerError(f"rank {rank} knows no rank {self._engine.rank}")
        theirs = ConnectionParameters.from_json(there | {"node": told.get("node")})
        connect(
            link.qp,
            ours,
            theirs,
            timeout=config.tuning.timeout,
            linear_retries=config.tuning.linear_retries,
            exponential_retries=config.tuning.exponential_retries,
        )
        link.open(RemoteMemory.from_json(there.get("inbox")), RemoteMemory.from_json(told.get("scratch")))
        return told.get("control")

    def _read(self, rank: int, document: bytes) -> dict[str, Any]:
        try:
            told = json.loads(document)
        except ValueError:
            told = None
        if not isinstance(told, dict) or not isinstance(told.get("links"), dict):
            raise PeerError(f"rank {rank} left no description of itself in the store")
        if told.get("version") != _VERSION:
            raise PeerError(f"rank {rank} runs another release of mrc: use the same one at all ranks")
        if (told.get("rank"), told.get("size")) != (rank, self._engine.size):
            raise PeerError(
                f"the store says that rank {rank} is rank {told.get('rank')} of {told.get('size')}, not of "
                f"{self._engine.size}: use a new store for each job, and the same size at all ranks"
            )
        ours, theirs = self._config.shared, told.get("config")
        if ours != theirs:
            differ = [name for name in ours if not isinstance(theirs, dict) or theirs.get(name) != ours[name]]
            raise CallerError(
                f"rank {rank} has other settings than this rank: {', '.join(differ)}; "
                "give all ranks the same GroupConfig"
            )
        return told
