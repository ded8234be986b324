"""How often a requestor tries, and when it gives up."""
