# SPDX-License-Identifier: BSD-2-Clause
cimport cython
from mrc.wire cimport octets
from mrc.endpoint.congestion.base cimport CongestionController
from mrc.endpoint.counters cimport Counters
from mrc.endpoint.parts.heaps cimport Heap
from mrc.endpoint.requestor.loss cimport LossDetector
from mrc.endpoint.paths.path_set cimport PathSet
from mrc.endpoint.requestor.retries cimport RetryBudget
from mrc.endpoint.parts.rtt cimport RttEstimator
from mrc.endpoint.requestor.sent cimport SentPackets
from mrc.wire.psn cimport unwrap
from mrc.wire.received_batch cimport ReceivedBatch

cdef long long _ACKED, _OUTSTANDING, _MAX_DOUBLINGS, _ANY_WINDOW, _OLDEST_PSNS, _PSN_MASK, _NONE
cdef long long _FLAGS_AT, _RTX, _REASON_AT, _ENTROPY_AT, _NACK_PSN_AT
cdef long long _UNKNOWN, _RESEND, _WAIT_FOR_WINDOW, _FAIL
cdef const unsigned char[::1] _RESPONSE_TO, _IS_TRIM, _IS_OF_PATH


@cython.final
cdef class NackHandler:
    cdef SentPackets _sent
    cdef RttEstimator _rtt
    cdef LossDetector _loss
    cdef RetryBudget _retries
    cdef Counters _counters
    cdef CongestionController _controller
    cdef PathSet _paths
    cdef Heap _resend, _waiting, _waiting_for_window
    cdef readonly object _trace
    cdef public object _fail
    cdef bint _fails_on_unknown
    cdef long long _most_wait, _oldest, _oldest_since, _window

    @cython.locals(at=Py_ssize_t, psn=cython.longlong, reason=cython.longlong, rtx=cython.bint)
    cpdef void on_nack(self, ReceivedBatch batch, Py_ssize_t row, long long now) noexcept nogil
    cdef void _on_nack(self, long long psn, long long reason, long long entropy, bint rtx, long long now) noexcept nogil
    @cython.locals(response=cython.longlong)
    cdef long long _response_to(self, long long reason) noexcept nogil
    cdef void _trace_nack(self, long long psn, long long reason, long long entropy, bint rtx) noexcept with gil
    cdef void _fail_at(self, long long psn) noexcept with gil
    cdef void _give_up(self, long long psn, long long reason) noexcept with gil
    @cython.locals(index=cython.longlong)
    cdef void _trimmed_on(self, long long entropy) noexcept nogil
    cdef bint _awaited(self, long long psn) noexcept nogil
    @cython.locals(slot=cython.longlong, latest=cython.longlong)
    cdef bint _names_latest(self, long long psn, long long entropy, bint rtx) noexcept nogil
    @cython.locals(
        slot=cython.longlong, transmission=cython.longlong, size=cython.longlong, response=cython.longlong
    )
    cdef void _lose(self, long long psn, long long reason, long long now) noexcept nogil
    cdef void _trace_lost(self, long long transmission, long long reason) noexcept with gil
    @cython.locals(slot=cython.longlong, wait=cython.longlong, doublings=cython.longlong)
    cdef void _wait(self, long long psn, long long now) noexcept nogil
    cdef bint _fits_by_now(self, long long psn, long long transmission) noexcept nogil
    @cython.locals(una=cython.longlong)
    cpdef void on_cack_moved(self) noexcept nogil
    @cython.locals(waited=cython.bint)
    cdef bint _stop_waiting(self, long long psn) noexcept nogil
    cpdef long long next_deadline(self) noexcept nogil
    @cython.locals(psn=cython.longlong)
    cpdef void on_timer(self, long long now) noexcept nogil
    cpdef bint waits_for_room(self) noexcept nogil
    cdef void _drop_void(self) noexcept nogil
    cdef bint _still_waits(self, long long when, long long psn) noexcept nogil
    cpdef bint keeps_waiting(self) noexcept nogil
    cpdef void clear(self) noexcept nogil
