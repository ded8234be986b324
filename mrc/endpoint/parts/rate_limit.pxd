# SPDX-License-Identifier: BSD-2-Clause
cimport cython
from mrc.endpoint.counters cimport Counters

cpdef long long granted(
    long long paid_until, long long burst_ns, long long interval_ns, long long wanted, long long now
) noexcept nogil


@cython.final
cdef class RateLimit:
    cdef long long _burst_ns, _interval_ns, _paid_until
    cdef readonly long long refused

    @cython.locals(paid_until=cython.longlong, passed=cython.longlong)
    cpdef long long take(self, long long wanted, long long now) noexcept nogil
    @cython.locals(passed=cython.longlong)
    cpdef long long take_counted(self, long long wanted, long long now, Counters counters) noexcept nogil
