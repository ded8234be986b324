# SPDX-License-Identifier: BSD-2-Clause
cimport cython

cdef int _NOTHING, _NO_BITMAP, _NO_PKT_BUFFER, _NO_RESOURCE


@cython.final
cdef class ResourceLimits:
    cdef long long _held, _span, _stashed

    cpdef int lacking(self, long long distance, long long held, long long stashed) noexcept nogil
