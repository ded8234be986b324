# SPDX-License-Identifier: BSD-2-Clause
cimport cython
from mrc.endpoint.memory cimport MemoryTable
from mrc.endpoint.refusals cimport Refusal

cdef const unsigned char[::1] _STARTS, _ENDS
cdef unsigned long long _VA_LIMIT
cdef Py_ssize_t _VA, _LENGTH, _ADDRESS
cdef int _RIGHT, _WRONG_LENGTH, _NO_ADDRESS, _NO_REGION, _OUTSIDE_REGION


@cython.final
cdef class RequestChecks:
    cdef MemoryTable _memory
    cdef Refusal _refusal
    cdef long long _path_mtu
    cdef readonly long long address

    @cython.locals(mtu=cython.longlong, starts=cython.bint, ends=cython.bint, right=cython.bint)
    cpdef int check_length(self, long long psn, int opcode, long long size, long long dmalen) noexcept nogil
    @cython.locals(row=Py_ssize_t, start=cython.longlong, offset=cython.longlong)
    cpdef int check_range(
        self, long long psn, int opcode, unsigned long long va, long long rkey, long long dmalen
    ) noexcept nogil
    @cython.locals(
        starts=cython.bint, ends=cython.bint, mtu=cython.longlong, others=cython.longlong, least=cython.longlong,
        most=cython.longlong, room=cython.longlong
    )
    cdef bint _is_outside(self, long long length, long long offset, long long dmalen, int opcode) noexcept nogil
