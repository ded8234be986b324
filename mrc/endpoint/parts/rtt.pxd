# SPDX-License-Identifier: BSD-2-Clause
cimport cython

cdef long long _MOST_TIMEOUTS


@cython.final
cdef class RttEstimator:
    cdef readonly long long srtt, rttvar, minimum
    cdef long long _next_step_at

    cpdef void sample(self, long long rtt_ns, long long now) noexcept nogil
    cpdef void late(self, long long took_ns, long long now) noexcept nogil
    cpdef long long path_timer(self) noexcept nogil
    @cython.locals(timer=cython.longlong)
    cpdef long long coarse_timer(self, long long local_ack_timeout_ns) noexcept nogil
