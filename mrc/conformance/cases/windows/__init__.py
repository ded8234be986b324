"""Dynamic MPR."""
