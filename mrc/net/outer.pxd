# SPDX-License-Identifier: BSD-2-Clause
cimport cython
from mrc.wire cimport octets

cdef long long _VERSION
cdef int _TRAFFIC_CLASS_SHIFT
cdef Py_ssize_t _PLEN_AT, _SOURCE_AT, _DESTINATION_AT, _ADDRESS, _SOCKADDR, _ADDRESS_AT, _BLOCK, _USID, _SEGMENT_AT


@cython.final
cdef class OuterHeaders:
    cdef readonly object flat, flat_destinations
    cdef readonly Py_ssize_t length
    cdef Py_ssize_t _behind
    cdef unsigned char[::1] _flat, _to
    cdef const unsigned char[::1] _sources, _destinations
    cdef const long long[::1] _header_lengths, _payload_lengths, _trailer_lengths, _traffic_classes, _ports

    @cython.locals(at=Py_ssize_t, length=cython.longlong)
    cpdef void write(self, Py_ssize_t row) noexcept nogil
    @cython.locals(start=Py_ssize_t, address=Py_ssize_t, segment=Py_ssize_t, last=Py_ssize_t)
    cdef void _split(self, Py_ssize_t row) noexcept nogil
