# SPDX-License-Identifier: BSD-2-Clause
cimport cython
from mrc.endpoint.completion_ring cimport CompletionRing
from mrc.endpoint.parts.heaps cimport Heap
from mrc.endpoint.refusals cimport Refusal
from mrc.endpoint.parts.tables cimport Table

cdef long long _FOREVER, _MILLISECOND, _NO_IMMEDIATE, _RQMSN_MASK
cdef int _RIGHT, _OTHER_RQMSN, _NO_IMMEDIATES, _NO_RECEIVE, _TOO_MANY, _SUCCESS, _FLUSHED, _RECEIVE
cdef Py_ssize_t _RQMSN, _VALUE, _LENGTH


@cython.final
cdef class Receives:
    cdef CompletionRing _completions
    cdef long long[::1] _wr_ids
    cdef long long _first, _mask
    cdef Table _stash
    cdef Heap _waiting
    cdef readonly Refusal refusal
    cdef readonly long long posted, stashed
    cdef public long long delivered, max_in_flight, stop
    cdef public bint may_wait

    @cython.locals(
        due=cython.longlong, each=cython.longlong, found=cython.longlong, verdict=cython.int
    )
    cpdef int check(self, long long psn, long long rqmsn, long long edge) noexcept nogil
    cpdef void post_at(self, long long wr_id) noexcept nogil
    cpdef int lacks_receive(self, long long waited_ns) noexcept nogil
    @cython.locals(row=Py_ssize_t)
    cdef long long _rqmsn_of(self, long long psn) noexcept nogil
    @cython.locals(expected=cython.longlong)
    cdef int _check_turn(self, long long psn, long long rqmsn, long long before) noexcept nogil
    @cython.locals(row=Py_ssize_t)
    cpdef void arrive(self, long long psn, long long rqmsn, long long immediate, long long length) noexcept nogil
    @cython.locals(row=Py_ssize_t, immediate=cython.longlong, length=cython.longlong)
    cpdef void deliver(self, long long epsn) noexcept nogil
    cpdef void consume(self, long long immediate, long long length) noexcept nogil
    @cython.locals(wr_id=cython.longlong)
    cdef long long _oldest(self) noexcept nogil
