# SPDX-License-Identifier: BSD-2-Clause
cimport cython
from mrc.wire cimport octets

cdef unsigned int _SEED
cdef Py_ssize_t _ICRC_BYTES, _IPV4_BYTES, _HEAD, _FROM_UDP
cdef const unsigned char[::1] _MASK, _MASK_FROM_UDP, _MASK_IPV4


@cython.final
cdef class ReceivedBatch:
    cdef object _all_lengths, _all_ports, _all_classes, _buffer, _headers
    cdef readonly Py_ssize_t count, room
    cdef readonly bint headers_only, over_ipv4
    cdef readonly const unsigned char[::1] flat
    cdef const unsigned char[::1] _ipv4
    cdef readonly const long long[::1] lengths, ports, classes

    cpdef Py_ssize_t row(self, Py_ssize_t row) noexcept nogil
    cpdef bint came_over_ipv4(self, Py_ssize_t row) noexcept nogil
    @cython.locals(base=Py_ssize_t, end=Py_ssize_t, value=cython.uint)
    cpdef bint icrc_right(self, Py_ssize_t row) noexcept nogil
