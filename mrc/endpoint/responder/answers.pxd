# SPDX-License-Identifier: BSD-2-Clause
cimport cython
from mrc.endpoint.paths.path_set cimport PathSet
from mrc.wire cimport octets
from mrc.wire.received_batch cimport ReceivedBatch
from mrc.wire.transmit_batch cimport TransmitBatch

cdef Py_ssize_t _LABEL_AT, _SPORT_AT, _PSN_AT, _REQUEST_STAMP_AT, _PROBE_STAMP_AT, _OPCODE_AT, _PKEY_AT, _DQP_AT
cdef Py_ssize_t _ROOM, _HEADERS, _LEAST_PENDING, _MAX_PENDING, _COLUMNS
cdef unsigned int _TS, _RTX, _FTYPE, _TSR, _P_KEY


@cython.final
cdef class Answer:
    cdef public long long psn, highest, probe_id, arrived_at, unit_ns, entropy
    cdef public int tx_timestamp, reason
    cdef public bint marked, rtx

    cpdef void begin(
        self, long long psn, long long highest, bint marked, long long probe_id, int reason, long long arrived_at
    ) noexcept nogil
    cpdef int timestamp(self, long long now) noexcept nogil


@cython.final
cdef class Reflector:
    cdef bint _low_half_in_port
    cdef long long _unit_0_ns, _unit_1_ns

    @cython.locals(base=Py_ssize_t)
    cdef void of_request(self, Answer answer, ReceivedBatch batch, Py_ssize_t row, bint whole) noexcept nogil
    @cython.locals(base=Py_ssize_t)
    cdef void of_probe(self, Answer answer, ReceivedBatch batch, Py_ssize_t row) noexcept nogil
    @cython.locals(port=cython.longlong, label=cython.longlong)
    cdef void _common(self, Answer answer, ReceivedBatch batch, Py_ssize_t base) noexcept nogil
    cdef void _stamp(self, Answer answer, ReceivedBatch batch, Py_ssize_t at) noexcept nogil


@cython.final
cdef class PendingAnswers:
    cdef readonly Py_ssize_t count
    cdef Py_ssize_t _first, _room
    cdef long long *_cells

    @cython.locals(old=cython.p_longlong, cells=cython.p_longlong, number=Py_ssize_t, column=Py_ssize_t)
    cdef void _grow(self) noexcept nogil
    cdef Py_ssize_t _place(self, Py_ssize_t number) noexcept nogil
    @cython.locals(at=Py_ssize_t)
    cpdef void add(self, Answer answer) noexcept nogil
    @cython.locals(at=Py_ssize_t)
    cpdef void pop(self, Answer answer) noexcept nogil
    cpdef void clear(self) noexcept nogil


@cython.final
cdef class ControlPackets:
    cdef PathSet _paths
    cdef long long _peer_qpn
    cdef int _traffic_class

    @cython.locals(row=Py_ssize_t, at=Py_ssize_t)
    cdef Py_ssize_t open(
        self, TransmitBatch batch, Py_ssize_t index, int opcode, unsigned long long psn_word, Py_ssize_t length
    ) noexcept nogil
