# SPDX-License-Identifier: BSD-2-Clause
cimport cython
from mrc.endpoint.parts.draws cimport Draws
from mrc.endpoint.paths.reverse cimport ReverseEvs
from mrc.endpoint.paths.port_set cimport PortSet
from mrc.wire cimport octets
from mrc.wire.frames cimport Frames
from mrc.wire.transmit_batch cimport TransmitBatch

cdef unsigned int _QPN
cdef Py_ssize_t _ROOM, _HEADERS, _DQP_AT, _NONE
cdef const unsigned char[::1] _ZEROS


@cython.final
cdef class NodeEvs:
    cdef readonly ReverseEvs reverse
    cdef readonly Frames frames
    cdef public bint service_time
    cdef PortSet _ports_down
    cdef Draws _draws
    cdef long long _turn
    cdef Py_ssize_t _planes, _found
    cdef long long[::1] _numbers, _port, _peer_down, _first, _members, _allowed, _chosen, _starts

    @cython.locals(columns=cython.longlong[::1], rest=cython.longlong[::1])
    cdef _divide(self, Py_ssize_t planes, Py_ssize_t evs)
    cpdef Py_ssize_t random_ev(self) noexcept nogil
    cpdef Py_ssize_t control_ev(self) noexcept nogil
    cdef Py_ssize_t _draw(self, Py_ssize_t first, Py_ssize_t end) noexcept nogil
    cdef bint _find(self, bint minds_peer) noexcept nogil
    @cython.locals(place=Py_ssize_t)
    cdef void _gather(self, bint minds_peer, bint known_good) noexcept nogil
    @cython.locals(at=Py_ssize_t, count=Py_ssize_t, each=Py_ssize_t)
    cdef void _add_plane(self, Py_ssize_t place, bint known_good) noexcept nogil
    @cython.locals(count=Py_ssize_t, each=Py_ssize_t)
    cdef Py_ssize_t _allow(self, Py_ssize_t place) noexcept nogil
    @cython.locals(at=Py_ssize_t)
    cpdef Py_ssize_t open(
        self, TransmitBatch batch, Py_ssize_t number, int traffic_class, Py_ssize_t length
    ) noexcept nogil
