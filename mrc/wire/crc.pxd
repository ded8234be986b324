# SPDX-License-Identifier: BSD-2-Clause
from mrc.wire cimport octets

cpdef unsigned int crc32(const unsigned char[::1] data, unsigned int value=*)

cpdef void crcs(
    const unsigned char[::1] data, const long long[::1] begin, const long long[::1] end, unsigned int[::1] values
) noexcept
