# SPDX-License-Identifier: BSD-2-Clause
cimport cython
from mrc.endpoint.congestion.base cimport CongestionController
from mrc.endpoint.congestion.delay_average cimport DelayAverage, EwmaDelay
from mrc.endpoint.congestion.delivery_rate cimport DeliveryRate
from mrc.endpoint.congestion.window_limit cimport WindowLimit
from mrc.endpoint.congestion.windowed_minimum cimport WindowedMinimum

cdef long long _PENALTY_SHIFT, _PENALTY_UNKNOWN, _LEAST_LINE_RATE, _NONE, _MOST

cdef long long _whole(double value) noexcept nogil
cdef Py_ssize_t _bounded(object value) except? -2


cdef class Nscc(CongestionController):
    cdef object _config, _sizes
    cdef DelayAverage _average
    cdef EwmaDelay _ewma
    cdef WindowLimit _limit
    cdef WindowedMinimum _least_rtt
    cdef DeliveryRate _delivery
    cdef readonly object parameters
    cdef double _alpha, _fi, _fi_scale, _eta, _gamma, _max_md_jump
    cdef long long _target, _qa_threshold, _adjust_bytes, _adjust_period
    cdef bint _quick_adapt_on, _qa_when_limited_only, _penalises_when_limited_only, _penalty_before_sample
    cdef bint _restores_on_request, _clamps_restored
    cdef bint _resource_nack_keeps_cwnd, _trim_feeds_base_rtt
    cdef long long _qa_gate, _fulfils_after
    cdef long long _mtu, _base_rtt, _derived_from, _zero_delay, _samples_to_derive_from, _line_rate, _configured_rate, _configured_base_rtt
    cdef long long _cwnd, _max_cwnd, _inc, _received, _last_adjust, _last_decrease, _fi_count, _saved_cwnd
    cdef bint _sending, _adjusting, _increasing, _penalised, _trigger_qa
    cdef long long _achieved, _ignored, _to_ignore, _qa_end

    cdef long long room(self) noexcept nogil
    cdef void on_sent(self, long long sent_bytes) noexcept nogil
    cdef void on_removed(self, long long removed_bytes) noexcept nogil
    @cython.locals(
        rtt=cython.longlong, delay=cython.longlong, held_by_receiver=cython.bint, congested=cython.bint
    )
    cdef void acknowledged(
        self, long long now, long long acked_bytes, bint marked, long long rtt_ns, long long penalty, bint restore
    ) noexcept nogil
    cdef void lost(self, long long now, long long lost_bytes) noexcept nogil
    cdef void nacked(self, long long now, long long nacked_bytes, bint trimmed) noexcept nogil
    cdef void _increase(self, double by) noexcept nogil
    @cython.locals(delay=cython.longlong)
    cdef long long _queueing_delay(self, long long now, bint marked, long long rtt) noexcept nogil
    cdef long long _delay_without_sample(self) noexcept with gil
    cdef void _average_otherwise(self, long long delay, bint marked) noexcept with gil
    @cython.locals(base_rtt=cython.longlong, feeds=cython.bint)
    cdef void _average_trim(self) noexcept nogil
    cdef void _average_trim_otherwise(self, long long base_rtt, bint feeds) noexcept with gil
    @cython.locals(base_rtt=cython.longlong)
    cdef void _take_rtt(self, long long now, long long rtt) noexcept nogil
    cdef void _move_base_rtt(self, long long base_rtt) noexcept with gil
    cdef bint _derived_from_a_queue(self, long long base_rtt) noexcept nogil
    @cython.locals(rate=cython.longlong)
    cdef void _follow_delivery(self, long long bps) noexcept nogil
    cdef void _move_line_rate(self, long long rate) noexcept with gil
    cdef void _fast_increase(self, long long acked_bytes, long long delay) noexcept nogil
    @cython.locals(average=cython.longlong, factor=cython.double)
    cdef void _multiplicative_decrease(self, long long now) noexcept nogil
    @cython.locals(elapsed=cython.longlong)
    cdef void _fulfil(self, long long now) noexcept nogil
    @cython.locals(handled=cython.bint)
    cdef bint _quick_adapt(self, long long now, bint loss, bint marked, long long delay) noexcept nogil
    @cython.locals(too_long=cython.bint)
    cdef bint _too_little_got_through(self, bint loss, long long delay) noexcept nogil
    @cython.locals(reduced=cython.longlong)
    cdef bint _apply_receiver_penalty(self, long long acked_bytes, long long penalty, bint restore) noexcept nogil
    cdef bint _saves_cwnd(self, bint restore) noexcept nogil
    cdef void _restore_cwnd(self) noexcept nogil
