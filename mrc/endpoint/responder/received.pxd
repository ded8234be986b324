# SPDX-License-Identifier: BSD-2-Clause
cimport cython

cdef Py_ssize_t _BITS


@cython.final
cdef class ReceivedPsns:
    cdef unsigned char[::1] _arrived, _ends
    cdef long long _mask
    cdef public long long epsn
    cdef readonly long long highest, held, completed

    cpdef bint has(self, long long psn) noexcept nogil
    cpdef long long edge_after(self, long long psn) noexcept nogil
    cpdef long long edge_from(self, long long edge) noexcept nogil
    cpdef bint add(self, long long psn, bint ends, long long stop) noexcept nogil
    cpdef void go_on(self, long long stop) noexcept nogil
    cdef void _move_edge(self, long long edge, long long stop) noexcept nogil
    @cython.locals(count=cython.longlong, found=cython.ulonglong)
    cpdef unsigned long long bitmap(self, long long base) noexcept nogil
