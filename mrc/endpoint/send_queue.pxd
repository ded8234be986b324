cimport cython
from mrc.endpoint.message cimport Message


@cython.final
cdef class SendQueue:
    cdef readonly object unsent, unfinished
    cdef readonly dict messages
    cdef long long _max_wimm, _path_mtu
    cdef readonly long long immediates_out, next_msn, next_rqmsn

    @cython.locals(message=Message, rqmsn=cython.longlong)
    cpdef post(self, request)
    cpdef bint has_unsent(self) noexcept with gil
    cpdef bint one_packet_waits(self) noexcept with gil
    @cython.locals(message=Message)
    cpdef Message next(self)
    cpdef begin(self, Message message, long long psn)
