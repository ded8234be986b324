cimport cython
from mrc.wire.payload cimport Payload


@cython.final
cdef class MemoryRegion:
    cdef readonly object array, view, address, rkey
    cdef readonly long long va
    cdef readonly Payload payload
    cdef unsigned char[::1] octets
    cdef public long long length
    cdef readonly bint remote_write


@cython.final
cdef class MemoryTable:
    cdef object _draw_rkey
    cdef dict _regions

    cpdef MemoryRegion find(self, object rkey)
