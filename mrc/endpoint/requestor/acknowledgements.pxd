# SPDX-License-Identifier: BSD-2-Clause
cimport cython
from mrc.endpoint.congestion.base cimport CongestionController
from mrc.endpoint.counters cimport Counters
from mrc.endpoint.requestor.loss cimport LossDetector
from mrc.endpoint.paths.path_set cimport PathSet
from mrc.endpoint.parts.rtt cimport RttEstimator
from mrc.endpoint.requestor.sack_reading cimport Sack
from mrc.endpoint.requestor.sent cimport SentPackets

cdef long long _ACKED, _LOST, _UNIT, _STAMP_MASK, _WORD, _NONE

@cython.locals(held=cython.longlong)
cdef long long _held(long long reflected, long long sent_at, long long sample) noexcept nogil


@cython.final
cdef class Acknowledgements:
    cdef SentPackets _sent
    cdef RttEstimator _rtt
    cdef LossDetector _loss
    cdef Counters _counters
    cdef CongestionController _controller
    cdef PathSet _paths
    cdef readonly object _trace
    cdef bint _service_time
    cdef long long _arrived, _removed, _sampled

    @cython.locals(acked=cython.longlong, una=cython.longlong, psn=cython.longlong, bits=cython.ulonglong)
    cpdef long long apply(self, Sack sack, long long now) noexcept nogil
    @cython.locals(acked=cython.longlong)
    cpdef long long acknowledge(self, long long cack, long long now) noexcept nogil
    cdef void _report_removed(self) noexcept nogil
    @cython.locals(acked=cython.longlong, psn=cython.longlong)
    cdef long long _up_to(self, long long cack, long long now) noexcept nogil
    cdef bint _is_news(self, long long psn) noexcept nogil
    @cython.locals(slot=cython.longlong, transmission=cython.longlong, was_lost=cython.bint)
    cdef long long _acknowledge_psn(self, long long psn, long long now) noexcept nogil
    @cython.locals(transmission=cython.longlong, sent_at=cython.longlong)
    cdef void _false_alarm(self, long long psn, bint was_lost, long long now) noexcept nogil
    @cython.locals(slot=cython.longlong, blamed=cython.longlong, entry=cython.longlong, sent_at=cython.longlong,
                   tells=cython.bint)
    cdef void _undo_loss(self, long long psn, long long now, long long ev_index, bint sent_again) noexcept nogil
    cdef void _trace_spurious(self, long long psn, long long ev_index, bint sent_again) noexcept with gil
    @cython.locals(
        slot=cython.longlong, sample=cython.longlong, transmission=cython.longlong, sent_at=cython.longlong,
        fresh=cython.bint
    )
    cpdef long long sample_rtt(self, Sack sack, long long now) noexcept nogil
    cdef bint _transport_ack_was_first(self, long long psn, long long transmission) noexcept nogil
    cdef void _original_arrived(self, Sack sack, long long now) noexcept nogil
