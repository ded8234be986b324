# SPDX-License-Identifier: BSD-2-Clause
cimport cython
from mrc.endpoint.parts.rtt cimport RttEstimator
from mrc.endpoint.requestor.sent cimport SentPackets

cdef long long _NO_DEADLINE, _FOREVER, _NONE, _LONGEST


@cython.final
cdef class RetryBudget:
    cdef SentPackets _sent
    cdef RttEstimator _rtt
    cdef long long _linear, _exponential, _timeout_ns, _most_timeouts
    cdef bint _per_qp
    cdef readonly long long since, waited, waits_at_most
    cdef long long _drawn, _doublings, _psn, _timeouts, _deadline

    cpdef void watch(self, long long oldest_psn, long long now) noexcept nogil
    cpdef void watch_unsent(self, long long psn, long long now) noexcept nogil
    cpdef long long next_deadline(self) noexcept nogil
    cpdef void rest(self) noexcept nogil
    cpdef bint expired(self, long long now) noexcept nogil
    @cython.locals(doubled=cython.longlong)
    cdef long long _interval(self) noexcept nogil
    cpdef long long spent(self, long long psn) noexcept nogil
    cpdef bint draw(self, long long psn) noexcept nogil
    cpdef bint draw_for_timeout(self, long long psn) noexcept nogil
    cpdef bint wait_on(self, long long now, bint heard) noexcept nogil
    @cython.locals(counted=cython.longlong)
    cpdef void wait_again(self, long long now) noexcept nogil
