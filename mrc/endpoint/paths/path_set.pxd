cimport cython
from mrc.endpoint.paths.control_evs cimport ControlEvs
from mrc.endpoint.paths.reverse cimport ReverseEvs
from mrc.endpoint.paths.rotation cimport Rotation
from mrc.wire.frames cimport Frames

cdef int _SKIP, _BAD, _DENIED, _MARKED, _ALWAYS_SKIP, _LOST, _INPUTS
cdef long long _NEVER
cdef const unsigned char[::1] _NEXT


@cython.final
cdef class PathSet:
    cdef readonly object first_sent_at, last_sent_at, lost, marked, packets, port, state
    cdef readonly object events
    cdef readonly tuple paths
    cdef readonly list newly_bad
    cdef readonly ControlEvs control
    cdef readonly bint silent
    cdef readonly Frames frames
    cdef public long long profile_id
    cdef long long _qpn, _min_active
    cdef object _condemned_through, _full_ports, _numbers, _random
    cdef readonly object _trace
    cdef set _peer_ports_down, _ports_down, _retired
    cdef dict _condemned_by, _index_of_ev, _members, _usable_evs
    cdef bint _released
    cdef ReverseEvs _reverse
    cdef readonly Rotation _rotation
    cdef unsigned char[::1] _state
    cdef long long[::1] _first_sent_at, _last_sent_at, _lost, _marked, _packets, _port_of

    cdef _look(self)
    @cython.locals(index=cython.longlong)
    cpdef Py_ssize_t select(self, long long now, long long avoid=*) noexcept with gil
    cdef Py_ssize_t _select_beside(self, long long avoid) except? -1
    cpdef bint usable(self) noexcept with gil
    cpdef bint has_newly_bad(self) noexcept with gil
    cpdef Py_ssize_t index(self, long long ev) noexcept with gil
    cpdef void on_ev_answered(self, long long index, long long now) noexcept with gil
    cpdef void on_mark(self, long long index, int m) noexcept with gil
    cpdef void on_trimmed(self, long long index) noexcept with gil
    @cython.locals(was_bad=cython.bint)
    cpdef void on_loss(self, long long index, long long psn, long long sent_at=*) noexcept with gil
    cpdef void on_spurious(self, long long index, long long psn) noexcept with gil
    @cython.locals(old=cython.int, new=cython.int)
    cdef int _feed(self, long long index, int happened) except -1
    @cython.locals(port=cython.longlong)
    cdef _moved(self, long long index, int old, int new, int happened)
    @cython.locals(usable=cython.longlong)
    cdef bint _can_spare(self, long long port) except -1
