"""Collective operations measured as nccl-tests does: what is called, by which ranks, and what came out."""
