# SPDX-License-Identifier: BSD-2-Clause
cimport cython


@cython.final
cdef class Flag:
    cdef public bint up


@cython.final
cdef class Away:
    cdef public bint up, urgent, waits, failed
    cdef public object failure
