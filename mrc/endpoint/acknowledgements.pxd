cimport cython
from mrc.endpoint.congestion.base cimport CongestionController
from mrc.endpoint.counters cimport Counters
from mrc.endpoint.loss cimport LossDetector
from mrc.endpoint.rtt cimport RttEstimator
from mrc.endpoint.sack_reading cimport Sack
from mrc.endpoint.sent cimport SentPackets

cdef long long _ACKED, _LOST, _UNIT, _STAMP_MASK, _WORD, _NONE

cdef long long _held(long long reflected, long long sent_at, long long sample) noexcept nogil


@cython.final
cdef class Acknowledgements:
    cdef SentPackets _sent
    cdef RttEstimator _rtt
    cdef LossDetector _loss
    cdef Counters _counters
    cdef CongestionController _controller
    cdef object _paths
    cdef readonly object _trace
    cdef bint _service_time
    cdef long long _arrived, _removed

    @cython.locals(acked=cython.longlong, una=cython.longlong, psn=cython.longlong, bits=cython.ulonglong)
    cpdef Py_ssize_t apply(self, Sack sack, long long now) except -1
    @cython.locals(acked=cython.longlong)
    cpdef Py_ssize_t acknowledge(self, long long cack, long long now) except -1
    cdef _tell(self)
    @cython.locals(sent=SentPackets, acked=cython.longlong, psn=cython.longlong)
    cdef Py_ssize_t _up_to(self, long long cack, long long now) except -1
    cdef bint _is_news(self, long long psn) noexcept nogil
    @cython.locals(sent=SentPackets, slot=cython.longlong, transmission=cython.longlong, was_lost=cython.bint)
    cdef Py_ssize_t _take(self, long long psn, long long now) except -1
    @cython.locals(sent=SentPackets, sent_at=cython.longlong)
    cdef _false_alarm(self, long long psn, bint was_lost, long long now)
    @cython.locals(sent=SentPackets, slot=cython.longlong, blamed=cython.longlong, entry=cython.longlong,
                   took=cython.longlong)
    cdef bint _undo_loss(self, long long psn, long long now, long long ev_index) except -1
    @cython.locals(sent=SentPackets, slot=cython.longlong, sample=cython.longlong, transmission=cython.longlong,
                   sent_at=cython.longlong)
    cpdef Py_ssize_t sample_rtt(self, Sack sack, long long now) except? -1
    cdef _original_arrived(self, Sack sack, long long now)
