# SPDX-License-Identifier: BSD-2-Clause
cimport cython


@cython.final
cdef class Refusal:
    cdef readonly int verdict
    cdef readonly long long psn
    cdef long long _first, _second

    cpdef int of(self, int verdict, long long psn, long long first, long long second) noexcept nogil
