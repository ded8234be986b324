cimport cython
from mrc.endpoint.counters cimport Counters
from mrc.endpoint.datapath cimport Datapath
from mrc.endpoint.flags cimport Flag
from mrc.endpoint.receive_budget cimport ReceiveBudget
from mrc.net cimport system
from mrc.net.mmsg cimport BatchReceiver, BatchSender
from mrc.wire.transmit_batch cimport TransmitBatch

cdef long long _SHORT_BATCH, _STREAM, _PAUSE_NS, _MOST_BEFORE_TIMERS, _AWAKE_NS, _FOREVER, _PACKET_BUFFER_BYTES


@cython.final
cdef class Turn:
    cdef Datapath _datapath
    cdef BatchReceiver _receiver
    cdef BatchSender _sender
    cdef TransmitBatch _batch
    cdef ReceiveBudget _budget
    cdef Counters _counters
    cdef long long[::1] _fds
    cdef int _fd_count, _ports
    cdef Py_ssize_t _arrived
    cdef bint _sends_first
    cdef long long _before_timers, _short_batches, _awake_for
    cdef public long long look_at, sleep_until
    cdef readonly long long readable
    cdef readonly Flag wanted

    @cython.locals(state=cython.longlong)
    cpdef run(self, long long until, bint ask_first)
    @cython.locals(received=Py_ssize_t, now=cython.longlong, sent=Py_ssize_t)
    cdef void _run(self, long long until, bint ask_first) noexcept nogil
    cdef bint _is_wanted(self) noexcept nogil
    @cython.locals(received=Py_ssize_t, now=cython.longlong)
    cdef Py_ssize_t _take_in(self) noexcept nogil
    @cython.locals(waiting=cython.longlong, place=Py_ssize_t)
    cdef void _tell_backlog(self) noexcept nogil
    cdef bint _timers_may_run(self) noexcept nogil
    @cython.locals(count=Py_ssize_t)
    cdef Py_ssize_t _transmit(self, long long now) noexcept nogil
    @cython.locals(now=cython.longlong, end=cython.longlong, readable=cython.longlong)
    cdef bint _sleep(self, long long until) noexcept nogil
    @cython.locals(readable=cython.longlong)
    cdef long long _stay_awake(self, long long until) noexcept nogil
