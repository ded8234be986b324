# SPDX-License-Identifier: BSD-2-Clause
cimport cython
from mrc.endpoint.paths.port_set cimport PortSet
from mrc.endpoint.paths.control_evs cimport ControlEvs
from mrc.endpoint.paths.ev_table cimport EvTable
from mrc.endpoint.paths.reverse cimport ReverseEvs
from mrc.endpoint.paths.rotation cimport Rotation
from mrc.wire.frames cimport Frames

cdef int _SKIP, _BAD, _DENIED, _MARKED, _ALWAYS_SKIP, _LOST, _SPURIOUS, _PROBED_CLEAR, _PROBED_MARKED, _INPUTS
cdef int _ANY_STATE
cdef long long _NEVER, _NONE
cdef const unsigned char[::1] _NEXT


@cython.final
cdef class PathSet:
    cdef readonly object events
    cdef readonly tuple paths
    cdef readonly ControlEvs control
    cdef readonly bint silent
    cdef readonly Frames frames
    cdef readonly Py_ssize_t newly_bad_count
    cdef readonly long long[::1] newly_bad
    cdef public long long profile_id
    cdef long long _qpn, _min_active
    cdef readonly object _trace
    cdef set _peer_ports_down, _ports_down
    cdef bint _released, _shares_frames
    cdef EvTable _evs
    cdef PortSet _full_ports
    cdef ReverseEvs _reverse
    cdef Rotation _rotation
    cdef unsigned char[::1] _is_newly_bad, _wanted

    @cython.locals(index=Py_ssize_t)
    cpdef Py_ssize_t select(self, long long now, long long avoid=*) noexcept nogil
    cdef Py_ssize_t _select_beside(self, long long avoid) noexcept nogil
    cpdef bint usable(self) noexcept nogil
    cpdef Py_ssize_t index(self, long long ev) noexcept nogil
    cpdef void on_ev_answered(self, long long index, long long now) noexcept nogil
    cpdef void on_mark(self, long long index, int m) noexcept nogil
    cpdef void on_trimmed(self, long long index) noexcept nogil
    @cython.locals(was_bad=cython.bint)
    cpdef void on_loss(self, long long index, long long psn, long long sent_at=*) noexcept nogil
    cpdef void on_spurious(self, long long index, long long psn) noexcept nogil
    cpdef void on_probed(self, long long index, bint marked) noexcept nogil
    cpdef void on_probe_failed(self, long long index) noexcept nogil
    cpdef bint has_newly_bad(self) noexcept nogil
    @cython.locals(place=Py_ssize_t)
    cpdef void forget_newly_bad(self) noexcept nogil
    cpdef bint is_bad(self, long long index) noexcept nogil
    cpdef bint is_denied(self, long long index) noexcept nogil
    @cython.locals(old=cython.int, new=cython.int)
    cdef int _feed(self, long long index, int happened) noexcept nogil
    @cython.locals(plane=Py_ssize_t)
    cdef void _moved(self, long long index, int old, int new, int happened) noexcept nogil
    cdef void _report(self, long long index, int old, int new, int happened) noexcept with gil
    cdef void _note_bad(self, long long index) noexcept nogil
    @cython.locals(usable=cython.longlong, each=Py_ssize_t)
    cdef bint _can_spare(self, long long plane) noexcept nogil
    cdef void _leave(self, long long index, long long plane) noexcept nogil
    cdef void _rejoin(self, long long index, long long plane) noexcept nogil
    cdef void _changed(self) noexcept nogil
