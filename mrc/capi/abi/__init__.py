"""The ABI of the C interface as tables: values, structures, limits. Everything that has to agree with C is held to them."""
