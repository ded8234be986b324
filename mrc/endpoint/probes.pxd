cimport cython
from mrc.endpoint.counters cimport Counters
from mrc.endpoint.paths.path_set cimport PathSet
from mrc.endpoint.sent cimport SentPackets
from mrc.wire.transmit_batch cimport TransmitBatch

cdef long long _TAIL, _NONE


@cython.final
cdef class Probes:
    cdef object _classes, _config, _next_id, _path_probing, _peer_qpn, _purpose, _qpn, _queue
    cdef readonly object _trace
    cdef Counters _counters
    cdef PathSet _paths
    cdef long long _tail_at, _tail_interval
    cdef readonly long long asked_at
    cdef readonly bint tail_armed, waiting

    cpdef void arm_tail(self, long long now, long long timer_ns) noexcept nogil
    cpdef void take_up_bad_evs(self, long long now, long long path_timer_ns) noexcept with gil
    cpdef long long next_deadline(self) noexcept with gil
    cpdef bint tail_is_due(self, long long now) noexcept nogil
    cpdef void on_timer(
        self, long long now, SentPackets sent, long long path_timer_ns, bint asks, bint goes_on
    ) noexcept with gil
    cpdef long long transmit(self, TransmitBatch batch, long long limit, long long now) noexcept with gil
    cpdef long long on_answer(self, long long probe_id, long long m, long long now) noexcept with gil
