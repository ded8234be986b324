"""The ABI of the C interface as tables: what has to agree with C is held to them."""
