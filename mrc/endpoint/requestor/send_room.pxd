# SPDX-License-Identifier: BSD-2-Clause
cimport cython
from mrc.endpoint.congestion.base cimport CongestionController
from mrc.endpoint.requestor.data_sender cimport DataSender
from mrc.endpoint.requestor.nacked cimport NackHandler
from mrc.endpoint.paths.path_set cimport PathSet
from mrc.endpoint.requestor.send_queue cimport SendQueue
from mrc.endpoint.requestor.sent cimport SentPackets


@cython.final
cdef class SendRoom:
    cdef SentPackets _sent
    cdef SendQueue _queue
    cdef DataSender _sender
    cdef NackHandler _nacks
    cdef PathSet _paths
    cdef CongestionController _controller
    cdef long long _most

    cpdef bint may_send(self) noexcept nogil
    cpdef bint stalled(self) noexcept nogil
    cdef long long _last_sendable(self) noexcept nogil
    cpdef long long last_new(self) noexcept nogil
    cpdef long long of_records(self, long long most) noexcept nogil
    cpdef long long of_window(self) noexcept nogil
