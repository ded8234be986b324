# SPDX-License-Identifier: BSD-2-Clause
cimport cython
from mrc.sim.cluster.crossings cimport Crossings
from mrc.sim.cluster.event_wheel cimport EventWheel
from mrc.sim.cluster.packet_pool cimport PacketPool

cdef Py_ssize_t _NEXT, _SIZE, _LINK, _WAY, _TO, _CLASS, _MARKS, _EPOCH, _WIDTH
cdef Py_ssize_t _DATA_FIRST, _DATA_LAST, _DATA_BYTES, _PRIORITY_FIRST, _PRIORITY_LAST, _PRIORITY_BYTES
cdef Py_ssize_t _WAITING, _FLAGS, _TIMES_DOWN, _PACKETS, _LARGEST, _IDLE, _ROW, _DROPPED, _LOST, _CUT, _MARKED, _FATES, _WORDS
cdef Py_ssize_t _FREE_AT, _BYTES, _BY_WAY, _LOST_WAY, _CUT_WAY
cdef int _NO_PORT
cdef int _PRIORITY, _TRIMMED, _DOWN, _FREE_TOLD, _LOSSY, _FROM_HOST, _BETWEEN, _FREE, _NONE
cdef int _CE, _ECN_MASK
cdef long long _NS_BITS, _CERTAIN, _HALF, _LOW_BITS
cdef unsigned long long _MASK, _GAMMA, _FIRST_MIX, _SECOND_MIX


@cython.final
cdef class Egresses:
    cdef PacketPool _pool
    cdef EventWheel _wheel
    cdef readonly int[::1] cells, fates
    cdef readonly long long[::1] words, by_way
    cdef readonly unsigned char[::1] waits_at_host
    cdef long long[::1] _rate, _delay, _framing, _queue, _trim_at, _cut_to, _ecn_low, _ecn_high, _trimmed_class, _loss
    cdef unsigned char[::1] _is_trimmable, _is_priority
    cdef unsigned long long _seed
    cdef readonly Crossings crossings
    cdef readonly dict lost_between
    cdef readonly long long lost, dropped, cut, marked, overlaps
    cdef bint _alone
    cdef long long _host_directions, _uplinks, _first_between, _hosts_per_shard, _shard

    cpdef int kind(self, Py_ssize_t direction) noexcept nogil
    cpdef bint is_priority(self, int traffic_class) noexcept nogil
    @cython.locals(
        at=Py_ssize_t, about=Py_ssize_t, flags=cython.int, kind=cython.int, held=cython.longlong
    )
    cpdef void accept(self, Py_ssize_t direction, Py_ssize_t packet, long long now) noexcept nogil
    cdef void _append(self, Py_ssize_t first, Py_ssize_t packet) noexcept nogil
    @cython.locals(packet=Py_ssize_t)
    cdef Py_ssize_t _take_first(self, Py_ssize_t first) noexcept nogil
    @cython.locals(at=Py_ssize_t, low=cython.longlong, high=cython.longlong, number=cython.longlong)
    cdef void _mark(self, Py_ssize_t direction, Py_ssize_t packet, int kind, long long held) noexcept nogil
    @cython.locals(at=Py_ssize_t)
    cdef void _trim(self, Py_ssize_t direction, Py_ssize_t packet, int kind) noexcept nogil
    @cython.locals(way=cython.int)
    cdef Py_ssize_t _place_of_way(self, Py_ssize_t packet) noexcept nogil
    cdef void _drop(self, Py_ssize_t direction, Py_ssize_t packet) noexcept nogil
    cdef void _lose(self, Py_ssize_t direction, Py_ssize_t packet) noexcept nogil
    @cython.locals(at=Py_ssize_t, packet=Py_ssize_t)
    cpdef bint free(self, Py_ssize_t direction, long long now) noexcept nogil
    @cython.locals(at=Py_ssize_t, kind=cython.int, size=cython.longlong, free_at=cython.longlong, shard=cython.longlong)
    cdef void _serialise(self, Py_ssize_t direction, Py_ssize_t packet, long long now) noexcept nogil
    @cython.locals(idle=cython.longlong)
    cdef void _note_idle(self, Py_ssize_t direction, long long now) noexcept nogil
    cdef void _take_off(self, Py_ssize_t packet) noexcept nogil
    cdef bint _is_between(self, Py_ssize_t direction) noexcept nogil
    cdef void _count_between(self, Py_ssize_t direction) noexcept with gil
    cdef bint _vanishes(self, Py_ssize_t direction) noexcept nogil
    @cython.locals(at=Py_ssize_t, direction=Py_ssize_t)
    cpdef bint arrive(self, Py_ssize_t packet) noexcept nogil
    @cython.locals(mixed=cython.ulonglong)
    cdef long long _draw(self, unsigned long long direction, unsigned long long number) noexcept nogil
    @cython.locals(at=Py_ssize_t)
    cpdef bint set_up(self, Py_ssize_t direction, bint up, long long now) noexcept nogil
