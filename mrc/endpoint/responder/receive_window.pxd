# SPDX-License-Identifier: BSD-2-Clause
cimport cython

cdef long long MPR_UNIT


@cython.final
cdef class ReceiveWindow:
    cdef long long _granted, _honoured
    cdef readonly bint dynamic
    cdef readonly long long units

    @cython.locals(edge=cython.longlong)
    cpdef long long end(self, long long epsn) noexcept nogil
    @cython.locals(granted=cython.longlong, intended=cython.longlong, units=cython.longlong)
    cpdef long long grant(self, long long epsn, long long most) noexcept nogil
