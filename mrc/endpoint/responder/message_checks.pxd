# SPDX-License-Identifier: BSD-2-Clause
cimport cython
from mrc.endpoint.refusals cimport Refusal
from mrc.endpoint.parts.tables cimport Table

cdef long long _PSN_SHIFT, _MSN_SHIFT, _MSN_MASK, _STARTS_SHIFT, _ENDS_BIT, _NOBODY
cdef const unsigned char[::1] _STARTS, _ENDS
cdef int _RIGHT, _WRONG_NEIGHBOUR, _OTHER_DMALEN, _OTHER_VA, _OTHER_PSN
cdef Py_ssize_t _DMALEN, _VA_OF_PSN_0, _LEAST_START, _MOST_START, _ARRIVED


@cython.final
cdef class MessageChecks:
    cdef long long _mask, _path_mtu
    cdef long long[::1] _tags
    cdef Refusal _refusal
    cdef readonly Table open

    @cython.locals(
        starts=cython.longlong, ends=cython.longlong, before=cython.longlong, after=cython.longlong, verdict=cython.int
    )
    cpdef int check(self, long long psn, long long msn, long long dmalen, long long va, int opcode) noexcept nogil
    @cython.locals(
        rest=cython.longlong, most=cython.longlong, least=cython.longlong, row=Py_ssize_t, arrived=cython.longlong
    )
    cdef int _join(
        self, long long psn, long long msn, long long dmalen, long long va_of_psn_0, bint starts, bint ends
    ) noexcept nogil
