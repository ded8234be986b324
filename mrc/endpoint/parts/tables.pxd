# SPDX-License-Identifier: BSD-2-Clause
cimport cython
from mrc.wire cimport octets

cdef long long _NONE
cdef unsigned long long _SALT, _HASH_MASK


@cython.final
cdef class Table:
    cdef Py_ssize_t _width
    cdef int _shift
    cdef readonly Py_ssize_t count, size
    cdef long long *cells

    @cython.locals(at=Py_ssize_t)
    cpdef Py_ssize_t find(self, long long key) noexcept nogil
    @cython.locals(at=Py_ssize_t)
    cpdef Py_ssize_t put(self, long long key) noexcept nogil
    @cython.locals(gap=Py_ssize_t, each=Py_ssize_t, column=Py_ssize_t)
    cpdef void remove(self, Py_ssize_t at) noexcept nogil
    @cython.locals(at=Py_ssize_t)
    cpdef void clear(self) noexcept nogil
    @cython.locals(old=cython.p_longlong, size=Py_ssize_t, at=Py_ssize_t, place=Py_ssize_t, column=Py_ssize_t)
    cdef void _grow(self) noexcept nogil
    cdef Py_ssize_t _home(self, unsigned long long key) noexcept nogil
    cdef Py_ssize_t _next(self, Py_ssize_t at) noexcept nogil
    cdef Py_ssize_t _distance(self, Py_ssize_t start, Py_ssize_t at) noexcept nogil
