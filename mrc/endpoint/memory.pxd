cimport cython
from mrc.endpoint.parts.tables cimport Table


@cython.final
cdef class MemoryRegion:
    cdef readonly object view, address, rkey
    cdef readonly long long va
    cdef public long long length
    cdef readonly bint remote_write


@cython.final
cdef class MemoryTable:
    cdef object _draw_rkey
    cdef dict _regions
    cdef readonly Table open

    cpdef Py_ssize_t row(self, long long rkey) noexcept nogil
