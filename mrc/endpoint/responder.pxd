cimport cython
from mrc.endpoint.answers cimport Answer, Reflector
from mrc.endpoint.counters cimport Counters
from mrc.endpoint.memory cimport MemoryRegion
from mrc.endpoint.message_checks cimport MessageChecks
from mrc.endpoint.rate_limit cimport RateLimit
from mrc.endpoint.receive_window cimport ReceiveWindow
from mrc.endpoint.received cimport ReceivedPsns
from mrc.endpoint.receives cimport Receives
from mrc.endpoint.request_checks cimport RequestChecks
from mrc.endpoint.resource_limits cimport ResourceLimits
from mrc.endpoint.sacks cimport SackMaker
from mrc.wire cimport octets
from mrc.wire.received_batch cimport ReceivedBatch

cdef Py_ssize_t _PLEN_AT, _OPCODE_AT, _FLAGS_AT, _PSN_AT, _RQMSN_AT, _MSN_AT, _RETH_AT, _PROBE_ID_AT
cdef Py_ssize_t _TSETH_BYTES, _RETH_BYTES, _IMMDT_BYTES, _TSETH_END, _IP_HEADER, _ICRC_BYTES
cdef int _PAD_SHIFT, _TRAFFIC_CLASS_SHIFT, _CE
cdef unsigned int _TS, _ASKS_FOR_SACK
cdef long long _PSN_MASK, _PSN_MODULUS, _PSN_HALF
cdef unsigned long long _VA_LIMIT
cdef const unsigned char[::1] _ENDS, _IMMEDIATE
cdef int _PSN_OOR_WINDOW, _UNEXP_EVENT, _TRIMMED, _TRIMMED_LASTHOP
cdef long long _NEVER


@cython.final
cdef class Responder:
    cdef object _ack_delay, _budget, _classes, _fail, _paths, _peer_qpn, _qpn, _refused
    cdef readonly object _trace
    cdef bint _ack_due, _answers_trims, _gave_notice, _nacks_beyond, _nak_due, _notice_is_old
    cdef RateLimit _again, _beyond, _trimmed
    cdef RequestChecks _checks
    cdef Counters _counters
    cdef ResourceLimits _limits
    cdef readonly MessageChecks _messages
    cdef long long _noted_at
    cdef Receives _receives
    cdef Reflector _reflector
    cdef readonly object nacks
    cdef readonly RateLimit probes_rate
    cdef readonly ReceivedPsns received
    cdef readonly SackMaker sacks
    cdef readonly ReceiveWindow window

    @cython.locals(
        counters=Counters, received=ReceivedPsns, word=cython.uint, distance=cython.longlong, psn=cython.longlong
    )
    cpdef on_request(self, ReceivedBatch batch, Py_ssize_t row, long long now)
    cdef _note(self, long long now)
    @cython.locals(
        opcode=cython.int, stashed=cython.longlong, lacking=cython.int, size=cython.longlong, marked=cython.bint, asked=cython.bint
    )
    cdef _on_new_request(self, ReceivedBatch batch, Py_ssize_t row, long long psn, long long distance, long long now)
    @cython.locals(
        base=Py_ssize_t, reth=Py_ssize_t, payload=Py_ssize_t, pad=cython.int, size=cython.longlong,
        va=cython.ulonglong, address=cython.ulonglong, dmalen=cython.longlong, received=ReceivedPsns,
        region=MemoryRegion, immediates=cython.bint
    )
    cdef _take(self, ReceivedBatch batch, Py_ssize_t row, long long psn, int opcode)
    @cython.locals(edge=cython.longlong)
    cdef _check_immediates(self, ReceivedBatch batch, Py_ssize_t row, long long psn, int opcode, Py_ssize_t reth)
    @cython.locals(marked=cython.bint)
    cdef _answer_copy(self, ReceivedBatch batch, Py_ssize_t row, long long psn, long long now)
    @cython.locals(answer=Answer)
    cdef _sack(self, ReceivedBatch batch, Py_ssize_t row, long long psn, bint marked, long long now)
    @cython.locals(distance=cython.longlong)
    cpdef on_trimmed(self, ReceivedBatch batch, Py_ssize_t row, bint lasthop, long long now)
    @cython.locals(distance=cython.longlong, acknowledged=cython.bint)
    cpdef on_request_in_error(self, ReceivedBatch batch, Py_ssize_t row, long long now)
    @cython.locals(answer=Answer, received=ReceivedPsns)
    cpdef on_probe(self, ReceivedBatch batch, Py_ssize_t row, long long now)
    @cython.locals(answer=Answer)
    cdef _nack(self, ReceivedBatch batch, Py_ssize_t row, long long psn, int reason, long long now)
    @cython.locals(inner=cython.int)
    cdef bint _is_marked(self, ReceivedBatch batch, Py_ssize_t row) noexcept nogil
