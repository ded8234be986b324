from mrc.endpoint.congestion.base cimport CongestionController


cdef class FixedWindow(CongestionController):
    cdef long long _cwnd
