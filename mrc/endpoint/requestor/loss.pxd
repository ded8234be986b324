# SPDX-License-Identifier: BSD-2-Clause
cimport cython
from mrc.endpoint.parts.rtt cimport RttEstimator
from mrc.endpoint.requestor.sent cimport SentPackets

cdef long long _NEVER, _NONE, _FOREVER, _MAX_DOUBLINGS, _MOST, _STOPPED_NS, _LONG_AGO


@cython.final
cdef class LossDetector:
    cdef SentPackets _sent
    cdef RttEstimator _rtt
    cdef public long long latest_acked
    cdef long long _guard_packets, _guard_divisor, _guard_max_rtts, _guard_scale, _guard_settles_at
    cdef long long _least_timer, _timer_at_first, _local_ack_timeout, _timer_at, _walk
    cdef long long _probed_stop, _probed_at, _heard_at, _resumed_at, _stopped_until

    cpdef void on_heard(self, long long now) noexcept nogil
    cdef void _notice_stop(self, long long now) noexcept nogil
    cpdef bint tells_a_round_trip(self, long long sent_at) noexcept nogil
    cpdef bint heard_since(self, long long at) noexcept nogil
    cdef bint _silent(self, long long now) noexcept nogil
    @cython.locals(most=cython.longlong)
    cpdef long long guard(self) noexcept nogil
    cpdef long long path_timer(self) noexcept nogil
    cdef long long _longest_timer(self) noexcept nogil
    @cython.locals(scale=cython.longlong, most=cython.longlong)
    cpdef void on_spurious(self, long long now, long long took_ns) noexcept nogil
    @cython.locals(last=cython.longlong)
    cpdef bint holes(self) noexcept nogil
    cpdef long long next_hole(self) noexcept nogil
    cdef long long _last_counted(self) noexcept nogil
    @cython.locals(guard=cython.longlong, at=cython.longlong, counted=cython.bint)
    cdef bint _old_enough(self, long long number) noexcept nogil
    cpdef void on_probe_answered(self, long long stop, long long asked_at) noexcept nogil
    @cython.locals(deadline=cython.longlong)
    cpdef void arm(self, long long now, bint alone) noexcept nogil
    cpdef long long next_deadline(self) noexcept nogil
    cpdef void look_for_timeouts(self, long long now) noexcept nogil
    @cython.locals(number=cython.longlong, deadline=cython.longlong)
    cpdef long long next_timed_out(self, long long now) noexcept nogil
    cpdef void look_at_all(self) noexcept nogil
    @cython.locals(number=cython.longlong, deadline=cython.longlong)
    cpdef long long next_unanswered(self, long long now) noexcept nogil
    cdef long long _since(self, long long number) noexcept nogil
    @cython.locals(repeats=cython.longlong)
    cdef long long _timer_of(self, long long number) noexcept nogil
    cdef long long _times_sent(self, long long psn) noexcept nogil
