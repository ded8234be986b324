# SPDX-License-Identifier: BSD-2-Clause
cimport cython
from mrc.endpoint.doorbells cimport Doorbells
from mrc.wire cimport octets

cdef Py_ssize_t _SENDS_POSTED, _RECEIVES_POSTED, _SEND_MASK, _RECEIVE_MASK
cdef Py_ssize_t _SENDS_TAKEN, _RECEIVES_TAKEN, _SENDS_ENDED, _RECEIVES_ENDED, _STATE, _QPN, _FLAGS
cdef Py_ssize_t _CAME, _OVERRUN, _POLLED, _CQ_MASK, _CQ_ROOM, _ARMED, _EVENT_FD, _ASYNC_FD
cdef Py_ssize_t _DONE_WR_ID, _DONE_STATUS, _DONE_KIND, _DONE_LENGTH, _DONE_IMMEDIATE, _DONE_QPN
cdef long long _SEND_WORDS, _DONE_WORDS, _NOTHING, _ANYTHING, _NO_IMMEDIATE, _SIGNALED, _SOLICITED
cdef int _RECEIVE, _SUCCESS, _FLUSHED, _WRITE


@cython.final
cdef class WorkRings:
    cdef Doorbells _bells
    cdef long long *_words
    cdef long long *_sends
    cdef long long *_receives
    cdef long long *_send_cq
    cdef long long *_receive_cq
    cdef long long *_sent
    cdef long long *_received

    cpdef void enter(self, long long state) noexcept nogil
    cpdef bint send_waits(self) noexcept nogil
    @cython.locals(taken=cython.longlong)
    cpdef long long take_send(self) noexcept nogil
    cpdef long long send(self, long long at) noexcept nogil
    cpdef bint receive_waits(self) noexcept nogil
    @cython.locals(taken=cython.longlong)
    cpdef long long take_receive(self) noexcept nogil
    cpdef void flush(self) noexcept nogil
    @cython.locals(ended=cython.longlong, flags=cython.longlong)
    cpdef void complete(
        self, long long wr_id, int status, long long byte_len, int kind, long long immediate
    ) noexcept nogil
    @cython.locals(came=cython.longlong, at=cython.longlong, armed=cython.longlong, wanted=cython.bint, solicited=cython.bint)
    cdef void _put(
        self, long long *cq, long long *done, long long wr_id, int status, long long byte_len, int kind,
        long long immediate
    ) noexcept nogil
