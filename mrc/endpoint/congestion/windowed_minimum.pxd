# SPDX-License-Identifier: BSD-2-Clause
cimport cython

cdef long long _PARTS, _ROOM, _SLOTS, _BYTES


@cython.final
cdef class WindowedMinimum:
    cdef long long _part_length, _initial, _begin, _end
    cdef bint _has_initial
    cdef long long[::1] _parts, _values

    @cython.locals(part=cython.longlong)
    cpdef long long update(self, long long now, long long value) noexcept nogil
