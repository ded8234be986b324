# SPDX-License-Identifier: BSD-2-Clause
"""Collective operations measured as nccl-tests does: what is called, by which ranks, and what came out."""
