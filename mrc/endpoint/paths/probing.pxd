# SPDX-License-Identifier: BSD-2-Clause
cimport cython
from mrc.endpoint.paths.path_set cimport PathSet

cdef long long _FOREVER, _NONE, _MILLION
cdef Py_ssize_t _COLUMNS


@cython.final
cdef class PathProbing:
    cdef PathSet _paths
    cdef readonly object _trace
    cdef long long _first_millionths, _shortest_interval, _longest_interval, _needed, _next_due
    cdef long long[::1] _columns, _answered, _due_at, _interval, _is_probed, _probe_id, _probed
    cdef Py_ssize_t _probed_count, _room
    cdef readonly long long[::1] found
    cdef readonly Py_ssize_t found_count
    cdef readonly long long failed

    @cython.locals(
        old=cython.longlong[::1], columns=cython.longlong[::1], before=Py_ssize_t, room=Py_ssize_t, number=Py_ssize_t,
        place=Py_ssize_t
    )
    cdef void _make_room(self) noexcept with gil
    @cython.locals(columns=cython.longlong[::1])
    cdef _divide(self, Py_ssize_t room)
    @cython.locals(place=Py_ssize_t, index=Py_ssize_t)
    cpdef void take_up(self, long long now, long long path_timer) noexcept nogil
    cpdef long long next_deadline(self) noexcept nogil
    @cython.locals(place=Py_ssize_t)
    cdef void _changed(self) noexcept nogil
    @cython.locals(kept=Py_ssize_t, place=Py_ssize_t, index=Py_ssize_t)
    cpdef void due(self, long long now, long long path_timer) noexcept nogil
    cdef void _find(self, Py_ssize_t index, long long now, long long path_timer) noexcept nogil
    cdef void _trace_failed(self, long long probe_id, Py_ssize_t index) noexcept with gil
    cpdef void sent(self, Py_ssize_t index, long long probe_id) noexcept nogil
    cpdef void on_answer(self, Py_ssize_t index, long long probe_id, int m, long long now) noexcept nogil
    @cython.locals(kept=Py_ssize_t, place=Py_ssize_t)
    cdef void _drop(self, Py_ssize_t index) noexcept nogil
