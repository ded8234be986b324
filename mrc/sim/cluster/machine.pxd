# SPDX-License-Identifier: BSD-2-Clause
cimport cython
from mrc.endpoint.parts cimport interpreter
from mrc.endpoint.parts.heaps cimport Heap
from mrc.sim.cluster cimport by_host
from mrc.sim.cluster.egresses cimport Egresses
from mrc.sim.cluster.event_wheel cimport EventWheel
from mrc.sim.cluster.host_columns cimport HostColumns
from mrc.sim.cluster.packet_pool cimport PacketPool
from mrc.sim.cluster.ways cimport Ways
from mrc.wire cimport octets
from mrc.wire.received_batch cimport ReceivedBatch
from mrc.wire.transmit_batch cimport TransmitBatch

cdef long long _FOREVER, _MOST_RECEIVED
cdef int _NONE, _ARRIVAL, _FREE, _HOST, _PRIORITY, _TRIMMED, _MOST_WAITING, _REFILL_BELOW, _PULL
cdef Py_ssize_t _NEXT, _SIZE, _LINK, _WAY, _TO, _CLASS, _MARKS, _WIDTH, _ROOM, _SENT, _LAST_SENT, _BY_WAY, _OUTER
cdef Py_ssize_t _BATCH_ROOM, _DESTINATION_AT, _SPORT_AT
cdef int _NO_PORT


@cython.final
cdef class Machine:
    cdef PacketPool _pool
    cdef EventWheel _wheel
    cdef Egresses _egresses
    cdef Ways _ways
    cdef object _work, _hosts
    cdef Heap _timers
    cdef TransmitBatch _transmitted
    cdef ReceivedBatch _received
    cdef int _planes, _uplinks
    cdef long long[::1] _handles, _timer_at, _looks_at, _lengths, _ports, _received_classes
    cdef int[::1] _first_waiting, _last_waiting
    cdef unsigned char[::1] _host_pending, _received_headers
    cdef readonly long long[::1] first_qp, boundary, placed
    cdef public long long until
    cdef readonly long long now, events, hops, sent, delivered, delivered_cut, placed_bytes

    @cython.locals(state=cython.longlong)
    cpdef run(self, long long most)
    @cython.locals(at=cython.longlong, timer=cython.longlong, event=cython.int, kind=cython.int)
    cdef void _run(self, long long last) noexcept nogil
    cdef void _went_back(self, long long at) noexcept with gil
    cpdef long long next_at(self) noexcept nogil
    @cython.locals(direction=cython.int, host=Py_ssize_t)
    cdef void _arrive(self, Py_ssize_t packet) noexcept nogil
    cpdef void call(self, Py_ssize_t host) noexcept nogil
    cdef void _deliver(self, Py_ssize_t host) noexcept nogil
    @cython.locals(
        count=Py_ssize_t, packet=Py_ssize_t, at=Py_ssize_t, after=Py_ssize_t, place=cython.longlong
    )
    cdef void _take_in(self, Py_ssize_t host) noexcept nogil
    @cython.locals(qp=Py_ssize_t, placed=cython.longlong, epsn=cython.longlong)
    cdef void _look_at_arrived(self, Py_ssize_t host, long long slot) noexcept nogil
    cdef void _report_arrived(self, Py_ssize_t qp, long long epsn) noexcept with gil
    cdef void _hand_over(self, Py_ssize_t host) noexcept with gil
    @cython.locals(
        handle=cython.longlong, operations=cython.bint, count=Py_ssize_t, row=Py_ssize_t, deadline=cython.longlong
    )
    cdef void _pump(self, Py_ssize_t host) noexcept nogil
    @cython.locals(least=cython.int, most=cython.int, cable=Py_ssize_t, last=Py_ssize_t, waiting=cython.int)
    cdef bint _has_room(self, Py_ssize_t host) noexcept nogil
    @cython.locals(
        batch_at=Py_ssize_t, packet=Py_ssize_t, at=Py_ssize_t, plane=cython.int, traffic_class=cython.int,
        uplink=cython.int, way=Py_ssize_t
    )
    cdef void _launch(self, Py_ssize_t host, Py_ssize_t row) noexcept nogil
    @cython.locals(host=Py_ssize_t, when=cython.longlong)
    cdef void _on_timer(self) noexcept nogil
    cdef void _look_after(self, Py_ssize_t host) noexcept with gil
    cdef void _look_after_later(self, Py_ssize_t host) noexcept with gil
