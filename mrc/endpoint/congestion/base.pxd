cdef class CongestionController:
    cdef public long long inflight

    cpdef long long room(self) noexcept with gil
    cpdef on_ack(
        self, long long now, long long acked_bytes, bint marked, object rtt_ns, long long penalty=*, bint restore=*
    )
    cpdef on_loss(self, long long now, long long lost_bytes)
    cpdef on_nack(self, long long now, long long nacked_bytes, bint trimmed)
    cpdef on_rtt(self, long long now, long long rtt_ns)
    cpdef void on_sent(self, long long sent_bytes) noexcept with gil
    cpdef on_removed(self, long long removed_bytes)
