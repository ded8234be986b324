cimport cython

cdef int _OUTSTANDING, _LOST


@cython.final
cdef class SentPackets:
    cdef public long long una, next_psn, right_edge, head, next_transmission, outstanding
    cdef readonly long long mask, log_mask
    cdef readonly unsigned char[::1] state, by_timer, log_outstanding
    cdef readonly long long[::1] psn, times_sent, transmission, retries, waits, due_at, lost_ev, blamed
    cdef readonly long long[::1] log_psn, log_sent_at, log_size, log_ev

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
    cpdef long long settle_all(self) noexcept nogil
    @cython.locals(size=cython.longlong, entry=cython.longlong, slot=cython.longlong)
    cpdef long long lose(self, long long transmission) noexcept nogil
    cpdef void skip_settled(self) noexcept nogil
