# SPDX-License-Identifier: BSD-2-Clause
cimport cython

cdef long long _UNKNOWN


@cython.final
cdef class WindowLimit:
    cdef long long _full_before, _turn
    cdef readonly bint turn_limited, interval_limited

    cpdef void on_sending(self, long long inflight) noexcept nogil
    cpdef void on_removing(self, long long inflight, long long cwnd) noexcept nogil
    cpdef void on_answer(self, long long now, long long inflight, long long cwnd) noexcept nogil
    cpdef void on_timer_removed(self) noexcept nogil
    cpdef void begin_interval(self) noexcept nogil
