cimport cython
from mrc.endpoint.paths.reverse cimport ReverseEvs

cdef long long _NEVER


@cython.final
cdef class ControlEvs:
    cdef object _columns, _order, _random
    cdef list _members
    cdef ReverseEvs _reverse
    cdef long long[::1] _turns
    cdef long long _end, _losses, _position, _until

    cpdef take(self, long long count, long long now)
    @cython.locals(index=cython.longlong)
    cpdef Py_ssize_t take_one(self, long long now) noexcept with gil
    cpdef Py_ssize_t one_aside(self, long long now) noexcept with gil
    cpdef void changed(self) noexcept nogil
    @cython.locals(enough=cython.bint)
    cdef int _renew(self, long long count, long long now) except -1
    cdef _use(self, order)
