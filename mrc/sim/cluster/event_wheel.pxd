cimport cython
from mrc.sim.cluster.packet_pool cimport PacketPool
from mrc.wire cimport octets

cdef Py_ssize_t _NEXT, _LINK, _WIDTH, _ROW
cdef int _NONE, _ARRIVAL, _FREE
cdef long long _FOREVER


@cython.final
cdef class EventWheel:
    cdef PacketPool _pool
    cdef int[::1] _next, _heads, _tails, _directions_known
    cdef long long[::1] _occupied
    cdef long long _mask, _words, _directions
    cdef readonly long long count, position, span

    @cython.locals(slot=Py_ssize_t)
    cpdef void add(self, long long at, int event) noexcept nogil
    @cython.locals(kind=cython.int)
    cdef void _set_next(self, int event, int after) noexcept nogil
    @cython.locals(kind=cython.int)
    cdef int _after(self, int event) noexcept nogil
    @cython.locals(slot=Py_ssize_t, word=Py_ssize_t, at=cython.longlong, bits=cython.longlong)
    cpdef long long next_at(self) noexcept nogil
    @cython.locals(slot=Py_ssize_t, event=cython.int, after=cython.int)
    cpdef int take(self, long long at) noexcept nogil
    @cython.locals(after=cython.int)
    cdef void _prepare(self, int event) noexcept nogil
    cpdef void advance(self, long long at) noexcept nogil
