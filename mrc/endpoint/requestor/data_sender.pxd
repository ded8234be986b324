# SPDX-License-Identifier: BSD-2-Clause
cimport cython
from mrc.endpoint.counters cimport Counters
from mrc.endpoint.parts.heaps cimport Heap
from mrc.endpoint.paths.path_set cimport PathSet
from mrc.endpoint.requestor.requests cimport RequestMaker
from mrc.endpoint.requestor.send_queue cimport SendQueue
from mrc.endpoint.requestor.sent cimport SentPackets
from mrc.wire.transmit_batch cimport TransmitBatch

cdef long long _NONE


@cython.final
cdef class DataSender:
    cdef SentPackets _sent
    cdef readonly object _trace
    cdef SendQueue _queue
    cdef RequestMaker _requests
    cdef PathSet _paths
    cdef Counters _counters
    cdef readonly Heap resend

    cpdef bint has_lost(self) noexcept nogil
    cpdef bint new_data_may_go(self, long long last_psn) noexcept nogil
    @cython.locals(total=cython.longlong, size=cython.longlong)
    cpdef long long transmit(
        self, TransmitBatch batch, long long limit, long long window, long long last_psn, long long now
    ) noexcept nogil
    cdef long long _next(self, TransmitBatch batch, long long last_psn, long long now) noexcept nogil
    @cython.locals(psn=cython.longlong, ev=cython.longlong, size=cython.longlong)
    cdef long long _again(self, TransmitBatch batch, long long now) noexcept nogil
    cdef void _trace_sent_again(self, long long psn, long long ev) noexcept with gil
    @cython.locals(psn=cython.longlong, msn=cython.longlong, ev=cython.longlong, size=cython.longlong)
    cdef long long _new(self, TransmitBatch batch, long long last_psn, long long now) noexcept nogil
