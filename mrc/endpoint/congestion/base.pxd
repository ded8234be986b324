# SPDX-License-Identifier: BSD-2-Clause
from mrc.endpoint.parts.flags cimport Away

cdef long long _NO_SAMPLE


cdef class CongestionController:
    cdef public long long inflight
    cdef public Away away

    # What the datapath calls. Those with the GIL ask a controller written in Python.
    cdef long long room(self) noexcept with gil
    cdef void acknowledged(
        self, long long now, long long acked_bytes, bint marked, long long rtt_ns, long long penalty, bint restore
    ) noexcept with gil
    cdef void lost(self, long long now, long long lost_bytes) noexcept with gil
    cdef void nacked(self, long long now, long long nacked_bytes, bint trimmed) noexcept with gil
    cdef void on_sent(self, long long sent_bytes) noexcept nogil
    cdef void on_removed(self, long long removed_bytes) noexcept nogil
