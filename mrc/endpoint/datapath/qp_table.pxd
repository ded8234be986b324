# SPDX-License-Identifier: BSD-2-Clause
cimport cython
from mrc.endpoint cimport by_handle
from mrc.endpoint.datapath.qp_datapath cimport QpDatapath
from mrc.wire cimport octets

cdef long long _NONE, _NO_HANDLE, _SPREAD, _SPREAD_BITS


@cython.final
cdef class QpTable:
    cdef list _qps, _removed
    cdef object _free
    cdef bint _some_removed
    cdef readonly long long room
    cdef long long _mask, _under_way
    cdef long long *_handles
    cdef long long *_qpns
    cdef long long *_places

    cpdef add(self, QpDatapath qp)
    cdef void begin(self) noexcept nogil
    cdef void end(self) noexcept nogil
    cdef void _let_go(self) noexcept with gil
    cdef long long _first_place(self, long long qpn) noexcept nogil
    @cython.locals(place=cython.longlong)
    cpdef long long find(self, long long qpn) noexcept nogil
    cpdef bint holds(self, long long slot) noexcept nogil
    cpdef long long handle(self, long long slot) noexcept nogil
