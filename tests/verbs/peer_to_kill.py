# SPDX-License-Identifier: BSD-2-Clause
"""A peer with many QPs, as a program: peer_to_kill.py COUNT SIZE. It is there until it is killed.

It writes a line of JSON with its QPs and with the memory that may be written to, and reads one with the other end's.
"""

from __future__ import annotations

import json
import os
import signal
import sys

from mrc.fabric import Fabric
from mrc.net.device import open_device
from mrc.verbs import QP, ConnectionParameters, Context, connect, describe

COUNT, SIZE = int(sys.argv[1]), int(sys.argv[2])

with (
    open_device(Fabric.load(os.environ["MRC_FABRIC"])) as device,
    Context(device) as context,
):
    pd, cq = context.pd(), context.cq(16)
    target = pd.mr(bytearray(SIZE)).remote
    qps = [QP(pd, send_cq=cq, recv_cq=cq) for _ in range(COUNT)]
    ours = [describe(qp) for qp in qps]
    told = {"qps": [each.to_json() for each in ours], "addr": target.addr, "rkey": target.rkey}
    print(json.dumps(told), flush=True)
    for qp, mine, theirs in zip(qps, ours, json.loads(sys.stdin.readline()), strict=True):
        connect(qp, mine, ConnectionParameters.from_json(theirs))
    print("connected", flush=True)
    signal.pause()
