cimport cython
from mrc.endpoint.counters cimport Counters


@cython.final
cdef class RateLimit:
    cdef long long _burst_ns, _interval_ns, _paid_until
    cdef readonly long long refused

    @cython.locals(paid_until=cython.longlong, granted=cython.longlong)
    cpdef long long take(self, long long wanted, long long now) noexcept nogil
    @cython.locals(granted=cython.longlong)
    cpdef long long take_counted(self, long long wanted, long long now, Counters counters) noexcept nogil
