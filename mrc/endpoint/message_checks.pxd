cimport cython

cdef long long _PSN_SHIFT, _MSN_SHIFT, _MSN_MASK, _STARTS_SHIFT, _ENDS_BIT, _NOBODY
cdef const unsigned char[::1] _STARTS, _ENDS


@cython.final
cdef class OpenMessage:
    cdef readonly long long dmalen, va_of_psn_0, least_start, most_start, arrived


@cython.final
cdef class MessageChecks:
    cdef long long _mask, _path_mtu
    cdef long long[::1] _tags
    cdef readonly dict open

    @cython.locals(starts=cython.longlong, ends=cython.longlong, before=cython.longlong, after=cython.longlong)
    cpdef take(self, long long psn, long long msn, long long dmalen, long long va, int opcode)
    @cython.locals(
        rest=cython.longlong, most=cython.longlong, least=cython.longlong, message=OpenMessage, known=cython.bint
    )
    cdef _join(self, long long psn, long long msn, long long dmalen, long long va_of_psn_0, bint starts, bint ends)
