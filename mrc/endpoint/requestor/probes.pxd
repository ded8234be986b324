# SPDX-License-Identifier: BSD-2-Clause
cimport cython
from mrc.endpoint.counters cimport Counters
from mrc.endpoint.paths.path_set cimport PathSet
from mrc.endpoint.paths.probing cimport PathProbing
from mrc.endpoint.requestor.sent cimport SentPackets
from mrc.wire cimport octets
from mrc.wire.transmit_batch cimport TransmitBatch

cdef long long _TAIL, _NONE, _FOREVER, _LEAST_REMEMBERED, _REMEMBERED, _ID_MASK, _UNIT_NS
cdef Py_ssize_t _KNOWN, _TARGET, _AFTER, _ASKED_AT, _COLUMNS
cdef Py_ssize_t _ROOM, _HEADERS, _OPCODE_AT, _PKEY_AT, _DQP_AT, _PSN_AT, _PETH_AT, _PROBE_ID_AT, _RESERVED_AT
cdef Py_ssize_t _SPDCID_AT, _DPDCID_AT, _STAMP_AT
cdef int _PROBE, _P_KEY, _FTYPE


@cython.final
cdef class Probes:
    cdef readonly object _trace
    cdef Counters _counters
    cdef PathSet _paths
    cdef readonly PathProbing _path_probing
    cdef long long *_cells
    cdef long long _places, _longest_interval, _longest_held, _next, _peer_qpn, _qpn, _tail_at, _tail_from, _tail_interval, _unsent
    cdef int _traffic_class
    cdef bint _hastened
    cdef readonly long long asked_at
    cdef readonly bint tail_armed, tail_guessed, waiting

    cpdef void arm_tail(self, long long now, long long timer_ns, bint guessed=*) noexcept nogil
    cpdef void hasten_tail(self, long long now, long long since_ns) noexcept nogil
    cpdef void time_tail(self, long long timer_ns) noexcept nogil
    cpdef void take_up_bad_evs(self, long long now, long long path_timer_ns) noexcept nogil
    cpdef long long next_deadline(self) noexcept nogil
    cpdef bint tail_is_due(self, long long now) noexcept nogil
    @cython.locals(longest=cython.longlong)
    cpdef void on_timer(
        self, long long now, SentPackets sent, long long path_timer_ns, bint held, bint asks, bint goes_on
    ) noexcept nogil
    @cython.locals(failed=cython.longlong, place=Py_ssize_t, probe_id=cython.longlong)
    cpdef void probe_paths(self, long long now, long long path_timer_ns) noexcept nogil
    @cython.locals(at=Py_ssize_t)
    cdef long long _enqueue(self, long long target, long long after, long long asked_at) noexcept nogil
    cdef Py_ssize_t _at(self, long long number) noexcept nogil
    @cython.locals(
        old=cython.p_longlong, cells=cython.p_longlong, room=cython.longlong, number=cython.longlong, source=Py_ssize_t,
        at=Py_ssize_t, column=Py_ssize_t
    )
    cdef void _remember_more(self) noexcept nogil
    @cython.locals(count=cython.longlong)
    cpdef long long transmit(self, TransmitBatch batch, long long limit, long long now) noexcept nogil
    @cython.locals(target=cython.longlong, known=cython.bint)
    cdef void _skip_forbidden(self) noexcept nogil
    @cython.locals(index=Py_ssize_t, at=Py_ssize_t)
    cdef void _append(self, TransmitBatch batch, long long probe_id, long long target, long long now) noexcept nogil
    cdef void _trace_sent(self, long long probe_id, long long index, long long target) noexcept with gil
    @cython.locals(at=Py_ssize_t, number=cython.longlong)
    cpdef long long on_answer(self, long long probe_id, long long m, long long now) noexcept nogil
    cdef void _trace_answered(self, long long probe_id, long long m, long long target) noexcept with gil
