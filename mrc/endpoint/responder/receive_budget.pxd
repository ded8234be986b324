# SPDX-License-Identifier: BSD-2-Clause
cimport cython
from mrc.endpoint.parts.tables cimport Table

cdef long long MPR_UNIT, _MAX_MPR, _MAX_PENALTY, _UNBOUNDED
cdef Py_ssize_t _LAST, _COLUMNS


@cython.final
cdef class ReceiveBudget:
    cdef long long _active_ns, _backlog, _capacity, _look_at, _most
    cdef Table _receiving
    cdef readonly long long penalty, units

    cpdef void set_capacity(self, long long packets) noexcept nogil
    cpdef long long units_for(self, long long newcomers) noexcept nogil
    @cython.locals(row=Py_ssize_t, known=cython.bint)
    cpdef void on_requests(self, long long qpn, long long now) noexcept nogil
    @cython.locals(row=Py_ssize_t)
    cdef void _forget_idle(self, long long now) noexcept nogil
    @cython.locals(row=Py_ssize_t)
    cpdef void forget(self, long long qpn) noexcept nogil
    @cython.locals(over=cython.longlong)
    cpdef void on_backlog(self, long long packets) noexcept nogil
    cdef void _share(self) noexcept nogil
    cdef long long _units(self, long long qps) noexcept nogil
