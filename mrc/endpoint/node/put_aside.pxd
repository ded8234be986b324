# SPDX-License-Identifier: BSD-2-Clause
cimport cython
from mrc.endpoint.counters cimport Counters
from mrc.wire cimport octets
from mrc.wire.received_batch cimport ReceivedBatch

cdef Py_ssize_t _HEADER_ROOM


@cython.final
cdef class PutAside:
    cdef Counters _counters
    cdef unsigned char[::1] _flat
    cdef long long[::1] _lengths, _ports
    cdef Py_ssize_t _room
    cdef readonly Py_ssize_t count
    cdef readonly long long[::1] arrived_at
    cdef readonly ReceivedBatch batch

    @cython.locals(place=Py_ssize_t)
    cpdef void put(self, ReceivedBatch batch, Py_ssize_t row, long long now) noexcept nogil
