# SPDX-License-Identifier: BSD-2-Clause
cimport cython
from mrc.endpoint cimport by_handle
from mrc.endpoint.counters cimport Counters
from mrc.endpoint.parts.flags cimport Away
from mrc.endpoint.node.operation_intake cimport OperationIntake
from mrc.endpoint.datapath.packet_checks cimport PacketChecks
from mrc.endpoint.node.put_aside cimport PutAside
from mrc.endpoint.datapath.qp_table cimport QpTable
from mrc.wire cimport octets
from mrc.wire.received_batch cimport ReceivedBatch

cdef Py_ssize_t _OPCODE_AT, _DQP_AT
cdef unsigned int _QPN_MASK, _ENDPOINT_QPN
cdef int _DROPPED, _SOUND, _TRIMMED_LASTHOP
cdef long long _NONE


@cython.final
cdef class Intake:
    cdef readonly PacketChecks _checks
    cdef QpTable _qps
    cdef object _operations
    cdef OperationIntake _operation_intake
    cdef Counters _counters
    cdef Away _away
    cdef readonly PutAside aside
    cdef readonly long long touched
    cdef long long _batches
    cdef long long _room
    cdef long long *_slots
    cdef long long *_touched_in

    cpdef void make_room(self, long long slots) noexcept
    cpdef long long slot(self, long long place) noexcept nogil
    @cython.locals(row=Py_ssize_t)
    cpdef void receive(self, ReceivedBatch batch, long long now) noexcept nogil
    @cython.locals(verdict=cython.int, base=Py_ssize_t, qpn=cython.uint, opcode=cython.int, slot=cython.longlong)
    cdef void _receive_one(self, ReceivedBatch batch, Py_ssize_t row, long long now) noexcept nogil
    cdef void _operate(self, ReceivedBatch batch, Py_ssize_t row, int opcode, long long now) noexcept with gil
    cdef void _hear(self, long long slot, ReceivedBatch batch, Py_ssize_t row, long long now) noexcept with gil
