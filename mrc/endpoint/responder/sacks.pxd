# SPDX-License-Identifier: BSD-2-Clause
cimport cython
from mrc.endpoint.responder.answers cimport Answer, ControlPackets, PendingAnswers
from mrc.endpoint.counters cimport Counters
from mrc.endpoint.paths.path_set cimport PathSet
from mrc.endpoint.responder.receive_budget cimport ReceiveBudget
from mrc.endpoint.responder.receive_window cimport ReceiveWindow
from mrc.endpoint.responder.received cimport ReceivedPsns
from mrc.wire cimport octets
from mrc.wire.transmit_batch cimport TransmitBatch

cdef long long _MIN_COUNTED_BYTES, _BITMAP, _RCVD_UNIT, _RCVD_MASK, _MOST_COUNTED, _MOST_BELOW, _MOST_ABOVE
cdef long long _PENALTY_SHIFT, _PSN_MASK, _RTX, _M_SHIFT, _PR
cdef int _SACK
cdef Py_ssize_t _BYTES, _SETH_AT, _OFFSET_AT, _ENTROPY_AT, _SPDCID_AT, _DPDCID_AT, _CACK_AT
cdef Py_ssize_t _MPR_AT, _BASE_AT, _BITMAP_AT, _STAMP_AT, _OOO_AT, _RCVD_AT


@cython.final
cdef class SackMaker:
    cdef long long _spdcid, _dpdcid, _penalty, _restore_word
    cdef long long _threshold, _bytes_since
    cdef Answer _answer
    cdef ReceiveBudget _budget
    cdef ControlPackets _packets
    cdef PathSet _paths
    cdef ReceivedPsns _received
    cdef ReceiveWindow _window
    cdef Counters _counters
    cdef readonly PendingAnswers pending
    cdef public long long received_bytes

    @cython.locals(penalty=cython.longlong)
    cdef long long _penalty_word(self) noexcept nogil
    cpdef bint is_triggered(self, long long size, bint forced) noexcept nogil
    cpdef void on_probe(self, Answer probe) noexcept nogil
    @cython.locals(
        count=Py_ssize_t, mpr=cython.longlong, ooo_count=cython.longlong, rcvd=cython.longlong,
        rcvd_word=cython.longlong, _=Py_ssize_t
    )
    cpdef Py_ssize_t transmit(self, TransmitBatch batch, Py_ssize_t limit, long long now) noexcept nogil
    @cython.locals(
        cack=cython.longlong, probe_id=cython.longlong, base=cython.longlong, offset=cython.longlong,
        index=Py_ssize_t, word=cython.longlong, at=Py_ssize_t, marks=cython.longlong
    )
    cdef void _append(
        self, TransmitBatch batch, long long mpr, long long ooo_count, long long rcvd_word, long long now
    ) noexcept nogil
