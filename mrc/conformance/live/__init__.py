"""The suite across a real network: packets of the tester's own making on real ports, and a target told by messages."""
