cimport cython


@cython.final
cdef class Flag:
    cdef public bint up
