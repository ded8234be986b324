# SPDX-License-Identifier: BSD-2-Clause
cimport cython
from mrc.endpoint.parts.draws cimport Draws
from mrc.endpoint.paths.ev_table cimport EvTable
from mrc.endpoint.paths.reverse cimport ReverseEvs

cdef long long _LENGTH, _NEVER, _NONE
cdef int _DENIED, _UP, _UP_HERE, _ANY


@cython.final
cdef class ControlEvs:
    cdef EvTable _evs
    cdef ReverseEvs _reverse
    cdef Draws _draws
    cdef long long[::1] _allowed, _chosen, _first, _numbers
    cdef long long _end, _losses, _position, _until
    cdef Py_ssize_t _planes

    @cython.locals(count=Py_ssize_t, columns=cython.longlong[::1])
    cpdef renew(self)
    @cython.locals(index=Py_ssize_t)
    cpdef Py_ssize_t take_one(self, long long now) noexcept nogil
    @cython.locals(turn=Py_ssize_t, plane=Py_ssize_t, first=Py_ssize_t)
    cpdef Py_ssize_t one_aside(self, long long now) noexcept nogil
    cpdef void changed(self) noexcept nogil
    @cython.locals(plane=Py_ssize_t)
    cdef void _choose(self, long long now) noexcept nogil
    @cython.locals(plane=Py_ssize_t)
    cdef bint _find(self, int level) noexcept nogil
    @cython.locals(at=Py_ssize_t, count=Py_ssize_t, place=Py_ssize_t)
    cdef void _add_plane(self, Py_ssize_t plane, int level, bint known_good) noexcept nogil
    @cython.locals(count=Py_ssize_t, place=Py_ssize_t)
    cdef Py_ssize_t _allow(self, Py_ssize_t plane) noexcept nogil
