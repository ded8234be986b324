# SPDX-License-Identifier: BSD-2-Clause
cimport cython
from mrc.endpoint.counters cimport Counters
from mrc.endpoint.datapath.datapath cimport Datapath
from mrc.endpoint.doorbells cimport Doorbells
from mrc.endpoint.parts cimport interpreter
from mrc.endpoint.parts.flags cimport Away, Flag
from mrc.endpoint.responder.receive_budget cimport ReceiveBudget
from mrc.net cimport system
from mrc.net.endpoint_lock cimport EndpointLock
from mrc.net.mmsg cimport BatchReceiver, BatchSender
from mrc.wire.transmit_batch cimport TransmitBatch

cdef long long _SHORT_BATCH, _STREAM, _PAUSE_NS, _MOST_BEFORE_TIMERS, _AWAKE_NS, _FOREVER, _PACKET_BUFFER_BYTES
cdef long long _PATIENCE_NS, _LOOK_NS, _LOOKS, _LONGEST_SLEEP_NS, _SHORTLY_NS


@cython.final
cdef class Turn:
    cdef Datapath _datapath
    cdef BatchReceiver _receiver
    cdef BatchSender _sender
    cdef TransmitBatch _batch
    cdef ReceiveBudget _budget
    cdef Counters _counters
    cdef Away _away
    cdef long long[::1] _fds, _python_fds
    cdef EndpointLock _lock
    cdef int _bell, _call, _fd_count, _ports
    cdef long long[::1] _call_fds, _served_fds
    cdef bint _asleep, _in_turn, _over, _stands_in, _was_away, _watcher_sleeps
    cdef long long _left_at
    cdef Py_ssize_t _arrived
    cdef bint _sends_first
    cdef long long _before_timers, _short_batches, _data_before_answers
    cdef public long long look_at, sleep_until
    cdef readonly long long holder, readable
    cdef readonly Flag wanted

    cpdef have_doorbells(self, unsigned long long address)
    cpdef begin(self)
    cpdef inside(self, object action, long long thread)
    cpdef ring(self, int bell)
    @cython.locals(asleep=cython.bint)
    cpdef end(self)
    cdef _catch_up(self)
    cdef void _come(self) noexcept nogil
    cdef void _leave(self) noexcept nogil
    @cython.locals(state=cython.longlong)
    cpdef run(self, long long until, bint ask_first)
    @cython.locals(received=Py_ssize_t, now=cython.longlong, sent=Py_ssize_t)
    cdef void _run(self, long long until, bint ask_first) noexcept nogil
    cdef bint _is_wanted(self) noexcept nogil
    cdef void _ask_python_fds(self) noexcept nogil
    @cython.locals(received=Py_ssize_t, now=cython.longlong)
    cdef Py_ssize_t _take_in(self) noexcept nogil
    @cython.locals(waiting=cython.longlong, place=Py_ssize_t)
    cdef void _tell_backlog(self) noexcept nogil
    cdef bint _timers_may_run(self) noexcept nogil
    @cython.locals(count=Py_ssize_t)
    cdef Py_ssize_t _transmit(self, long long now) noexcept nogil
    @cython.locals(end=cython.longlong, readable=cython.longlong)
    cdef bint _sleep(self, long long until) noexcept nogil
    @cython.locals(readable=cython.longlong)
    cdef long long _wait(self, long long end) noexcept nogil
    @cython.locals(fd=cython.longlong)
    cdef void _tell(self) noexcept nogil
    @cython.locals(readable=cython.longlong)
    cdef long long _stay_awake(self, long long until) noexcept nogil
    @cython.locals(state=cython.longlong)
    cpdef stand_in(self)
    @cython.locals(seen=cython.longlong, looks=cython.longlong, left=cython.longlong, patience=cython.longlong)
    cdef void _stand_in(self) noexcept nogil
    cdef void _watch_over(self, bint quiet) noexcept nogil
    @cython.locals(busy=cython.bint, sleep=cython.longlong)
    cdef void _serve(self) noexcept nogil
    @cython.locals(received=Py_ssize_t, sent=Py_ssize_t)
    cdef bint _turn_alone(self) noexcept nogil
