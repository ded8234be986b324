cimport cython

cdef long long _LOST


@cython.final
cdef class ReverseEvs:
    cdef readonly object confirmed_at, users, denied
    cdef long long[::1] _confirmed
    cdef readonly long long losses, refresh_ns, taught_at
    cdef long long _most

    cpdef void confirm_by_data(self, Py_ssize_t number, long long now) noexcept nogil
    cpdef void lose(self, Py_ssize_t number) noexcept nogil
