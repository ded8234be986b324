# SPDX-License-Identifier: BSD-2-Clause
cimport cython
from mrc.wire cimport octets
from mrc.wire.received_batch cimport ReceivedBatch

cdef Py_ssize_t _SOURCE_AT, _ADDRESS
cdef long long _MAX_PORTS


@cython.final
cdef class PeerSources:
    cdef unsigned char[::1] _addresses, _known

    @cython.locals(port=cython.longlong)
    cpdef bint has_sent(self, ReceivedBatch batch, Py_ssize_t row) noexcept nogil
