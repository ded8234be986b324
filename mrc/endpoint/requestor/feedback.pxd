# SPDX-License-Identifier: BSD-2-Clause
cimport cython
from mrc.endpoint.requestor.acknowledgements cimport Acknowledgements
from mrc.endpoint.congestion.base cimport CongestionController
from mrc.endpoint.counters cimport Counters
from mrc.endpoint.parts.heaps cimport Heap
from mrc.endpoint.requestor.loss cimport LossDetector
from mrc.endpoint.requestor.nacked cimport NackHandler
from mrc.endpoint.paths.path_set cimport PathSet
from mrc.endpoint.requestor.probes cimport Probes
from mrc.endpoint.requestor.retries cimport RetryBudget
from mrc.endpoint.parts.rtt cimport RttEstimator
from mrc.endpoint.requestor.sack_reading cimport Sack
from mrc.endpoint.requestor.send_queue cimport SendQueue
from mrc.endpoint.requestor.send_room cimport SendRoom
from mrc.endpoint.requestor.sent cimport SentPackets
from mrc.wire.psn cimport unwrap
from mrc.wire.received_batch cimport ReceivedBatch

cdef long long _ACKED, _OUTSTANDING, _MPR_UNIT, _NONE, _NO_SAMPLE, _MARKED, _ALWAYS_SKIP
cdef long long _BY_HOLE, _BY_PATH_TIMER, _BY_ACK_TIMEOUT


@cython.final
cdef class Feedback:
    cdef SentPackets _sent
    cdef RttEstimator _rtt
    cdef LossDetector _loss
    cdef Acknowledgements _acknowledgements
    cdef NackHandler _nacks
    cdef RetryBudget _retries
    cdef CongestionController _controller
    cdef Counters _counters
    cdef Sack _sack
    cdef PathSet _paths
    cdef Probes _probes
    cdef SendRoom _room
    cdef Heap _resend, _lost
    cdef SendQueue _queue
    cdef readonly object _trace
    cdef public object _fail
    cdef long long _qpn, _mpr, _send_window, _lost_bytes, _tail_least, _told_at
    cdef bint _dynamic_mpr, _follows_shrink

    @cython.locals(rtt=cython.longlong, acked=cython.longlong)
    cpdef void on_sack(self, ReceivedBatch batch, Py_ssize_t row, long long now) noexcept nogil
    @cython.locals(cack=cython.longlong, acked=cython.longlong)
    cpdef void on_ack(self, long long cack_psn, long long now) noexcept nogil
    @cython.locals(offending=cython.longlong)
    cpdef void on_nak(self, long long psn, long long syndrome, long long now) noexcept nogil
    cdef void _refused(self, long long psn, long long syndrome) noexcept with gil
    @cython.locals(losses=cython.longlong, lost=cython.bint)
    cpdef void on_nack(self, ReceivedBatch batch, Py_ssize_t row, long long now) noexcept nogil
    @cython.locals(index=cython.longlong)
    cdef void _path_feedback(self, Sack sack, long long now) noexcept nogil
    @cython.locals(before=cython.longlong)
    cdef void _probe_answered(self, long long probe_id, long long m, long long now) noexcept nogil
    @cython.locals(edge=cython.longlong)
    cdef void _follow_mpr(self, Sack sack) noexcept nogil
    cdef void _after_acknowledgement(self, long long now) noexcept nogil
    cdef void _trace_feedback(self, long long now) noexcept with gil
    @cython.locals(transmission=cython.longlong)
    cdef void _lose_holes(self, long long now) noexcept nogil
    @cython.locals(transmission=cython.longlong)
    cdef void _lose_timed_out(self, long long now) noexcept nogil
    @cython.locals(transmission=cython.longlong)
    cdef void _lose_unanswered(self, long long now) noexcept nogil
    @cython.locals(slot=cython.longlong)
    cdef void _lose(self, long long transmission, long long trigger) noexcept nogil
    cdef void _trace_lost(self, long long transmission, long long trigger) noexcept with gil
    @cython.locals(entry=cython.longlong, psn=cython.longlong)
    cdef void _after_losses(self, long long now) noexcept nogil
    cpdef void take_up_bad_evs(self, long long now) noexcept nogil
    cpdef void watch_oldest(self, long long now) noexcept nogil
    @cython.locals(of_losses=cython.longlong)
    cpdef long long next_deadline(self) noexcept nogil
    @cython.locals(goes_on=cython.bint, held=cython.bint)
    cpdef void on_timer(self, long long now) noexcept nogil
    @cython.locals(una=cython.longlong)
    cpdef bint held_back(self) noexcept nogil
    cdef void _wait_on(self, long long now) noexcept nogil
    cdef void _fell_silent(self) noexcept with gil
    @cython.locals(psn=cython.longlong)
    cdef void _local_ack_timeout(self, long long now) noexcept nogil
    cdef void _trace_timeout(self, long long psn) noexcept with gil
    cdef void _give_up(self, long long psn) noexcept with gil
