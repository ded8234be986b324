# SPDX-License-Identifier: BSD-2-Clause
cimport cython

cdef Py_ssize_t _NOWHERE


@cython.final
cdef class PortSet:
    cdef readonly Py_ssize_t count
    cdef Py_ssize_t _room
    cdef long long[::1] _numbers

    cpdef bint holds(self, long long port) noexcept nogil
    @cython.locals(place=Py_ssize_t)
    cdef Py_ssize_t _place(self, long long port) noexcept nogil
