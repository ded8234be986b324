# SPDX-License-Identifier: BSD-2-Clause
cimport cython
from mrc.endpoint.memory cimport MemoryRegion


@cython.final
cdef class WriteRequest:
    cdef readonly MemoryRegion source
    cdef readonly object immediate, wr_id
    cdef readonly bint solicited
    cdef readonly long long length, offset, remote_va, rkey
