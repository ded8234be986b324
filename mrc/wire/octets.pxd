# SPDX-License-Identifier: BSD-2-Clause
# What compiled modules use in place of octets.py.
cdef extern from "octets.h" nogil:
    int u16 "octets_u16"(const unsigned char[::1] view, Py_ssize_t at)
    unsigned int u32 "octets_u32"(const unsigned char[::1] view, Py_ssize_t at)
    unsigned long long u64 "octets_u64"(const unsigned char[::1] view, Py_ssize_t at)
    unsigned int le32 "octets_le32"(const unsigned char[::1] view, Py_ssize_t at)
    void put16 "octets_put16"(unsigned char[::1] view, Py_ssize_t at, unsigned long long value)
    void put32 "octets_put32"(unsigned char[::1] view, Py_ssize_t at, unsigned long long value)
    void put64 "octets_put64"(unsigned char[::1] view, Py_ssize_t at, unsigned long long value)
    void put_le32 "octets_put_le32"(unsigned char[::1] view, Py_ssize_t at, unsigned long long value)
    void copy "octets_copy"(
        unsigned char[::1] view, Py_ssize_t at, const unsigned char[::1] source, Py_ssize_t source_at, Py_ssize_t length
    )
    void place "octets_place"(
        unsigned long long address, const unsigned char[::1] source, Py_ssize_t source_at, Py_ssize_t length
    )
    bint equal "octets_equal"(
        const unsigned char[::1] view, Py_ssize_t at, const unsigned char[::1] other, Py_ssize_t other_at,
        Py_ssize_t length
    )
    unsigned int crc "octets_crc"(const unsigned char[::1] view, Py_ssize_t at, Py_ssize_t length, unsigned int value)
    unsigned int crc_at "octets_crc_at"(unsigned long long address, Py_ssize_t length, unsigned int value)
    unsigned int masked_crc "octets_masked_crc"(
        const unsigned char[::1] view, Py_ssize_t at, const unsigned char[::1] mask, unsigned int value
    )
    long long *words "octets_words"(Py_ssize_t count)
    long long *longer_words "octets_longer_words"(long long *old, Py_ssize_t count, Py_ssize_t wanted)
    long long *words_at "octets_words_at"(unsigned long long address, Py_ssize_t count)
    void free_words "octets_free_words"(long long *old)
    void fetch "octets_fetch"(const int[::1] numbers, Py_ssize_t at)
    void publish "octets_publish"(long long *words, Py_ssize_t at, long long value)
    long long published "octets_published"(const long long *words, Py_ssize_t at)
    long long exchange "octets_exchange"(long long *words, Py_ssize_t at, long long value)
