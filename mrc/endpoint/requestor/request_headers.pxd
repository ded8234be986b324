# SPDX-License-Identifier: BSD-2-Clause
cimport cython
from mrc.endpoint.requestor.send_queue cimport SendQueue
from mrc.wire cimport octets
from mrc.wire.transmit_batch cimport TransmitBatch

cdef Py_ssize_t _ROOM, _BTH_AT, _DQP_AT, _PSN_AT, _METH_AT, _BEHIND_METH, _IMMDT, _RKEY, _DMALEN, _TSETH, _RETH, _FLAGS_AT
cdef long long _PSN_BITS, _TS, _FTYPE, _UNIT_NS
cdef int _STARTS, _ENDS, _IMMEDIATE
cdef long long _SOLICITED, _IMMEDIATE_BITS
cdef const unsigned char[::1] _OPCODES


@cython.final
cdef class RequestHeaders:
    cdef SendQueue _queue
    cdef long long _path_mtu, _peer_qpn
    cdef bint _ts
    cdef int _se
    cdef Py_ssize_t _least

    @cython.locals(carries=cython.bint)
    cpdef Py_ssize_t length(self, long long place, long long position) noexcept nogil
    @cython.locals(base=Py_ssize_t, at=Py_ssize_t, kind=cython.int, immediate=cython.longlong)
    cpdef void write(
        self, TransmitBatch batch, Py_ssize_t row, long long place, long long msn, long long position, long long psn,
        long long now
    ) noexcept nogil
