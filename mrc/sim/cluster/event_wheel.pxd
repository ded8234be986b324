# SPDX-License-Identifier: BSD-2-Clause
cimport cython
from mrc.sim.cluster.packet_pool cimport PacketPool
from mrc.wire cimport octets

cdef Py_ssize_t _NEXT, _SIZE, _LINK, _WIDTH, _ROW
cdef int _NONE, _ARRIVAL, _FREE
cdef long long _FOREVER


@cython.final
cdef class EventWheel:
    cdef PacketPool _pool
    cdef int[::1] _next, _firsts, _last_firsts, _heads, _tails, _directions_known
    cdef long long[::1] _occupied
    cdef long long _mask, _words, _directions, _in_order
    cdef readonly long long count, position, span

    @cython.locals(slot=Py_ssize_t)
    cpdef void add(self, long long at, int event) noexcept nogil
    @cython.locals(slot=Py_ssize_t)
    cpdef void add_first(self, long long at, int packet) noexcept nogil
    @cython.locals(
        head=cython.int, tail=cython.int, left=cython.int, right=cython.int, event=cython.int, length=cython.int,
        runs=cython.int, of_left=cython.int, of_right=cython.int
    )
    cdef void _sort_firsts(self, Py_ssize_t slot) noexcept nogil
    @cython.locals(size=cython.int, another=cython.int)
    cdef bint _comes_before(self, Py_ssize_t one, Py_ssize_t other) noexcept nogil
    cdef void _occupy(self, Py_ssize_t slot) noexcept nogil
    @cython.locals(kind=cython.int)
    cdef void _set_next(self, int event, int after) noexcept nogil
    @cython.locals(kind=cython.int)
    cdef int _after(self, int event) noexcept nogil
    @cython.locals(slot=Py_ssize_t, word=Py_ssize_t, at=cython.longlong, bits=cython.longlong)
    cpdef long long next_at(self) noexcept nogil
    @cython.locals(slot=Py_ssize_t, event=cython.int, after=cython.int)
    cpdef int take(self, long long at) noexcept nogil
    @cython.locals(after=cython.int)
    cdef void _prepare(self, int event) noexcept nogil
    cpdef void advance(self, long long at) noexcept nogil
