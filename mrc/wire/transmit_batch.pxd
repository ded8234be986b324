cimport cython
from mrc.wire cimport octets
from mrc.wire.frames cimport Frames
from mrc.wire.payload cimport Payload

cdef Py_ssize_t _ROOM, _TEMPLATE, _DESTINATION, _ICRC, _UDP_AT, _TRAILER
cdef Py_ssize_t _PLEN_AT, _SOURCE_AT, _DESTINATION_AT, _UDP_LENGTH_AT, _FLAGS_AT, _HEAD
cdef int _PAD_SHIFT, _CLASS_SHIFT, _IPV4_START, _IPV4_BYTES, _IPV4_FRAGMENT, _IPV4_UDP
cdef unsigned int _SEED, _MAPPED
cdef const unsigned char[::1] _MASK, _MASK_FROM_UDP, _MASK_IPV4, _ZEROS
cdef Payload _NOTHING


@cython.final
cdef class TransmitBatch:
    cdef readonly object headers, header_length, payload_address, payload_length, trailers, trailer_length
    cdef readonly object port, destination, traffic_class
    cdef object _writable
    cdef readonly Py_ssize_t capacity
    cdef public Py_ssize_t count
    cdef unsigned char[::1] flat, _trailers, _destinations, _ipv4
    cdef long long[::1] _header_lengths, _payload_lengths, _trailer_lengths, _ports, _classes, _offsets
    cdef unsigned long long[::1] _addresses
    cdef list _payloads

    @cython.locals(row=Py_ssize_t, at=Py_ssize_t, pad=Py_ssize_t, inside=Py_ssize_t)
    cpdef Py_ssize_t append(
        self, Frames frames, Py_ssize_t way, int traffic_class, Py_ssize_t header_length, Payload payload=*,
        Py_ssize_t offset=*, Py_ssize_t length=*
    ) except -1
    @cython.locals(row=Py_ssize_t, at=Py_ssize_t, inside=Py_ssize_t)
    cpdef Py_ssize_t open_row(
        self, Frames frames, Py_ssize_t way, int traffic_class, Py_ssize_t header_length
    ) noexcept nogil
    @cython.locals(offset=Py_ssize_t)
    cdef object _payload(self, Py_ssize_t row)
    cpdef void set_bits(self, Py_ssize_t row, Py_ssize_t at, int bits) noexcept nogil
    @cython.locals(row=Py_ssize_t)
    cpdef void seal(self, Py_ssize_t start=*) noexcept
    @cython.locals(at=Py_ssize_t, payload=Payload, rest=Py_ssize_t, pad=Py_ssize_t, value=cython.uint)
    cdef void _seal(self, Py_ssize_t row) noexcept
    cdef void _put_ipv4(self, Py_ssize_t at) noexcept nogil
