# SPDX-License-Identifier: BSD-2-Clause
"""Node to node: local ports, peer nodes and their ports, endpoint operations (EV probes, port status updates)."""
