# SPDX-License-Identifier: BSD-2-Clause
cimport cython
from mrc.endpoint.datapath.arrivals cimport Arrivals
from mrc.endpoint.completion_ring cimport CompletionRing
from mrc.endpoint.congestion.base cimport CongestionController
from mrc.endpoint.counters cimport Counters
from mrc.endpoint.paths.path_set cimport PathSet
from mrc.endpoint.requestor.requestor cimport Requestor
from mrc.endpoint.responder.receives cimport Receives
from mrc.endpoint.responder.responder cimport Responder
from mrc.endpoint.work_rings cimport WorkRings
from mrc.wire.received_batch cimport ReceivedBatch
from mrc.wire.transmit_batch cimport TransmitBatch

cdef long long _FOREVER, _ADDRESS, _LENGTH, _REMOTE_VA, _RKEY, _IMMEDIATE


@cython.final
cdef class QpDatapath:
    cdef readonly Counters counters
    cdef readonly Arrivals arrivals
    cdef readonly CompletionRing completions
    cdef public CongestionController controller
    cdef public PathSet paths
    cdef public Responder responder
    cdef public Requestor requestor
    cdef public Receives receives
    cdef public object peer_node
    cdef public bint may_send, answers_wait, is_over
    cdef public long long slot, timer_at, doubted_ports
    cdef readonly long long qpn

    cdef void receive(self, ReceivedBatch batch, Py_ssize_t row, int opcode, long long now) noexcept nogil
    cdef void receive_trimmed(self, ReceivedBatch batch, Py_ssize_t row, bint lasthop, long long now) noexcept nogil
    @cython.locals(at=cython.longlong)
    cpdef void take_posted(self) noexcept nogil
    cpdef bint pending(self) noexcept nogil
    cpdef bint has_work(self) noexcept nogil
    cpdef bint has_control(self) noexcept nogil
    cpdef bint window_is_open(self) noexcept nogil
    cpdef long long outstanding(self) noexcept nogil
    @cython.locals(sent=Py_ssize_t)
    cpdef Py_ssize_t transmit(self, TransmitBatch batch, Py_ssize_t limit, long long now, bint others_wait) noexcept nogil
    cdef bint _one_goes_ahead(self) noexcept nogil
    cdef Py_ssize_t _transmit_own(self, TransmitBatch batch, Py_ssize_t limit, long long now, bint others_wait) noexcept nogil
    @cython.locals(of_responder=cython.longlong)
    cpdef long long next_deadline(self) noexcept nogil
    cpdef void on_timer(self, long long now) noexcept nogil
