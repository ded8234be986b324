"""The C interface: libraries with the ABI of libibverbs and of MRC, over the endpoint of this package (docs/capi.md)."""
