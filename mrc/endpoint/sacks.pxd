cimport cython
from mrc.endpoint.answers cimport Answer, PendingAnswers
from mrc.endpoint.counters cimport Counters
from mrc.endpoint.receive_window cimport ReceiveWindow
from mrc.endpoint.received cimport ReceivedPsns

cdef long long _MIN_COUNTED_BYTES


@cython.final
cdef class SackMaker:
    cdef object _qpn, _peer_qpn, _budget, _paths, _classes, _penalty, _restore_word
    cdef long long _threshold, _bytes_since
    cdef ReceivedPsns _received
    cdef ReceiveWindow _window
    cdef Counters _counters
    cdef readonly PendingAnswers pending
    cdef public long long received_bytes

    cpdef bint is_triggered(self, long long size, bint forced) noexcept nogil
    cpdef on_probe(self, Answer probe)
