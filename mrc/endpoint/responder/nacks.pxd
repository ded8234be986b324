# SPDX-License-Identifier: BSD-2-Clause
cimport cython
from mrc.endpoint.responder.answers cimport Answer, ControlPackets, PendingAnswers
from mrc.endpoint.counters cimport Counters
from mrc.endpoint.paths.path_set cimport PathSet
from mrc.wire cimport octets
from mrc.wire.transmit_batch cimport TransmitBatch

cdef int _NACK
cdef long long _PSN_MASK, _RTX, _NO_PORT
cdef Py_ssize_t _BYTES, _NETH_AT, _REASON_AT, _ENTROPY_AT, _SPDCID_AT, _DPDCID_AT, _NACK_WORD_AT, _CC_TYPE_AT, _STAMP_AT


@cython.final
cdef class NackMaker:
    cdef long long _spdcid, _dpdcid, _cc_type, _last_port, _planes
    cdef object _trace
    cdef Answer _answer
    cdef Counters _counters
    cdef ControlPackets _packets
    cdef PathSet _paths
    cdef readonly PendingAnswers pending

    @cython.locals(count=Py_ssize_t, drawn=cython.longlong, index=Py_ssize_t, number=Py_ssize_t)
    cpdef void transmit(self, TransmitBatch batch, Py_ssize_t limit, long long now) noexcept nogil
    @cython.locals(psn=cython.longlong, at=Py_ssize_t)
    cdef void _append(self, TransmitBatch batch, Py_ssize_t index, long long now) noexcept nogil
    @cython.locals(answer=Answer)
    cdef void _trace_sent(self) noexcept with gil
