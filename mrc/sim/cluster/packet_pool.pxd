# SPDX-License-Identifier: BSD-2-Clause
cimport cython

cdef Py_ssize_t _NEXT, _WIDTH
cdef int _NONE


@cython.final
cdef class PacketPool:
    cdef readonly long long in_use, room
    cdef readonly unsigned char[::1] headers
    cdef readonly int[::1] cells
    cdef int _first_free, _fresh

    @cython.locals(packet=cython.int)
    cpdef int take(self) noexcept nogil
    cpdef void give(self, int packet) noexcept nogil
    cdef void _grow(self) noexcept with gil
