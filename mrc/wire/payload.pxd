cimport cython


@cython.final
cdef class Payload:
    cdef readonly object view
    cdef readonly unsigned long long address
    cdef const unsigned char[::1] data
