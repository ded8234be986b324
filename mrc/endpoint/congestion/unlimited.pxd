# SPDX-License-Identifier: BSD-2-Clause
from mrc.endpoint.congestion.base cimport CongestionController


cdef long long _NO_WINDOW


cdef class Unlimited(CongestionController):
    cdef long long room(self) noexcept nogil
    cdef void acknowledged(
        self, long long now, long long acked_bytes, bint marked, long long rtt_ns, long long penalty, bint restore
    ) noexcept nogil
    cdef void lost(self, long long now, long long lost_bytes) noexcept nogil
    cdef void nacked(self, long long now, long long nacked_bytes, bint trimmed) noexcept nogil
