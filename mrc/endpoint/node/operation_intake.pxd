# SPDX-License-Identifier: BSD-2-Clause
cimport cython
from mrc.endpoint.counters cimport Counters
from mrc.endpoint.node.operation_answers cimport OperationAnswers
from mrc.endpoint.node.operation_rates cimport OperationRates
from mrc.endpoint.node.peer_table cimport PeerTable
from mrc.wire cimport octets
from mrc.wire.received_batch cimport ReceivedBatch

cdef Py_ssize_t _ERTH_AT, _SOURCE_AT, _DESTINATION_AT, _ADDRESS
cdef int _OPERATION_BITS, _REQUEST, _RESPONSE, _PORT_STATUS_UPDATE, _EV_PROBE, _KIND_RESPONSE, _KIND_OTHER
cdef long long _NONE


@cython.locals(base=Py_ssize_t)
cpdef bint is_from_own_address(ReceivedBatch batch, Py_ssize_t row) noexcept nogil


@cython.final
cdef class OperationIntake:
    cdef PeerTable _peers
    cdef OperationRates _rates
    cdef OperationAnswers _answers
    cdef Counters _counters

    @cython.locals(place=cython.longlong)
    cpdef bint receive(self, ReceivedBatch batch, Py_ssize_t row, int opcode, long long now) noexcept nogil
    cdef int _kind(self, ReceivedBatch batch, Py_ssize_t row, int opcode) noexcept nogil
    @cython.locals(operation=cython.int)
    cdef bint _take_request(self, long long handle, ReceivedBatch batch, Py_ssize_t row, long long now) noexcept nogil
