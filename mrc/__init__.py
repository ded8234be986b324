"""MRC, Multipath Reliable Connection: a user-space endpoint, its lab and its tools."""

from mrc.core import choose

__version__ = "0.1.0"
# How the datapath runs in this process: "compiled", or "python" and why.
CORE = choose()
