# SPDX-License-Identifier: BSD-2-Clause
cimport cython
from mrc.wire cimport octets
from mrc.endpoint.counters cimport Counters
from mrc.endpoint.requestor.sent cimport SentPackets
from mrc.wire.psn cimport unwrap
from mrc.wire.received_batch cimport ReceivedBatch

cdef long long _ACKED, _PSN_MASK, _FLAGS_AT, _RTX, _SIGN
cdef long long _SETH_AT, _OFFSET_AT, _ENTROPY_AT, _CACK_AT, _CC_TYPE_AT, _MPR_AT
cdef long long _SACK_OFFSET_AT, _BITMAP_AT, _TIMESTAMP_AT, _CC_AT
cdef long long _M_SHIFT, _PR, _CC_TYPE_SHIFT, _PENALTY_UNKNOWN, _PENALTY_MASK, _RESTORE_SHIFT
cdef long long _WORD, _OLDEST_PSNS, _NONE

cdef long long _signed(long long value) noexcept nogil


@cython.final
cdef class Sack:
    cdef public long long cack, base, trigger, mark, probe_id, entropy, tx_timestamp, mpr, penalty
    cdef public unsigned long long bitmap
    cdef public bint rtx, news, restore

    @cython.locals(
        at=Py_ssize_t, seth=cython.longlong, offset=cython.longlong, probe=cython.longlong
    )
    cpdef bint read(self, ReceivedBatch batch, Py_ssize_t row, SentPackets sent, Counters counters) noexcept nogil
    @cython.locals(room=cython.longlong)
    cdef bint _beyond(self, long long next_psn) noexcept nogil
