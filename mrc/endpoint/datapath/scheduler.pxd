# SPDX-License-Identifier: BSD-2-Clause
cimport cython
from mrc.endpoint cimport by_handle
from mrc.endpoint.datapath.qp_table cimport QpTable
from mrc.wire cimport octets

cdef long long _NONE
cdef Py_ssize_t _COLUMNS


@cython.final
cdef class Scheduler:
    cdef QpTable _qps
    cdef list _controllers, _governed
    cdef readonly long long ready
    cdef long long _room, _position
    cdef long long[::1] _columns, _ready, _queued, _governor, _waiting, _before, _after
    cdef long long *_first
    cdef long long *_last

    @cython.locals(
        old=cython.longlong[::1], columns=cython.longlong[::1], before=Py_ssize_t, room=Py_ssize_t, number=Py_ssize_t,
        slot=Py_ssize_t
    )
    cdef _make_room(self)
    @cython.locals(columns=cython.longlong[::1])
    cdef _divide(self, Py_ssize_t room)
    cpdef void wake(self, long long slot) noexcept nogil
    cpdef void on_event(self, long long slot) noexcept nogil
    @cython.locals(slot=cython.longlong)
    cpdef long long next(self) noexcept nogil
    cpdef void after_turn(self, long long slot, long long sent, bint sent_data) noexcept nogil
    @cython.locals(number=cython.longlong, first=cython.longlong)
    cpdef void window_moved(self, long long slot) noexcept nogil
    @cython.locals(number=cython.longlong)
    cdef void _wait_if_shut(self, long long slot) noexcept nogil
    @cython.locals(number=cython.longlong, before=cython.longlong, after=cython.longlong)
    cdef void _stop_waiting(self, long long slot) noexcept nogil
