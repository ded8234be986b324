cimport cython
from mrc.endpoint.memory cimport MemoryRegion


@cython.final
cdef class WriteRequest:
    cdef readonly MemoryRegion source
    cdef readonly object wr_id, offset, length, remote_va, rkey, immediate
