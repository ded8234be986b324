# SPDX-License-Identifier: BSD-2-Clause
cimport cython

cdef long long _FOREVER


@cython.final
cdef class AckDelay:
    cdef long long _delay_ns
    cdef readonly long long due_at

    cpdef bint may_wait(self, long long now) noexcept nogil
    cpdef bint has_to_go(self, long long now) noexcept nogil
    cpdef void end(self) noexcept nogil
