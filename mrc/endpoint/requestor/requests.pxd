# SPDX-License-Identifier: BSD-2-Clause
cimport cython
from mrc.endpoint.counters cimport Counters
from mrc.endpoint.paths.path_set cimport PathSet
from mrc.endpoint.requestor.request_headers cimport RequestHeaders
from mrc.endpoint.requestor.send_queue cimport SendQueue
from mrc.endpoint.requestor.sent cimport SentPackets
from mrc.wire.transmit_batch cimport TransmitBatch

cdef Py_ssize_t _ICRC, _PSN_FLAGS_AT
cdef int _RTX_BIT


@cython.final
cdef class RequestMaker:
    cdef SentPackets _sent
    cdef SendQueue _queue
    cdef PathSet _paths
    cdef Counters _counters
    cdef RequestHeaders _headers
    cdef int _first_class, _again_class
    cdef long long _path_mtu
    cdef long long[::1] _msns

    @cython.locals(psn=cython.longlong, position=cython.longlong, size=cython.longlong)
    cpdef long long transmit_new(self, TransmitBatch batch, long long msn, long long ev, long long now) noexcept nogil
    @cython.locals(msn=cython.longlong, position=cython.longlong, size=cython.longlong)
    cpdef long long transmit_again(self, TransmitBatch batch, long long psn, long long ev, long long now) noexcept nogil
    @cython.locals(
        place=cython.longlong, moved=cython.longlong, length=cython.longlong, header_length=Py_ssize_t, row=Py_ssize_t
    )
    cdef long long _append(
        self, TransmitBatch batch, long long msn, long long position, long long psn, long long ev, int traffic_class,
        long long now
    ) noexcept nogil
