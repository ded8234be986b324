# SPDX-License-Identifier: BSD-2-Clause
cimport cython
from mrc.wire cimport octets

cdef Py_ssize_t _RUNG, _ASLEEP, _TELLS, _BITS, _BIT_WORDS, _QPNS, _TELL_FDS, _MOST_TELLS


@cython.final
cdef class Doorbells:
    cdef long long *_words

    cpdef bint take(self) noexcept nogil
    cpdef bint sleeps(self) noexcept nogil
    cpdef void awake(self) noexcept nogil
    @cython.locals(word=Py_ssize_t, bits=cython.longlong, bit=cython.int)
    cpdef long long next(self, Py_ssize_t first) noexcept nogil
    @cython.locals(count=Py_ssize_t)
    cpdef bint tell(self, long long fd) noexcept nogil
    @cython.locals(count=Py_ssize_t)
    cpdef long long next_told(self) noexcept nogil
