"""Packets, bit by bit."""
