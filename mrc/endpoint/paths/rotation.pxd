# SPDX-License-Identifier: BSD-2-Clause
cimport cython
from mrc.endpoint.parts.draws cimport Draws
from mrc.endpoint.paths.port_set cimport PortSet
from mrc.endpoint.paths.ev_table cimport EvTable

cdef int _GOOD, _SKIP, _AFTER_SKIP, _DRAWS
cdef long long _NONE


@cython.final
cdef class Rotation:
    cdef EvTable _evs
    cdef Draws _draws
    cdef object _on_passed
    cdef readonly object _trace
    cdef unsigned char[::1] _is_active, _wanted
    cdef readonly long long[::1] active, count, size
    cdef long long[::1] _open, _taken
    cdef Py_ssize_t _open_count, _round, _widest
    cdef long long now, _least_skip

    @cython.locals(columns=cython.longlong[::1])
    cdef _divide(self, Py_ssize_t planes, Py_ssize_t evs)
    @cython.locals(plane=Py_ssize_t)
    cpdef void changed(self) noexcept nogil
    @cython.locals(heir=Py_ssize_t)
    cpdef void leave(self, Py_ssize_t plane, Py_ssize_t index) noexcept nogil
    @cython.locals(count=Py_ssize_t, heir=Py_ssize_t, place=Py_ssize_t, index=Py_ssize_t)
    cdef Py_ssize_t _heir(self, Py_ssize_t plane) noexcept nogil
    @cython.locals(place=Py_ssize_t)
    cdef Py_ssize_t _place(self, Py_ssize_t plane, Py_ssize_t index) noexcept nogil
    @cython.locals(place=Py_ssize_t, first=Py_ssize_t)
    cdef void remove(self, Py_ssize_t plane, Py_ssize_t index) noexcept nogil
    @cython.locals(first=Py_ssize_t, ahead=Py_ssize_t, place=Py_ssize_t, last=Py_ssize_t)
    cpdef bint rejoin(self, Py_ssize_t plane, Py_ssize_t index) noexcept nogil
    cpdef bint usable(self) noexcept nogil
    @cython.locals(with_room=Py_ssize_t, place=Py_ssize_t)
    cdef bint usable_beside(self, PortSet full) noexcept nogil
    @cython.locals(reset=Py_ssize_t, skipped=Py_ssize_t, index=Py_ssize_t)
    cpdef Py_ssize_t next(self) noexcept nogil
    @cython.locals(plane=Py_ssize_t, index=Py_ssize_t)
    cdef Py_ssize_t _next(self) noexcept nogil
    cdef void _shuffle(self, Py_ssize_t plane) noexcept nogil
    cdef bint _skipped_enough(self, Py_ssize_t index) noexcept nogil
    cdef void _pass(self, Py_ssize_t index) noexcept nogil
    cdef void _report_passed(self, Py_ssize_t index) noexcept with gil
    @cython.locals(index=Py_ssize_t, other=Py_ssize_t)
    cdef Py_ssize_t take_other(self, PortSet full, Py_ssize_t avoid) noexcept nogil
    @cython.locals(count=Py_ssize_t, chosen=Py_ssize_t, place=Py_ssize_t, plane=Py_ssize_t, at=Py_ssize_t)
    cdef Py_ssize_t _any_beside(self, PortSet full, Py_ssize_t avoid) noexcept nogil
    @cython.locals(place=Py_ssize_t, first=Py_ssize_t, at=Py_ssize_t)
    cdef Py_ssize_t _other_good(self, Py_ssize_t reset) noexcept nogil
