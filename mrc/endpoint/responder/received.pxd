cimport cython

cdef Py_ssize_t _BITS


@cython.final
cdef class ReceivedPsns:
    cdef unsigned char[::1] _arrived, _ends
    cdef long long _mask
    cdef public long long epsn
    cdef readonly long long highest, held, completed

    cpdef bint has(self, long long psn) noexcept nogil
    @cython.locals(edge=cython.longlong)
    cpdef long long edge_after(self, long long psn) noexcept nogil
    @cython.locals(edge=cython.longlong)
    cpdef bint add(self, long long psn, bint ends) noexcept nogil
    @cython.locals(count=cython.longlong, found=cython.ulonglong)
    cpdef unsigned long long bitmap(self, long long base) noexcept nogil
