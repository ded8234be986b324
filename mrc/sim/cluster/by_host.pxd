# SPDX-License-Identifier: BSD-2-Clause
# What compiled modules use in place of by_host.py.
from mrc.endpoint.datapath.datapath cimport Datapath
from mrc.endpoint.datapath.qp_datapath cimport QpDatapath
from mrc.wire.received_batch cimport ReceivedBatch
from mrc.wire.transmit_batch cimport TransmitBatch

cdef extern from *:
    """
    #define mrc_host_handle(held) ((long long)(uintptr_t)(held))
    #define mrc_host_held(handle) ((void *)(uintptr_t)(handle))
    """
    long long mrc_host_handle(void *held) nogil
    void *mrc_host_held(long long handle) nogil

cdef inline long long of(Datapath datapath) noexcept nogil:
    return mrc_host_handle(<void *>datapath)

cdef inline void receive(long long handle, ReceivedBatch batch, long long now) noexcept nogil:
    (<Datapath>mrc_host_held(handle)).receive(batch, now)

cdef inline Py_ssize_t transmit(long long handle, TransmitBatch batch, long long now) noexcept nogil:
    return (<Datapath>mrc_host_held(handle)).transmit(batch, now)

cdef inline long long next_deadline(long long handle) noexcept nogil:
    return (<Datapath>mrc_host_held(handle)).next_deadline()

cdef inline long long first_timer(long long handle) noexcept nogil:
    return (<Datapath>mrc_host_held(handle)).first_timer()

cdef inline void on_timer(long long handle, long long now) noexcept nogil:
    (<Datapath>mrc_host_held(handle)).on_timer(now)

cdef inline bint has_done(long long handle) noexcept nogil:
    return (<Datapath>mrc_host_held(handle)).done > 0 or (<Datapath>mrc_host_held(handle)).away.failed

cdef inline bint operations_wait(long long handle) noexcept nogil:
    return (<Datapath>mrc_host_held(handle)).operations_wait.up

cdef inline long long touched(long long handle) noexcept nogil:
    return (<Datapath>mrc_host_held(handle)).intake.touched

cdef inline long long touched_slot(long long handle, long long place) noexcept nogil:
    return (<Datapath>mrc_host_held(handle)).intake.slot(place)

cdef inline long long epsn(long long handle, long long slot) noexcept nogil:
    return (<QpDatapath>mrc_host_held((<Datapath>mrc_host_held(handle)).qps.handle(slot))).responder.received.epsn

cdef inline long long bytes_placed(long long handle, long long slot) noexcept nogil:
    return (<QpDatapath>mrc_host_held((<Datapath>mrc_host_held(handle)).qps.handle(slot))).counters.bytes_placed
