# SPDX-License-Identifier: BSD-2-Clause
cimport cython
from mrc.endpoint.work_rings cimport WorkRings

cdef Py_ssize_t _COLUMNS, _LEAST_ROOM


@cython.final
cdef class CompletionRing:
    cdef object _complete, _qpn
    cdef readonly Py_ssize_t count
    cdef readonly WorkRings rings
    cdef Py_ssize_t _expected, _room
    cdef long long[::1] _columns, _wr_ids, _statuses, _byte_lens, _kinds, _immediates

    cpdef expect(self)
    @cython.locals(place=Py_ssize_t)
    cpdef void add(self, long long wr_id, int status, long long byte_len, int kind, long long immediate) noexcept nogil
    @cython.locals(
        old=cython.longlong[::1], columns=cython.longlong[::1], before=Py_ssize_t, room=Py_ssize_t, number=Py_ssize_t,
        place=Py_ssize_t
    )
    cdef void _grow(self) noexcept with gil
    @cython.locals(columns=cython.longlong[::1], room=Py_ssize_t)
    cdef _divide(self)
