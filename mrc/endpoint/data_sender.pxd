cimport cython
from mrc.endpoint.counters cimport Counters
from mrc.endpoint.heaps cimport Heap
from mrc.endpoint.message cimport Message
from mrc.endpoint.paths.path_set cimport PathSet
from mrc.endpoint.requests cimport RequestMaker
from mrc.endpoint.send_queue cimport SendQueue
from mrc.endpoint.sent cimport SentPackets
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

    cpdef bint has_lost(self) except -1
    cpdef bint new_data_may_go(self, long long last_psn) except -1
    @cython.locals(total=cython.longlong, size=cython.longlong)
    cpdef Py_ssize_t transmit(
        self, TransmitBatch batch, long long limit, long long window, long long last_psn, long long now
    ) except? -1
    cdef Py_ssize_t _next(self, TransmitBatch batch, long long last_psn, long long now) except? -1
    @cython.locals(psn=cython.longlong, slot=cython.longlong, ev=cython.longlong, size=cython.longlong)
    cdef Py_ssize_t _again(self, TransmitBatch batch, long long now) except? -1
    @cython.locals(psn=cython.longlong, message=Message, ev=cython.longlong, size=cython.longlong)
    cdef Py_ssize_t _new(self, TransmitBatch batch, long long last_psn, long long now) except? -1
