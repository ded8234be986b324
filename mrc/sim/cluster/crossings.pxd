# SPDX-License-Identifier: BSD-2-Clause
cimport cython
from mrc.endpoint.parts cimport interpreter
from mrc.sim.cluster.event_wheel cimport EventWheel
from mrc.sim.cluster.packet_pool cimport PacketPool
from mrc.wire cimport octets

cdef Py_ssize_t _NEXT, _WIDTH, _ROOM
cdef long long _FOREVER, _MANY


@cython.final
cdef class Crossings:
    cdef unsigned char[::1] _headers
    cdef int[::1] _cells, _firsts, _lasts, _destinations
    cdef long long[::1] _times
    cdef Py_ssize_t _room, _destination_count
    cdef long long _first_at
    cdef readonly long long used

    cpdef list shards(self)
    cpdef long long earliest(self) noexcept nogil

    @cython.locals(row=Py_ssize_t, number=Py_ssize_t)
    cdef void put(self, Py_ssize_t shard, PacketPool pool, Py_ssize_t packet, long long at) noexcept nogil
    @cython.locals(state=cython.longlong)
    cpdef take(self, Py_ssize_t shard, PacketPool pool, EventWheel wheel)
    @cython.locals(row=Py_ssize_t, packet=Py_ssize_t, following=Py_ssize_t, number=Py_ssize_t)
    cdef void _take(self, Py_ssize_t shard, PacketPool pool, EventWheel wheel) noexcept nogil
    @cython.locals(place=Py_ssize_t)
    cpdef void clear(self) noexcept nogil
    cdef void _grow(self) noexcept with gil
