# SPDX-License-Identifier: BSD-2-Clause
cimport cython
from mrc.endpoint.congestion.windowed_minimum cimport WindowedMinimum

cdef long long _BITS, _LONGEST_INTERVALS, _NEVER

@cython.locals(whole=cython.longlong, part=cython.longlong, rest=cython.longlong, bit=cython.longlong)
cdef long long _scaled(long long value, long long by, long long over) noexcept nogil


@cython.final
cdef class DeliveryRate:
    cdef readonly long long bps
    cdef long long _interval, _ticks_per_second, _since, _acked, _before, _acked_before
    cdef bint _paused
    cdef WindowedMinimum _lowest

    @cython.locals(rate=cython.longlong, told=cython.bint)
    cpdef bint on_ack(self, long long now, long long acked_bytes) noexcept nogil
    cdef long long _rate(self, long long acked, long long elapsed) noexcept nogil
