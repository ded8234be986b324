# SPDX-License-Identifier: BSD-2-Clause
"""Fabrics of network namespaces: hosts and switches are namespaces, links are veth pairs, the kernel switches uSIDs."""

from mrc.lab.lab import Lab, lab_names

__all__ = ["Lab", "lab_names"]
