cimport cython
from mrc.endpoint.counters cimport Counters
from mrc.endpoint.message cimport Message
from mrc.endpoint.paths.path_set cimport PathSet
from mrc.endpoint.request_headers cimport RequestHeaders
from mrc.endpoint.sent cimport SentPackets
from mrc.wire.transmit_batch cimport TransmitBatch

cdef Py_ssize_t _ICRC, _PSN_FLAGS_AT
cdef int _RTX_BIT


@cython.final
cdef class RequestMaker:
    cdef SentPackets _sent
    cdef dict _messages
    cdef PathSet _paths
    cdef Counters _counters
    cdef RequestHeaders _headers
    cdef int _first_class, _again_class
    cdef long long[::1] _msns

    cpdef make_ring(self)
    @cython.locals(psn=cython.longlong, slot=Py_ssize_t, size=cython.longlong)
    cpdef Py_ssize_t transmit_new(self, TransmitBatch batch, Message message, long long ev, long long now) except -1
    @cython.locals(message=Message, slot=Py_ssize_t, size=cython.longlong)
    cpdef Py_ssize_t transmit_again(self, TransmitBatch batch, long long psn, long long ev, long long now) except -1
    @cython.locals(moved=cython.longlong, length=cython.longlong, header_length=Py_ssize_t, row=Py_ssize_t)
    cdef Py_ssize_t _append(
        self, TransmitBatch batch, Message message, long long position, long long psn, long long ev,
        int traffic_class, long long now
    ) except -1
