# SPDX-License-Identifier: BSD-2-Clause
cimport cython
from mrc.endpoint.counters cimport Counters
from mrc.endpoint.parts.rate_limit cimport granted

cdef Py_ssize_t _KINDS
cdef const long long[::1] _INTERVAL_NS, _BURST_NS


@cython.final
cdef class OperationRates:
    cdef Counters _counters
    cdef dict _slots
    cdef list _users
    cdef object _free
    cdef long long[::1] _paid_until

    @cython.locals(at=Py_ssize_t, paid_until=cython.longlong)
    cpdef bint is_welcome(self, Py_ssize_t slot, Py_ssize_t kind, long long now) noexcept nogil
