# SPDX-License-Identifier: BSD-2-Clause
cimport cython
from mrc.endpoint.completion_ring cimport CompletionRing
from mrc.endpoint.congestion.base cimport CongestionController
from mrc.endpoint.requestor.data_sender cimport DataSender
from mrc.endpoint.requestor.feedback cimport Feedback
from mrc.endpoint.requestor.loss cimport LossDetector
from mrc.endpoint.requestor.nacked cimport NackHandler
from mrc.endpoint.requestor.probes cimport Probes
from mrc.endpoint.requestor.requests cimport RequestMaker
from mrc.endpoint.requestor.retries cimport RetryBudget
from mrc.endpoint.parts.rtt cimport RttEstimator
from mrc.endpoint.requestor.send_queue cimport SendQueue
from mrc.endpoint.requestor.send_room cimport SendRoom
from mrc.endpoint.requestor.sent cimport SentPackets
from mrc.wire.transmit_batch cimport TransmitBatch

cdef Py_ssize_t _PSN_FLAGS_AT
cdef int _ACKREQ_BIT


@cython.final
cdef class Requestor:
    cdef CompletionRing _completions
    cdef CongestionController _controller
    cdef readonly NackHandler _nacks
    cdef readonly Probes _probes
    cdef readonly RequestMaker _requests
    cdef readonly RetryBudget _retries
    cdef readonly SendRoom _room
    cdef readonly DataSender _sender
    cdef readonly Feedback feedback
    cdef readonly LossDetector loss
    cdef readonly SendQueue queue
    cdef readonly RttEstimator rtt
    cdef readonly SentPackets sent
    cdef long long _most, _tail_least_ns
    cdef readonly long long packet_bytes

    cpdef bint ready(self) noexcept nogil
    cpdef bint has_probes(self) noexcept nogil
    cpdef bint has_work(self) noexcept nogil
    cpdef bint one_packet_waits(self) noexcept nogil
    @cython.locals(
        start=Py_ssize_t, data_from=Py_ssize_t, alone=cython.bint, room=cython.longlong, sent_bytes=cython.longlong
    )
    cpdef Py_ssize_t transmit(self, TransmitBatch batch, Py_ssize_t limit, long long now, bint others_wait) noexcept nogil
    cdef long long _tail_timer(self) noexcept nogil
    cpdef long long next_deadline(self) noexcept nogil
    cpdef void on_timer(self, long long now) noexcept nogil
