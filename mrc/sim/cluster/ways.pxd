# SPDX-License-Identifier: BSD-2-Clause
cimport cython
from mrc.sim.cluster.packet_pool cimport PacketPool

cdef Py_ssize_t _LINK, _MARKS, _TO, _WAY, _WIDTH
cdef int _HOP, _ARRIVED


@cython.final
cdef class Ways:
    cdef PacketPool _pool
    cdef int _planes, _hosts_per_leaf, _leaves, _spines, _leaves_per_pod, _pods, _cores, _host_cables, _leaf_cables
    cdef bint _three_tiers

    cpdef int first(self, int host, int plane) noexcept nogil
    cpdef int host_of(self, int direction) noexcept nogil
    @cython.locals(
        at=Py_ssize_t, hop=cython.int, plane=cython.int, uplink=cython.int, to=cython.int, direction=cython.int,
        leaf=cython.int
    )
    cpdef int next(self, int packet) noexcept nogil
    @cython.locals(spine=cython.int, core=cython.int, far=cython.int, leaf=cython.int)
    cdef int _next_of_three(
        self, int hop, int plane, int uplink, int to, int direction, Py_ssize_t at
    ) noexcept nogil
    cdef int _last(self, int plane, int host) noexcept nogil
    cdef int _leaf_cable(self, int plane, int leaf, int spine) noexcept nogil
    @cython.locals(group=cython.int)
    cdef int _core_cable(self, int plane, int pod, int spine, int core) noexcept nogil
