cimport cython
from mrc.endpoint.memory cimport MemoryRegion, MemoryTable

cdef const unsigned char[::1] _STARTS, _ENDS
cdef unsigned long long _VA_LIMIT


@cython.final
cdef class RequestChecks:
    cdef MemoryTable _memory
    cdef long long _path_mtu

    @cython.locals(mtu=cython.longlong, starts=cython.bint, ends=cython.bint, right=cython.bint)
    cpdef check_length(self, long long psn, int opcode, long long size, long long dmalen)
    @cython.locals(region=MemoryRegion)
    cpdef MemoryRegion region(
        self, long long psn, int opcode, unsigned long long va, unsigned long long rkey, long long dmalen
    )
    @cython.locals(
        starts=cython.bint, ends=cython.bint, mtu=cython.longlong, others=cython.longlong, least=cython.longlong,
        most=cython.longlong, room=cython.longlong
    )
    cdef bint _is_outside(self, long long length, long long offset, long long dmalen, int opcode)
