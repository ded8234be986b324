# SPDX-License-Identifier: BSD-2-Clause
cimport cython
from mrc.wire cimport octets
from mrc.endpoint.counters cimport Counters
from mrc.wire.received_batch cimport ReceivedBatch

cdef int _DROPPED, _SOUND, _TRIMMED, _TRIMMED_LASTHOP, _IPV6_UDP
cdef Py_ssize_t _MIN_PACKET, _UDP_AT, _PLEN_AT, _NH_AT, _DPORT_AT, _UDP_LEN_AT
cdef Py_ssize_t _OPCODE_AT, _FLAGS_AT, _PKEY_AT, _PSN_FLAGS_AT
cdef int _PAD_SHIFT, _TVER_MASK, _P_KEY, _TS_SHIFT
cdef const unsigned char[::1] _HAS_PAYLOAD


@cython.final
cdef class TransportTerms:
    cdef readonly const unsigned char[::1] is_own
    cdef readonly const long long[::1] plain_lengths, tseth_lengths
    cdef readonly int pkey_mask
    cdef readonly bint trims


@cython.final
cdef class PacketChecks:
    cdef Counters _counters
    cdef unsigned char[::1] _is_ours, _is_trimmed
    cdef const unsigned char[::1] _is_own
    cdef const long long[::1] _plain_lengths, _tseth_lengths
    cdef int _dscp_trimmed, _pkey_mask

    @cython.locals(
        base=Py_ssize_t, length=cython.longlong, least=cython.longlong, said=cython.longlong,
        opcode=cython.int, plen=cython.int, udp_length=cython.int, inner=cython.int, marked=cython.bint
    )
    cpdef int look(self, ReceivedBatch batch, Py_ssize_t row) noexcept nogil
    cdef bint _is_of_partition(self, ReceivedBatch batch, Py_ssize_t base) noexcept nogil
    cdef bint _fits(self, int opcode, long long spare) noexcept nogil
    @cython.locals(length=cython.longlong)
    cdef bint _is_whole(self, ReceivedBatch batch, Py_ssize_t row, long long least, long long said) noexcept nogil
    @cython.locals(base=Py_ssize_t, outer=cython.longlong)
    cdef int _cut(self, ReceivedBatch batch, Py_ssize_t row, int inner) noexcept nogil
