"""Which EVs packets go by, and what changes that (behaviour.md, Paths)."""
