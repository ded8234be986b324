# SPDX-License-Identifier: BSD-2-Clause
cimport cython
from mrc.sim.cluster cimport by_host


@cython.final
cdef class HostColumns:
    cdef readonly long long[::1] handles, timer_at, looks_at, first_qp, boundary, placed
    cdef readonly int[::1] first_waiting, last_waiting
    cdef readonly unsigned char[::1] pending
