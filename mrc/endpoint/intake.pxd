cimport cython
from mrc.endpoint.arrivals cimport Arrivals
from mrc.endpoint.counters cimport Counters
from mrc.endpoint.packet_checks cimport PacketChecks
from mrc.wire cimport octets
from mrc.wire.received_batch cimport ReceivedBatch

cdef Py_ssize_t _OPCODE_AT, _DQP_AT
cdef unsigned int _QPN_MASK, _ENDPOINT_QPN
cdef int _DROPPED, _SOUND, _TRIMMED_LASTHOP


@cython.final
cdef class Intake:
    cdef PacketChecks _checks
    cdef dict _qps
    cdef object _operations
    cdef Counters _counters

    @cython.locals(
        touched=list, row=Py_ssize_t, verdict=cython.int, base=Py_ssize_t, qpn=cython.uint, opcode=cython.int,
        arrivals=Arrivals
    )
    cpdef list take(self, ReceivedBatch batch, long long now)
