# SPDX-License-Identifier: BSD-2-Clause
cimport cython


@cython.final
cdef class Frames:
    cdef unsigned char[::1] templates, destinations
    cdef long long[::1] ports
