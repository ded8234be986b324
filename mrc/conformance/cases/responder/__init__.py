"""The target receives: what it writes, and what it answers."""
