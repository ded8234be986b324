"""MRC, Multipath Reliable Connection: a user-space endpoint, its lab and its tools."""

__version__ = "0.1.0"
