# SPDX-License-Identifier: BSD-2-Clause
cimport cython

cdef unsigned long long _MASK, _GAMMA, _FIRST, _SECOND, _LOW, _RANGE


@cython.final
cdef class Draws:
    cdef unsigned long long _state

    @cython.locals(mixed=cython.ulonglong)
    cpdef unsigned long long next_u64(self) noexcept nogil
    @cython.locals(product=cython.ulonglong, rest=cython.ulonglong)
    cpdef long long below(self, unsigned long long count) noexcept nogil
    @cython.locals(last=Py_ssize_t, other=Py_ssize_t, kept=cython.longlong)
    cpdef void shuffle(self, long long[::1] numbers, Py_ssize_t start, Py_ssize_t count) noexcept nogil
