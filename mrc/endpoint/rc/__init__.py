"""Plain RoCEv2 RC, of which MRC is a superset: RDMA writes on one path, in order, go-back-N.

Written after IBTA volume 1 (chapter 9) and its RoCEv2 annex, and held to Linux Soft-RoCE. Like the endpoint
around it, it does no I/O and owns no clock.
"""

from mrc.endpoint.rc.config import RcConfig, RcEndpointConfig
from mrc.endpoint.rc.counters import RcCounters
from mrc.endpoint.rc.endpoint import RcEndpoint
from mrc.endpoint.rc.qp import RcPeer, RcQueuePair

__all__ = ["RcConfig", "RcCounters", "RcEndpoint", "RcEndpointConfig", "RcPeer", "RcQueuePair"]
