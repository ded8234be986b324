# SPDX-License-Identifier: BSD-2-Clause
cimport cython
from mrc.endpoint.parts.tables cimport Table
from mrc.wire cimport octets

cdef long long _VA, _LENGTH, _ADDRESS, _WIDTH, _NEW, _NEW_MASK, _REGISTERED, _TAKEN, _MARKS


@cython.final
cdef class MemoryRegion:
    cdef readonly object view, address, rkey
    cdef readonly long long va
    cdef public long long length
    cdef readonly bint remote_write


@cython.final
cdef class MemoryTable:
    cdef object _draw_rkey
    cdef dict _regions
    cdef long long *_new
    cdef long long *_marks
    cdef readonly Table open

    @cython.locals(registered=cython.longlong, at=Py_ssize_t)
    cdef void _add(self, long long rkey, long long va, long long length, long long address) noexcept nogil
    cpdef bint is_full(self) noexcept nogil
    @cython.locals(
        registered=cython.longlong, taken=cython.longlong, at=Py_ssize_t, row=Py_ssize_t, column=Py_ssize_t
    )
    cpdef void take_new(self) noexcept nogil
    @cython.locals(at=Py_ssize_t)
    cpdef Py_ssize_t row(self, long long rkey) noexcept nogil
