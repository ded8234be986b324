# SPDX-License-Identifier: BSD-2-Clause
cimport cython
from mrc.endpoint cimport by_handle
from mrc.endpoint.doorbells cimport Doorbells
from mrc.endpoint.parts.flags cimport Away, Flag
from mrc.endpoint.parts.heaps cimport Heap
from mrc.endpoint.datapath.intake cimport Intake
from mrc.endpoint.node.operation_answers cimport OperationAnswers
from mrc.endpoint.datapath.qp_table cimport QpTable
from mrc.endpoint.datapath.scheduler cimport Scheduler
from mrc.wire cimport octets
from mrc.wire.received_batch cimport ReceivedBatch
from mrc.wire.transmit_batch cimport TransmitBatch

cdef long long _FOREVER, _NONE


@cython.final
cdef class Datapath:
    cdef readonly QpTable qps
    cdef readonly Scheduler scheduler
    cdef readonly Intake intake
    cdef object _operations
    cdef OperationAnswers _operation_answers
    cdef readonly Flag operations_wait
    cdef readonly Away away
    cdef Heap _timers
    cdef long long _fair_share, _first_done
    cdef long long _done_room
    cdef long long *_done
    cdef long long *_is_done
    cdef readonly long long done, data_before_answers
    cdef public long long now
    cdef public Doorbells doorbells

    @cython.locals(slot=cython.longlong)
    cpdef long long take_done(self) noexcept nogil
    cpdef void after_event(self, long long slot) noexcept nogil
    cdef void _note_done(self, long long slot) noexcept nogil
    @cython.locals(qpn=cython.longlong, slot=cython.longlong)
    cdef void _take_posted(self) noexcept nogil
    cpdef void receive(self, ReceivedBatch batch, long long now) noexcept nogil
    @cython.locals(place=cython.longlong)
    cdef void _receive(self, ReceivedBatch batch, long long now) noexcept nogil
    cpdef Py_ssize_t transmit(self, TransmitBatch batch, long long now) noexcept nogil
    @cython.locals(start=Py_ssize_t)
    cdef Py_ssize_t _transmit(self, TransmitBatch batch, long long now) noexcept nogil
    @cython.locals(
        slot=cython.longlong, handle=cython.longlong, free=Py_ssize_t, others_wait=cython.bint, most=Py_ssize_t,
        data_before=cython.longlong, sent=Py_ssize_t
    )
    cdef bint _turn(self, TransmitBatch batch, long long now) noexcept nogil
    cdef void _operate(self, TransmitBatch batch, long long now) noexcept with gil
    @cython.locals(slot=cython.longlong)
    cpdef long long next_deadline(self) noexcept nogil
    cpdef long long first_timer(self) noexcept nogil
    cpdef void on_timer(self, long long now) noexcept nogil
    @cython.locals(slot=cython.longlong)
    cdef void _run_timers(self, long long now) noexcept nogil
    cdef void _stuck(self, long long slot) noexcept with gil
    cdef void _went_back(self, long long now) noexcept with gil
    @cython.locals(handle=cython.longlong, deadline=cython.longlong)
    cpdef void schedule(self, long long slot) noexcept nogil
