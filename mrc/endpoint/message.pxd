cimport cython
from mrc.wire.payload cimport Payload

cdef long long _NO_IMMEDIATE


@cython.final
cdef class Message:
    cdef readonly object request
    cdef readonly Payload payload
    cdef readonly long long first_psn, immediate, last_psn, length, msn, offset, packets, path_mtu, remote_va, rkey, rqmsn
    cdef readonly long long sent_packets

    cpdef void took(self, long long psn) noexcept nogil
    cpdef bint sent(self, long long psn) noexcept nogil
