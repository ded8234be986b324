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
    @cython.locals(message=Message)
    cpdef Message next(self)
    cpdef begin(self, Message message, long long psn)
