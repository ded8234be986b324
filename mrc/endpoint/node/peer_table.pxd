# SPDX-License-Identifier: BSD-2-Clause
cimport cython
from mrc.endpoint cimport by_handle
from mrc.endpoint.node.operation_rates cimport OperationRates
from mrc.endpoint.parts.tables cimport Table
from mrc.wire cimport octets
from mrc.wire.received_batch cimport ReceivedBatch

cdef Py_ssize_t _SOURCE_AT, _ADDRESS, _HALF
cdef long long _NONE


@cython.final
cdef class PeerTable:
    cdef OperationRates _rates
    cdef Table _chains
    cdef list _nodes
    cdef object _free
    cdef unsigned char[::1] _addresses
    cdef long long *_ports
    cdef long long *_handles
    cdef long long *_rate_slots
    cdef long long *_next

    @cython.locals(place=Py_ssize_t, handle=cython.longlong)
    cpdef add(self, object node)
    @cython.locals(at=Py_ssize_t, key=cython.longlong, last=cython.longlong)
    cdef void _link(self, Py_ssize_t place) noexcept nogil
    @cython.locals(at=Py_ssize_t, each=cython.longlong)
    cdef void _unlink(self, Py_ssize_t place) noexcept nogil
    cdef long long _hash(self, const unsigned char[::1] view, Py_ssize_t at) noexcept nogil
    @cython.locals(base=Py_ssize_t, at=Py_ssize_t, place=cython.longlong)
    cpdef long long find(self, ReceivedBatch batch, Py_ssize_t row) noexcept nogil
    @cython.locals(base=Py_ssize_t)
    cpdef long long sender(self, ReceivedBatch batch, Py_ssize_t row, long long place) noexcept nogil
    cpdef long long rate_slot(self, long long place) noexcept nogil
    cpdef long long handle(self, long long place) noexcept nogil
