# SPDX-License-Identifier: BSD-2-Clause
cimport cython
from mrc.endpoint.counters cimport Counters
from mrc.endpoint.requestor.feedback cimport Feedback
from mrc.endpoint.parts.flags cimport Away
from mrc.endpoint.datapath.peer_sources cimport PeerSources
from mrc.endpoint.responder.responder cimport Responder
from mrc.wire cimport octets
from mrc.wire.received_batch cimport ReceivedBatch

cdef Py_ssize_t _OPCODE_AT, _PSN_AT, _AETH_AT
cdef int _SYNDROME_SHIFT, _ACK_SYNDROME, _PROBE, _SACK, _ACK, _NACK
cdef unsigned int _PSN_MASK
cdef long long _NEVER
cdef const unsigned char[::1] _IS_REQUEST, _IS_ENDPOINT_OPERATION, _IS_NAK


@cython.final
cdef class Arrivals:
    cdef object _node
    cdef Counters _counters
    cdef Away _away
    cdef Feedback _feedback
    cdef Responder _responder
    cdef bint _is_over, _may_receive, _may_send
    cdef long long _learns_at
    cdef readonly long long asked_at
    cdef readonly PeerSources sources

    @cython.locals(answered=cython.bint)
    cpdef void receive(self, ReceivedBatch batch, Py_ssize_t row, int opcode, long long now) noexcept nogil
    cdef void _note(self, long long now) noexcept nogil
    cdef void _report_to_node(self, long long now) noexcept with gil
    cpdef void receive_trimmed(self, ReceivedBatch batch, Py_ssize_t row, bint lasthop, long long now) noexcept nogil
    @cython.locals(base=Py_ssize_t, psn=cython.uint, syndrome=cython.int)
    cdef void _on_aeth(self, ReceivedBatch batch, Py_ssize_t row, long long now) noexcept nogil
