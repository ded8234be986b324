# SPDX-License-Identifier: BSD-2-Clause
cimport cython

cdef long long _UNKNOWN, _LOST


@cython.final
cdef class ReverseEvs:
    cdef readonly object confirmed_at, users, denied
    cdef long long[::1] _confirmed, _denials, _users
    cdef readonly long long losses, refresh_ns, taught_at
    cdef long long _most

    cpdef void deny(self, Py_ssize_t number, long long more) noexcept nogil
    cpdef bint may_carry(self, Py_ssize_t number) noexcept nogil
    cpdef void confirm_by_data(self, Py_ssize_t number, long long now) noexcept nogil
    cpdef void lose(self, Py_ssize_t number) noexcept nogil
    @cython.locals(kept=Py_ssize_t, place=Py_ssize_t)
    cpdef Py_ssize_t pick(
        self, const long long[::1] numbers, Py_ssize_t count, long long[::1] chosen, Py_ssize_t at
    ) noexcept nogil
    @cython.locals(into=Py_ssize_t)
    cdef Py_ssize_t _insert(
        self, const long long[::1] numbers, Py_ssize_t place, long long[::1] chosen, Py_ssize_t at, Py_ssize_t kept
    ) noexcept nogil
