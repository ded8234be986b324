cimport cython


@cython.final
cdef class Receives:
    cdef object _complete, _qpn, _posted
    cdef list _stash
    cdef public object delivered
    cdef public object max_in_flight
    cdef readonly long long stashed
