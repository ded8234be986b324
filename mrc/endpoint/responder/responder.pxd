# SPDX-License-Identifier: BSD-2-Clause
cimport cython
from mrc.endpoint.responder.ack_delay cimport AckDelay
from mrc.endpoint.responder.answers cimport Answer, ControlPackets, Reflector
from mrc.endpoint.counters cimport Counters
from mrc.endpoint.responder.message_checks cimport MessageChecks
from mrc.endpoint.responder.nacks cimport NackMaker
from mrc.endpoint.paths.path_set cimport PathSet
from mrc.endpoint.parts.rate_limit cimport RateLimit
from mrc.endpoint.responder.receive_budget cimport ReceiveBudget
from mrc.endpoint.responder.receive_window cimport ReceiveWindow
from mrc.endpoint.responder.received cimport ReceivedPsns
from mrc.endpoint.responder.receives cimport Receives
from mrc.endpoint.responder.request_checks cimport RequestChecks
from mrc.endpoint.responder.resource_limits cimport ResourceLimits
from mrc.endpoint.responder.sacks cimport SackMaker
from mrc.wire cimport octets
from mrc.wire.received_batch cimport ReceivedBatch
from mrc.wire.transmit_batch cimport TransmitBatch

cdef Py_ssize_t _PLEN_AT, _OPCODE_AT, _FLAGS_AT, _PSN_AT, _RQMSN_AT, _MSN_AT, _RETH_AT, _RKEY, _DMALEN, _PROBE_ID_AT
cdef Py_ssize_t _TSETH_BYTES, _RETH_BYTES, _IMMDT_BYTES, _TSETH_END, _IP_HEADER, _ICRC_BYTES
cdef Py_ssize_t _AETH_BYTES, _AETH_AT
cdef int _PAD_SHIFT, _TRAFFIC_CLASS_SHIFT, _CE, _ACKNOWLEDGE, _ACK_SYNDROME, _RIGHT
cdef unsigned int _TS, _ASKS_FOR_SACK
cdef long long _PSN_MASK, _PSN_MODULUS, _PSN_HALF, _SYNDROME_SHIFT, _MSN_MASK
cdef unsigned long long _VA_LIMIT
cdef const unsigned char[::1] _ENDS, _IMMEDIATE
cdef int _PSN_OOR_WINDOW, _UNEXP_EVENT, _TRIMMED, _TRIMMED_LASTHOP
cdef long long _NEVER, _FOREVER, _NO_PROBE, _NO_IMMEDIATE, _NOT_REFUSED, _SOLICITED


@cython.final
cdef class Responder:
    cdef object _fail
    cdef int _se
    cdef readonly object _trace
    cdef bint _ack_due, _answers_trims, _gave_notice, _nacks_beyond, _nak_due, _notice_is_old
    cdef AckDelay _ack_delay
    cdef Answer _answer
    cdef ReceiveBudget _budget
    cdef RateLimit _again, _beyond, _trimmed
    cdef RequestChecks _checks
    cdef Counters _counters
    cdef ResourceLimits _limits
    cdef readonly MessageChecks _messages
    cdef long long _noted_at, _qpn, _receive_due, _receive_wait_ns, _refused_psn, _refused_syndrome
    cdef ControlPackets _packets
    cdef PathSet _paths
    cdef Receives _receives
    cdef Reflector _reflector
    cdef readonly NackMaker nacks
    cdef readonly RateLimit probes_rate
    cdef readonly ReceivedPsns received
    cdef readonly SackMaker sacks
    cdef readonly ReceiveWindow window

    @cython.locals(epsn=cython.longlong, distance=cython.longlong, psn=cython.longlong)
    cpdef void on_request(self, ReceivedBatch batch, Py_ssize_t row, long long now) noexcept nogil
    @cython.locals(distance=cython.longlong)
    cdef long long _distance(self, ReceivedBatch batch, Py_ssize_t row) noexcept nogil
    cdef void _note(self, long long now) noexcept nogil
    @cython.locals(
        opcode=cython.int, lacking=cython.int, size=cython.longlong, marked=cython.bint, asked=cython.bint
    )
    cdef void _on_new_request(
        self, ReceivedBatch batch, Py_ssize_t row, long long psn, long long distance, long long now
    ) noexcept nogil
    @cython.locals(
        base=Py_ssize_t, reth=Py_ssize_t, payload=Py_ssize_t, pad=cython.int, size=cython.longlong,
        va=cython.ulonglong, start=cython.ulonglong, dmalen=cython.longlong, immediates=cython.bint,
        rqmsn=cython.longlong, verdict=cython.int, immediate=cython.longlong
    )
    cdef int _execute(self, ReceivedBatch batch, Py_ssize_t row, long long psn, int opcode) noexcept nogil
    @cython.locals(edge=cython.longlong)
    cpdef bint on_receive_posted(self) noexcept nogil
    cdef void _time_receive(self, long long now) noexcept nogil
    cdef void _refuse(self) noexcept with gil
    @cython.locals(marked=cython.bint)
    cdef void _answer_copy(self, ReceivedBatch batch, Py_ssize_t row, long long psn, long long now) noexcept nogil
    cdef void _sack(
        self, ReceivedBatch batch, Py_ssize_t row, long long psn, bint marked, long long now
    ) noexcept nogil
    @cython.locals(distance=cython.longlong)
    cpdef void on_trimmed(self, ReceivedBatch batch, Py_ssize_t row, bint lasthop, long long now) noexcept nogil
    @cython.locals(distance=cython.longlong, acknowledged=cython.bint)
    cpdef void on_request_in_error(self, ReceivedBatch batch, Py_ssize_t row, long long now) noexcept nogil
    @cython.locals(probe_id=cython.longlong, marked=cython.bint)
    cpdef void on_probe(self, ReceivedBatch batch, Py_ssize_t row, long long now) noexcept nogil
    cdef void _nack(
        self, ReceivedBatch batch, Py_ssize_t row, long long psn, int reason, long long now
    ) noexcept nogil
    @cython.locals(inner=cython.int)
    cdef bint _is_marked(self, ReceivedBatch batch, Py_ssize_t row) noexcept nogil
    cpdef bint owes(self) noexcept nogil
    cpdef bint pending(self) noexcept nogil
    @cython.locals(start=Py_ssize_t, most=Py_ssize_t, sacks_sent=Py_ssize_t)
    cpdef Py_ssize_t transmit(self, TransmitBatch batch, Py_ssize_t limit, long long now) noexcept nogil
    cdef void _trace_answers(self, long long now) noexcept with gil
    cpdef long long next_deadline(self) noexcept nogil
    cpdef void on_timer(self, long long now) noexcept nogil
    @cython.locals(index=Py_ssize_t, at=Py_ssize_t, completed=cython.longlong)
    cdef void _transmit_aeth(self, TransmitBatch batch, long long psn, long long syndrome, long long now) noexcept nogil
