cimport cython


@cython.final
cdef class CompletionRing:
    cdef object _complete, _qpn
    cdef readonly Py_ssize_t count
    cdef Py_ssize_t _expected, _room
    cdef long long[::1] _wr_ids, _statuses, _byte_lens, _kinds, _immediates

    cpdef expect(self)
    @cython.locals(place=Py_ssize_t)
    cpdef void add(self, long long wr_id, int status, long long byte_len, int kind, long long immediate) noexcept nogil
    cdef void _grow(self) noexcept with gil
