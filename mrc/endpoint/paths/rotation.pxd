cimport cython

cdef int _GOOD, _SKIP, _AFTER_SKIP, _DRAWS
cdef long long _NONE


@cython.final
cdef class Rotation:
    cdef object _on_passed, _order, _random
    cdef readonly object _trace
    cdef long long[::1] _turns
    cdef long long _end, _position, _two_passes
    cdef bint _usable
    cdef readonly dict active, size
    cdef readonly set closed

    @cython.locals(reset=cython.longlong, index=cython.longlong, turn=cython.longlong)
    cpdef Py_ssize_t take(self, unsigned char[::1] state) except? -1
    cdef _pass(self, unsigned char[::1] state, long long index)
    @cython.locals(index=cython.longlong)
    cpdef Py_ssize_t take_other(
        self, unsigned char[::1] state, const long long[::1] ports, full, long long avoid
    ) except? -1
    cdef list _open(self, full)
    @cython.locals(index=cython.longlong)
    cdef Py_ssize_t _other_good(self, unsigned char[::1] state, long long reset) except? -1
    cdef bint _shuffle(self) except -1
    cdef _begin(self, order)
