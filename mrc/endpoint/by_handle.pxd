# SPDX-License-Identifier: BSD-2-Clause
# What compiled modules use in place of by_handle.py.
from mrc.endpoint.node.node_evs cimport NodeEvs
from mrc.endpoint.datapath.qp_datapath cimport QpDatapath
from mrc.wire.received_batch cimport ReceivedBatch
from mrc.wire.transmit_batch cimport TransmitBatch

cdef extern from *:
    """
    #define mrc_handle(held) ((long long)(uintptr_t)(held))
    #define mrc_held(handle) ((void *)(uintptr_t)(handle))
    """
    long long mrc_handle(void *held) nogil
    void *mrc_held(long long handle) nogil

cdef inline long long of(QpDatapath qp) noexcept nogil:
    return mrc_handle(<void *>qp)

cdef inline void end(long long handle) noexcept nogil:
    pass

cdef inline void receive(
    long long handle, ReceivedBatch batch, Py_ssize_t row, int opcode, long long now
) noexcept nogil:
    (<QpDatapath>mrc_held(handle)).receive(batch, row, opcode, now)

cdef inline void receive_trimmed(
    long long handle, ReceivedBatch batch, Py_ssize_t row, bint lasthop, long long now
) noexcept nogil:
    (<QpDatapath>mrc_held(handle)).receive_trimmed(batch, row, lasthop, now)

cdef inline bint doubts(long long handle, long long port) noexcept nogil:
    return 0 <= port < 16 and (<QpDatapath>mrc_held(handle)).doubted_ports >> port & 1  # 16: MAX_PORTS of peer_sources

cdef inline bint has_completions(long long handle) noexcept nogil:
    return (<QpDatapath>mrc_held(handle)).completions.count > 0

cdef inline void take_posted(long long handle) noexcept nogil:
    (<QpDatapath>mrc_held(handle)).take_posted()

cdef inline bint pending(long long handle) noexcept nogil:
    return (<QpDatapath>mrc_held(handle)).pending()

cdef inline bint has_work(long long handle) noexcept nogil:
    return (<QpDatapath>mrc_held(handle)).has_work()

cdef inline bint has_control(long long handle) noexcept nogil:
    return (<QpDatapath>mrc_held(handle)).has_control()

cdef inline bint window_is_open(long long handle) noexcept nogil:
    return (<QpDatapath>mrc_held(handle)).window_is_open()

cdef inline bint answers_wait(long long handle) noexcept nogil:
    return (<QpDatapath>mrc_held(handle)).answers_wait

cdef inline long long data_packets_sent(long long handle) noexcept nogil:
    return (<QpDatapath>mrc_held(handle)).counters.data_packets_sent

cdef inline Py_ssize_t transmit(
    long long handle, TransmitBatch batch, Py_ssize_t limit, long long now, bint others_wait
) noexcept nogil:
    return (<QpDatapath>mrc_held(handle)).transmit(batch, limit, now, others_wait)

cdef inline long long qpn(long long handle) noexcept nogil:
    return (<QpDatapath>mrc_held(handle)).qpn

cdef inline long long timer_at(long long handle) noexcept nogil:
    return (<QpDatapath>mrc_held(handle)).timer_at

cdef inline void set_timer_at(long long handle, long long at) noexcept nogil:
    (<QpDatapath>mrc_held(handle)).timer_at = at

cdef inline long long next_deadline(long long handle) noexcept nogil:
    return (<QpDatapath>mrc_held(handle)).next_deadline()

cdef inline void on_timer(long long handle, long long now) noexcept nogil:
    (<QpDatapath>mrc_held(handle)).on_timer(now)

cdef inline long long of_node(NodeEvs evs) noexcept nogil:
    return mrc_handle(<void *>evs)

cdef inline void end_node(long long handle) noexcept nogil:
    pass

cdef inline long long control_ev(long long handle) noexcept nogil:
    return (<NodeEvs>mrc_held(handle)).control_ev()

cdef inline Py_ssize_t open_operation(
    long long handle, TransmitBatch batch, long long number, int traffic_class, Py_ssize_t length
) noexcept nogil:
    return (<NodeEvs>mrc_held(handle)).open(batch, number, traffic_class, length)

cdef inline bint service_time(long long handle) noexcept nogil:
    return (<NodeEvs>mrc_held(handle)).service_time
