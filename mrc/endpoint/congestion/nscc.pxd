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
    cdef long long _qa_gate, _fulfils_after
    cdef long long _mtu, _base_rtt, _zero_delay, _samples_to_derive_from, _line_rate
    cdef long long _cwnd, _max_cwnd, _inc, _received, _last_adjust, _last_decrease, _fi_count, _saved_cwnd
    cdef bint _sending, _adjusting, _increasing, _penalised, _trigger_qa
    cdef long long _achieved, _ignored, _to_ignore, _qa_end

    @cython.locals(
        rtt=cython.longlong, delay=cython.longlong, held_by_receiver=cython.bint, congested=cython.bint
    )
    cpdef on_ack(
        self, long long now, long long acked_bytes, bint marked, object rtt_ns, long long penalty=*, bint restore=*
    )
    cdef void _increase(self, double by) noexcept nogil
    cdef Py_ssize_t _queueing_delay(self, long long now, bint marked, long long rtt) except? -2
    cdef _average_trim(self)
    @cython.locals(base_rtt=cython.longlong)
    cdef _take_rtt(self, long long now, long long rtt)
    cdef _move_base_rtt(self, long long base_rtt)
    cdef _follow_delivery(self, long long bps)
    cdef void _fast_increase(self, long long acked_bytes, long long delay) noexcept nogil
    @cython.locals(average=cython.longlong, factor=cython.double)
    cdef void _multiplicative_decrease(self, long long now) noexcept
    @cython.locals(elapsed=cython.longlong)
    cdef void _fulfil(self, long long now) noexcept
    @cython.locals(handled=cython.bint)
    cdef bint _quick_adapt(self, long long now, bint loss, bint marked, long long delay) noexcept nogil
    @cython.locals(too_long=cython.bint)
    cdef bint _too_little_got_through(self, bint loss, long long delay) noexcept nogil
    @cython.locals(reduced=cython.longlong)
    cdef bint _apply_receiver_penalty(self, long long acked_bytes, long long penalty, bint restore) noexcept nogil
    cdef bint _saves_cwnd(self, bint restore) noexcept nogil
    cdef void _restore_cwnd(self) noexcept nogil
