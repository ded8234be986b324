cimport cython
from mrc.wire cimport octets
from mrc.endpoint.congestion.base cimport CongestionController
from mrc.endpoint.counters cimport Counters
from mrc.endpoint.heaps cimport Heap
from mrc.endpoint.loss cimport LossDetector
from mrc.endpoint.retries cimport RetryBudget
from mrc.endpoint.rtt cimport RttEstimator
from mrc.endpoint.sent cimport SentPackets
from mrc.wire.received_batch cimport ReceivedBatch

cdef long long _ACKED, _OUTSTANDING, _MAX_DOUBLINGS, _ANY_WINDOW, _OLDEST_PSNS
cdef long long _FLAGS_AT, _RTX, _REASON_AT, _ENTROPY_AT, _NACK_PSN_AT


@cython.final
cdef class NackHandler:
    cdef SentPackets _sent
    cdef RttEstimator _rtt
    cdef LossDetector _loss
    cdef RetryBudget _retries
    cdef Counters _counters
    cdef CongestionController _controller
    cdef object _paths
    cdef Heap _resend
    cdef readonly object _trace
    cdef public object _fail
    cdef list _waiting, _waiting_for_window
    cdef dict _due_at
    cdef long long _most_wait, _oldest, _oldest_since, _window

    @cython.locals(at=Py_ssize_t, psn=cython.longlong, code=cython.int, rtx=cython.bint)
    cpdef on_nack(self, ReceivedBatch batch, Py_ssize_t row, long long now)
    cdef _on_nack(self, long long psn, object reason, long long entropy, bint rtx, long long now)
    cdef _trimmed_on(self, long long entropy)
    cdef bint _awaited(self, long long psn) noexcept nogil
    @cython.locals(sent=SentPackets, slot=cython.longlong, latest=cython.longlong)
    cdef bint _names_latest(self, long long psn, long long entropy, bint rtx) except *
    @cython.locals(sent=SentPackets, slot=cython.longlong, transmission=cython.longlong, size=cython.longlong,
                   entry=cython.longlong, wait=cython.longlong, doublings=cython.longlong)
    cdef _lose(self, long long psn, object reason, long long now)
    cdef bint _fits_by_now(self, long long psn, long long transmission) noexcept nogil
    @cython.locals(sent=SentPackets)
    cpdef on_cack_moved(self)
    cpdef long long next_deadline(self) noexcept with gil
    cpdef bint waits_for_room(self) noexcept with gil
    cpdef bint keeps_waiting(self) noexcept with gil
