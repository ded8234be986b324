# SPDX-License-Identifier: BSD-2-Clause
cdef class DelayAverage:
    cdef public long long value


cdef class EwmaDelay(DelayAverage):
    cdef double _weight

    cdef void update(self, long long delay) noexcept nogil
