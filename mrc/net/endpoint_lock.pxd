# SPDX-License-Identifier: BSD-2-Clause
cimport cython
from mrc.endpoint.parts cimport interpreter
from mrc.net cimport system

cdef long long _OTHERS_NS, _SHORTLY_NS


@cython.final
cdef class EndpointLock:
    cdef long long[::1] _words

    cdef begin(self)
    @cython.locals(patience=cython.longlong, state=cython.longlong)
    cdef _begin_late(self)
    cdef void hold(self) noexcept nogil
    cdef bint try_hold(self) noexcept nogil
    cdef void give_back(self) noexcept nogil
    cdef bint is_asked_for(self) noexcept nogil
    @cython.locals(patience=cython.longlong)
    cdef void let_others(self) noexcept nogil
