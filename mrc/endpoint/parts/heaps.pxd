# SPDX-License-Identifier: BSD-2-Clause
cimport cython
from mrc.wire cimport octets

cdef long long _FOREVER


@cython.final
cdef class Heap:
    cdef readonly Py_ssize_t count
    cdef Py_ssize_t _room
    cdef long long *_keys
    cdef long long *_values

    cdef void _grow(self) noexcept nogil
    @cython.locals(place=Py_ssize_t)
    cpdef void push(self, long long key, long long value) noexcept nogil
    cpdef long long first(self) noexcept nogil
    cpdef long long value(self) noexcept nogil
    @cython.locals(
        first=cython.longlong, last=Py_ssize_t, key=cython.longlong, value=cython.longlong, place=Py_ssize_t,
        below=Py_ssize_t
    )
    cpdef long long pop(self) noexcept nogil
    cpdef void clear(self) noexcept nogil
    cdef bint _comes_before(self, long long key, long long value, Py_ssize_t place) noexcept nogil
    cdef void _move(self, Py_ssize_t source, Py_ssize_t place) noexcept nogil
