# SPDX-License-Identifier: BSD-2-Clause
cimport cython
from mrc.wire cimport octets

cdef int _OUTSTANDING, _LOST
cdef long long _LEAST_RING, _PSN_RINGS


@cython.final
cdef class SentPackets:
    cdef public long long una, next_psn, right_edge, head, next_transmission, outstanding
    cdef readonly long long mask, log_mask
    cdef readonly unsigned char[::1] state, by_timer
    cdef readonly long long[::1] psn, times_sent, transmission, retries, waits, due_at, lost_ev, blamed
    cdef long long _most_log

    @cython.locals(rings=cython.longlong[::1], flags=cython.uchar[::1], slot=Py_ssize_t)
    cdef _make_psn_rings(self, Py_ssize_t size)
    cdef long long *log_psn
    cdef long long *log_sent_at
    cdef long long *log_size
    cdef long long *log_ev
    cdef long long *log_outstanding

    @cython.locals(entry=Py_ssize_t)
    cdef void _make_log(self, long long log) noexcept nogil
    cdef void _free_log(self) noexcept nogil
    @cython.locals(
        psn=cython.p_longlong, sent_at=cython.p_longlong, size=cython.p_longlong, ev=cython.p_longlong,
        outstanding=cython.p_longlong, mask=cython.longlong, number=cython.longlong, entry=cython.longlong
    )
    cdef void _grow_log(self) noexcept nogil
    cdef long long _log_room(self) noexcept nogil
    @cython.locals(entry=cython.longlong)
    cpdef transmitted(self, long long transmission)

    cpdef long long make_log_room(self, long long wanted) noexcept nogil
    @cython.locals(psn=cython.longlong)
    cpdef void transmit_one(self, long long size, long long ev, long long now) noexcept nogil
    @cython.locals(number=cython.longlong, slot=cython.longlong, entry=cython.longlong)
    cpdef void transmit_again_one(self, long long psn, long long size, long long ev, long long now) noexcept nogil
    @cython.locals(psn=cython.longlong, slot=cython.longlong)
    cdef long long _take_next(self) noexcept nogil
    cpdef bint waits_to_leave(self, long long psn) noexcept nogil
    @cython.locals(entry=cython.longlong)
    cpdef long long settle(self, long long transmission) noexcept nogil
    @cython.locals(total=cython.longlong, number=cython.longlong)
    cpdef long long bytes_outstanding(self) noexcept nogil
    @cython.locals(total=cython.longlong, number=cython.longlong)
    cpdef long long settle_all(self) noexcept nogil
    @cython.locals(size=cython.longlong, entry=cython.longlong, slot=cython.longlong)
    cpdef long long lose(self, long long transmission) noexcept nogil
    cpdef void skip_settled(self) noexcept nogil
