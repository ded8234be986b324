# SPDX-License-Identifier: BSD-2-Clause
cimport cython
from mrc.wire cimport octets
from mrc.wire.frames cimport Frames

cdef Py_ssize_t _ROOM, _TEMPLATE, _DESTINATION, _ICRC, _UDP_AT, _TRAILER
cdef Py_ssize_t _PLEN_AT, _SOURCE_AT, _DESTINATION_AT, _UDP_LENGTH_AT, _FLAGS_AT, _HEAD
cdef int _PAD_SHIFT, _CLASS_SHIFT, _IPV4_START, _IPV4_BYTES, _IPV4_FRAGMENT, _IPV4_UDP
cdef unsigned int _SEED, _MAPPED
cdef const unsigned char[::1] _MASK, _MASK_FROM_UDP, _MASK_IPV4, _ZEROS


@cython.final
cdef class TransmitBatch:
    cdef object _writable
    cdef readonly Py_ssize_t capacity
    cdef readonly bint headers_only
    cdef public Py_ssize_t count
    cdef readonly unsigned char[::1] flat, flat_trailers, flat_destinations
    cdef unsigned char[::1] _ipv4
    cdef readonly long long[::1] header_lengths, payload_lengths, trailer_lengths, ports, classes
    cdef readonly unsigned long long[::1] payload_addresses

    @cython.locals(row=Py_ssize_t, at=Py_ssize_t, pad=Py_ssize_t, inside=Py_ssize_t)
    cpdef Py_ssize_t append(
        self, Frames frames, Py_ssize_t way, int traffic_class, Py_ssize_t header_length, unsigned long long address,
        Py_ssize_t length
    ) noexcept nogil
    cpdef Py_ssize_t open_row(
        self, Frames frames, Py_ssize_t way, int traffic_class, Py_ssize_t header_length
    ) noexcept nogil
    cpdef void set_bits(self, Py_ssize_t row, Py_ssize_t at, int bits) noexcept nogil
    @cython.locals(row=Py_ssize_t)
    cpdef void seal(self, Py_ssize_t start) noexcept nogil
    @cython.locals(at=Py_ssize_t, rest=Py_ssize_t, pad=Py_ssize_t, value=cython.uint)
    cdef void _seal(self, Py_ssize_t row) noexcept nogil
    cdef void _put_ipv4(self, Py_ssize_t at) noexcept nogil
