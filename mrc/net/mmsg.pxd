# SPDX-License-Identifier: BSD-2-Clause
cimport cython
from mrc.net cimport system
from mrc.net.outer cimport OuterHeaders
from mrc.wire cimport octets
from mrc.wire.received_batch cimport ReceivedBatch
from mrc.wire.transmit_batch cimport TransmitBatch

cdef Py_ssize_t _WORD, _MESSAGE, _PART, _CLASS, _CONTROL_ROOM, _SOCKADDR, _ADDRESS, _TRAILER_ROOM, _STRETCH, _IN_ORDER
cdef int _AGAIN
cdef Py_ssize_t _NAME, _NAME_LENGTH, _PARTS, _CONTROL, _CONTROL_LENGTH, _LENGTH
cdef Py_ssize_t _CLASS_KIND, _CLASS_NUMBER, _NUMBER_AT, _ADDRESS_AT
cdef Py_ssize_t _UDP, _IPV4, _IPV4_BYTES
cdef int _WITHOUT_IPV6, _WITH_IPV4, _IP_PROTOCOL_UDP, _MAPPED
cdef long long _VERSION_WORD


@cython.final
cdef class BatchSender:
    cdef public set too_long
    cdef public bint refused_length
    cdef public int error
    cdef TransmitBatch _batch
    cdef OuterHeaders _outer
    cdef Py_ssize_t _port_numbers, _send_from, _skipped, _row_words
    cdef long long _messages_at, _parts_at, _classes_at, _destinations_at, _trailers_at
    cdef long long[::1] _messages, _parts, _classes, _fds, _kinds
    cdef const long long[::1] _header_lengths, _payload_addresses, _payload_lengths, _trailer_lengths
    cdef const long long[::1] _ports, _traffic_classes

    @cython.locals(
        count=Py_ssize_t, refused=Py_ssize_t, place=Py_ssize_t, begun=Py_ssize_t, start=Py_ssize_t, stop=Py_ssize_t,
        stretch=Py_ssize_t, port=Py_ssize_t, row=Py_ssize_t, running=Py_ssize_t
    )
    cpdef Py_ssize_t send(self) noexcept nogil
    @cython.locals(at=Py_ssize_t, trailer=cython.longlong, message=Py_ssize_t)
    cdef void _put(self, Py_ssize_t place, Py_ssize_t row) noexcept nogil
    @cython.locals(refused=Py_ssize_t, sent=cython.int)
    cdef Py_ssize_t _send_run(self, Py_ssize_t port, Py_ssize_t place, Py_ssize_t stop) noexcept nogil
    cdef void _lose(self, int port, int error) noexcept with gil


@cython.final
cdef class BatchReceiver:
    cdef readonly bint more
    cdef readonly ReceivedBatch batch
    cdef public int error
    cdef bint _mixed, _over_ipv4
    cdef Py_ssize_t _rows, _room, _port_count, _name_room
    cdef long long _data_at, _messages_at
    cdef unsigned char[::1] _bytes, _ipv4, _control, _names
    cdef const unsigned char[::1] _addresses
    cdef long long[::1] _messages, _parts, _fds, _numbers, _receive_at, _forms
    cdef long long[::1] _ports, _lengths, _traffic_classes

    @cython.locals(start=Py_ssize_t, index=Py_ssize_t, most=Py_ssize_t, row=Py_ssize_t, count=cython.int)
    cpdef Py_ssize_t receive(self) noexcept nogil
    cdef void _note(self, int error) noexcept nogil
    cdef void _fail(self, int error) noexcept with gil
    cdef void _aim(self, Py_ssize_t row, long long offset) noexcept nogil
    @cython.locals(message=Py_ssize_t, form=cython.longlong)
    cdef void _take(self, Py_ssize_t index, Py_ssize_t row) noexcept nogil
    @cython.locals(has_control=cython.bint, word=cython.uint, at=Py_ssize_t)
    cdef void _complete_ipv6(self, Py_ssize_t index, Py_ssize_t row) noexcept nogil
    @cython.locals(at=Py_ssize_t, header=Py_ssize_t, tos=cython.int)
    cdef void _complete_ipv4(self, Py_ssize_t row) noexcept nogil
    cdef void _map(self, Py_ssize_t address, Py_ssize_t plain) noexcept nogil
