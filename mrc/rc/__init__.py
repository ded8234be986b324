# SPDX-License-Identifier: BSD-2-Clause
"""Plain RoCEv2 RC, of which MRC is a superset: RDMA writes on one path, in order, go-back-N.

Written after IBTA volume 1 (chapter 9) and its RoCEv2 annex, and held to Linux Soft-RoCE. Like MRC's endpoint, whose
parts it uses, it does no I/O and owns no clock. `node` runs it on sockets; `conformance` has the cases for it.
"""

from mrc.rc.config import RcConfig, RcEndpointConfig
from mrc.rc.counters import RcCounters
from mrc.rc.endpoint import RcEndpoint
from mrc.rc.qp import RcPeer, RcQueuePair

__all__ = ["RcConfig", "RcCounters", "RcEndpoint", "RcEndpointConfig", "RcPeer", "RcQueuePair"]
