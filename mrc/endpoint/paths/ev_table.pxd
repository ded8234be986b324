# SPDX-License-Identifier: BSD-2-Clause
cimport cython

cdef int _SKIP, _DENIED
cdef long long _NONE, _NEVER
cdef Py_ssize_t _COLUMNS


@cython.final
cdef class EvTable:
    cdef readonly Py_ssize_t count, planes
    cdef readonly unsigned char[::1] state, closed, shut_here
    cdef readonly long long[::1] ev, port, number, plane_of
    cdef readonly long long[::1] packets, lost, marked, first_sent_at, last_sent_at, condemned_by, condemned_through
    cdef readonly long long[::1] skip_until
    cdef readonly long long[::1] port_of_plane, first, members, usable
    cdef Py_ssize_t _room
    cdef long long[::1] _columns, _slots

    @cython.locals(columns=cython.longlong[::1])
    cdef _divide(self, Py_ssize_t count)
    @cython.locals(columns=cython.longlong[::1], flags=cython.uchar[::1])
    cdef _arrange(self, Py_ssize_t planes, Py_ssize_t members)
    @cython.locals(
        old=cython.longlong[::1], columns=cython.longlong[::1], before=Py_ssize_t, count=Py_ssize_t, number=Py_ssize_t,
        index=Py_ssize_t
    )
    cpdef add(self, object paths, object numbers)
    @cython.locals(slot=Py_ssize_t)
    cdef void _put(self, Py_ssize_t index) noexcept nogil

    @cython.locals(allowed=Py_ssize_t, place=Py_ssize_t)
    cpdef bint all_denied(self) noexcept nogil
    cdef Py_ssize_t _slot(self, long long ev) noexcept nogil
    @cython.locals(slot=Py_ssize_t)
    cpdef Py_ssize_t index_of(self, long long ev) noexcept nogil
