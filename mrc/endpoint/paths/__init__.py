"""Path health: which EVs there are, what state each is in, and which one a packet gets."""

from mrc.endpoint.paths.addressing import Path, srv6_paths
from mrc.endpoint.paths.path_set import PathSet
from mrc.endpoint.paths.states import EvInput, EvState

__all__ = ["EvInput", "EvState", "Path", "PathSet", "srv6_paths"]
