# SPDX-License-Identifier: BSD-2-Clause
cdef long long _HALF, _MASK

cpdef long long unwrap(long long psn, long long near) noexcept nogil
