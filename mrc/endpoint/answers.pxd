cimport cython
from mrc.wire cimport octets
from mrc.wire.received_batch cimport ReceivedBatch

cdef Py_ssize_t _LABEL_AT, _SPORT_AT, _PSN_AT, _REQUEST_STAMP_AT, _PROBE_STAMP_AT
cdef unsigned int _TS, _RTX, _FTYPE, _TSR


@cython.final
cdef class Answer:
    cdef readonly long long psn, highest, probe_id, arrived_at
    cdef readonly unsigned int entropy
    cdef readonly int tx_timestamp, reason
    cdef readonly long long unit_ns
    cdef readonly bint marked, rtx

    cpdef int timestamp(self, long long now)


@cython.final
cdef class Reflector:
    cdef bint _low_half_in_port
    cdef long long _unit_0_ns, _unit_1_ns

    @cython.locals(base=Py_ssize_t)
    cdef void of_request(self, Answer answer, ReceivedBatch batch, Py_ssize_t row, bint whole) noexcept
    @cython.locals(base=Py_ssize_t)
    cdef void of_probe(self, Answer answer, ReceivedBatch batch, Py_ssize_t row) noexcept
    @cython.locals(port=cython.uint, label=cython.uint)
    cdef void _common(self, Answer answer, ReceivedBatch batch, Py_ssize_t base) noexcept
    cdef void _stamp(self, Answer answer, ReceivedBatch batch, Py_ssize_t at) noexcept


@cython.final
cdef class PendingAnswers:
    cdef object _waiting

    cpdef add(self, Answer answer)
