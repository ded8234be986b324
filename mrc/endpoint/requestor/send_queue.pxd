# SPDX-License-Identifier: BSD-2-Clause
cimport cython
from mrc.endpoint.completion_ring cimport CompletionRing
from mrc.endpoint.work cimport WriteRequest

cdef long long _NONE, _NO_IMMEDIATE
cdef Py_ssize_t _COLUMNS
cdef int _SUCCESS, _WRITE


@cython.final
cdef class SendQueue:
    cdef CompletionRing _completions
    cdef list _requests
    cdef long long[::1] _columns
    cdef long long _kept, _mask, _max_wimm, _path_mtu
    cdef readonly long long immediates_out, next_msn, next_rqmsn, oldest, unsent
    cdef public long long[::1] wr_ids, address, first_psn, immediate, last_psn, length, packets, remote_va, rkey, rqmsn
    cdef public long long[::1] sent_packets

    @cython.locals(
        before=cython.longlong, old=cython.longlong[::1], columns=cython.longlong[::1], msn=cython.longlong,
        number=Py_ssize_t
    )
    cdef _make_room(self, Py_ssize_t room)
    cpdef post(self, WriteRequest request)
    cpdef reserve(self, Py_ssize_t room)
    @cython.locals(place=cython.longlong)
    cpdef void post_at(
        self, long long wr_id, long long address, long long length, long long remote_va, long long rkey,
        long long immediate
    ) noexcept nogil
    cdef long long place(self, long long msn) noexcept nogil
    cpdef bint has_unsent(self) noexcept nogil
    @cython.locals(place=cython.longlong)
    cpdef bint one_packet_waits(self) noexcept nogil
    @cython.locals(place=cython.longlong)
    cpdef long long next(self) noexcept nogil
    @cython.locals(place=cython.longlong)
    cpdef void begin(self, long long psn) noexcept nogil
    @cython.locals(place=cython.longlong)
    cpdef void finish(self, long long una) noexcept nogil
