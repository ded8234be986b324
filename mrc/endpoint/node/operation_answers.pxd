# SPDX-License-Identifier: BSD-2-Clause
cimport cython
from mrc.endpoint cimport by_handle
from mrc.endpoint.counters cimport Counters
from mrc.wire cimport octets
from mrc.wire.received_batch cimport ReceivedBatch
from mrc.wire.transmit_batch cimport TransmitBatch

cdef Py_ssize_t _LEAST, _MOST, _COLUMNS, _OPCODE_AT, _PSN_AT, _EETH_AT, _REQUEST_STAMP_AT, _RESPONSE_STAMP_AT, _EETH
cdef int _RESPONSE, _FTYPE, _TSR
cdef long long _UNIT_0_NS, _NONE


@cython.final
cdef class OperationAnswers:
    cdef Counters _counters
    cdef int _op_shift, _traffic_class
    cdef long long _unit_1_ns
    cdef long long *_cells
    cdef Py_ssize_t _first, _room
    cdef readonly Py_ssize_t waiting

    cdef Py_ssize_t _at(self, Py_ssize_t number) noexcept nogil
    @cython.locals(number=Py_ssize_t)
    cdef void _grow(self) noexcept nogil
    @cython.locals(base=Py_ssize_t, at=Py_ssize_t, word=cython.int)
    cpdef void add(
        self, long long handle, long long operation, ReceivedBatch batch, Py_ssize_t row, long long now
    ) noexcept nogil
    @cython.locals(count=Py_ssize_t, number=Py_ssize_t)
    cpdef void forget(self, long long handle) noexcept nogil
    @cython.locals(place=Py_ssize_t)
    cdef void _move(self, Py_ssize_t source, Py_ssize_t at) noexcept nogil
    cpdef void transmit(self, TransmitBatch batch, long long now) noexcept nogil
    @cython.locals(handle=cython.longlong, stamp=cython.longlong, number=cython.longlong, base=Py_ssize_t)
    cdef void _send(self, TransmitBatch batch, Py_ssize_t at, long long now) noexcept nogil
