# SPDX-License-Identifier: BSD-2-Clause
"""An experiment that uses every key there is, as text."""

EVERY_KEY = """\
name: every-key
description: Everything there is to say.
topology:
  hosts: 64
  planes: 2
  hosts_per_leaf: 8
  spines: 4
  tiers: 3
  leaves_per_pod: 4
  cores_per_spine: 2
links:
  hosts:
    rate: 100gbit
    delay: 500ns
    queue: 1MB
    trim_at: 200KB
    loss: 0%
  fabric:
    rate: 100gbit
    delay: 1us
    queue: 1MB
    ecn_low: 20KB
    ecn_high: 80KB
    trim_at: 200KB
    trim_to: 256
workloads:
  - kind: permutation
    name: shifted
    bytes: 1MB
    start: 5us
    ranks: 8
    placement: spread
    shift: 4
  - kind: incast
    bytes: 100KB
    senders: 7
    placement: random
  - kind: all-to-all
    bytes: 64KiB
    ranks: 6
    in_flight: 2
  - kind: all-reduce
    bytes: 1MB
    hosts: [60, 61, 62, 63]
    algorithm: ring
    chunk: 64KiB
    repeat: 2
  - kind: python
    call: flows.py:make
    arguments:
      size: 1000
    ranks: 4
  - kind: matrix
    file: pairs.cm
    start: 1us
placement: packed
failures:
  - kind: cut
    at: 10us
    target: p0l0-p0s1, p1s2
    for: 20us
  - kind: loss
    at: 0
    target: 1% host-links
    loss: 0.5%
    direction: up
    for: 50us
  - kind: flap
    at: 5us
    target: plane:1
    down: 5us
    every: 20us
    times: 3
  - kind: random-cuts
    of: fabric-links
    every: 100us
    at: 1us
    until: 1ms
    for: 30us
policies:
  evs: 16
  ev_choice: spread
  controller: uet-1.0-nscc
  controller_settings:
    line_rate_bps: 100000000000
  qp:
    path_mtu: 4096
  loss_detection:
    reorder_guard_packets: 8
  paths:
    active_count: 8
  responder:
    max_held_packets: 1000
seed: 7
end: 2ms
sample: 10us
sweep:
  grid:
    policies.evs: [8, 16]
    workloads[1].senders: [3, 7]
  cases:
    - case: whole
      links.fabric.loss: 0%
    - case: lossy
      links.fabric.loss: 1%
  seeds: 2
"""
FILES = {
    "flows.py": """\
import numpy as np
from mrc.sim.experiment import JobFlows

def make(job, size):
    ranks = np.arange(1, job.ranks)
    return JobFlows(ranks, ranks - 1, np.full(len(ranks), size))
""",
    "pairs.cm": """\
Nodes 4
Connections 3
Triggers 1
0->1 id 1 start 0 size 2000 send_done_trigger 1
1->2 id 2 trigger 1 size 3000
2->3 id 3 start 5000000 size 4000
trigger id 1 oneshot
""",
}
