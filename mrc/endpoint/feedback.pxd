cimport cython
from mrc.endpoint.acknowledgements cimport Acknowledgements
from mrc.endpoint.congestion.base cimport CongestionController
from mrc.endpoint.counters cimport Counters
from mrc.endpoint.heaps cimport Heap
from mrc.endpoint.loss cimport LossDetector
from mrc.endpoint.nacked cimport NackHandler
from mrc.endpoint.paths.path_set cimport PathSet
from mrc.endpoint.probes cimport Probes
from mrc.endpoint.retries cimport RetryBudget
from mrc.endpoint.rtt cimport RttEstimator
from mrc.endpoint.sack_reading cimport Sack
from mrc.endpoint.send_queue cimport SendQueue
from mrc.endpoint.send_room cimport SendRoom
from mrc.endpoint.sent cimport SentPackets
from mrc.wire.received_batch cimport ReceivedBatch

cdef long long _OUTSTANDING, _MPR_UNIT, _NONE, _MARKED, _ALWAYS_SKIP


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
    cdef Heap _resend
    cdef SendQueue _queue
    cdef readonly object _trace
    cdef public object _fail
    cdef long long _qpn, _mpr, _send_window
    cdef bint _dynamic_mpr

    @cython.locals(sack=Sack, rtt=cython.longlong, acked_bytes=cython.longlong)
    cpdef on_sack(self, ReceivedBatch batch, Py_ssize_t row, long long now)
    @cython.locals(cack=cython.longlong)
    cpdef on_ack(self, long long cack_psn, long long now)
    cpdef on_nack(self, ReceivedBatch batch, Py_ssize_t row, long long now)
    @cython.locals(index=cython.longlong)
    cdef _path_feedback(self, Sack sack, long long now)
    cdef _probe_answered(self, long long probe_id, long long m, long long now)
    cdef void _follow_mpr(self, Sack sack) noexcept
    @cython.locals(una=cython.longlong)
    cdef _after_acknowledgement(self, long long now)
    @cython.locals(transmission=cython.longlong)
    cdef _lose_holes(self, long long now)
    @cython.locals(
        sent=SentPackets, size=cython.longlong, number=cython.longlong, entry=cython.longlong, psn=cython.longlong
    )
    cdef _lose(self, list transmissions, str trigger, long long now)
    cpdef void take_up_bad_evs(self, long long now) noexcept with gil
    @cython.locals(sent=SentPackets)
    cpdef long long next_deadline(self) noexcept with gil
    cpdef void watch_oldest(self, long long now) noexcept with gil
    @cython.locals(sent=SentPackets, psn=cython.longlong, unanswered=list)
    cpdef void on_timer(self, long long now) noexcept with gil
    cdef _local_ack_timeout(self, long long now)
