"""Writes with immediate."""
