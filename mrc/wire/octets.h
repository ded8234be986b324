/* SPDX-License-Identifier: BSD-2-Clause */
/* Bytes of packets read and written, for compiled modules: octets.py in C. A view is Cython's slice of a typed
 * memoryview; only its data and, in a checked build, its length are looked at. */
#ifndef MRC_OCTETS_H
#define MRC_OCTETS_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "written for little-endian processors"
#endif

#ifdef MRC_CHECKED
static inline const uint8_t *octets_at(const char *data, Py_ssize_t room, Py_ssize_t at, Py_ssize_t length)
{
    if (at < 0 || length < 0 || at > room - length) {
        fprintf(stderr, "octets %zd to %zd of a view of %zd\n", at, at + length, room);
        abort();
    }
    return (const uint8_t *)data + at;
}
#define OCTETS_AT(view, at, length) octets_at((view).data, (view).shape[0], (at), (length))
#else
#define OCTETS_AT(view, at, length) ((const uint8_t *)(view).data + (at))
#endif
#define OCTETS_TO(view, at, length) ((uint8_t *)OCTETS_AT(view, at, length))

static inline uint16_t mrc_load16(const uint8_t *p) { uint16_t v; memcpy(&v, p, 2); return __builtin_bswap16(v); }
static inline uint32_t mrc_load32(const uint8_t *p) { uint32_t v; memcpy(&v, p, 4); return __builtin_bswap32(v); }
static inline uint64_t mrc_load64(const uint8_t *p) { uint64_t v; memcpy(&v, p, 8); return __builtin_bswap64(v); }
static inline uint32_t mrc_load_le32(const uint8_t *p) { uint32_t v; memcpy(&v, p, 4); return v; }
static inline void mrc_store16(uint8_t *p, uint64_t v) { uint16_t w = __builtin_bswap16((uint16_t)v); memcpy(p, &w, 2); }
static inline void mrc_store32(uint8_t *p, uint64_t v) { uint32_t w = __builtin_bswap32((uint32_t)v); memcpy(p, &w, 4); }
static inline void mrc_store64(uint8_t *p, uint64_t v) { v = __builtin_bswap64(v); memcpy(p, &v, 8); }
static inline void mrc_store_le32(uint8_t *p, uint64_t v) { uint32_t w = (uint32_t)v; memcpy(p, &w, 4); }

#define octets_u16(view, at) ((int)mrc_load16(OCTETS_AT(view, at, 2)))
#define octets_u32(view, at) mrc_load32(OCTETS_AT(view, at, 4))
#define octets_u64(view, at) mrc_load64(OCTETS_AT(view, at, 8))
#define octets_le32(view, at) mrc_load_le32(OCTETS_AT(view, at, 4))
#define octets_put16(view, at, value) mrc_store16(OCTETS_TO(view, at, 2), (uint64_t)(value))
#define octets_put32(view, at, value) mrc_store32(OCTETS_TO(view, at, 4), (uint64_t)(value))
#define octets_put64(view, at, value) mrc_store64(OCTETS_TO(view, at, 8), (uint64_t)(value))
#define octets_put_le32(view, at, value) mrc_store_le32(OCTETS_TO(view, at, 4), (uint64_t)(value))
/* The last aligned word of what is placed is written last: a program that watches it instead of polling finds all of
 * the packet before it. memcpy alone may write the end first. */
static inline void mrc_place(uint8_t *to, const uint8_t *from, size_t length)
{
    size_t tail = ((uintptr_t)to + length) & 7;

    tail = tail ? tail : 8;
    if (length < tail)
        tail = length;
    memcpy(to, from, length - tail);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    if (tail == 8) {
        uint64_t word;

        memcpy(&word, from + length - 8, 8);
        __atomic_store_n((uint64_t *)(void *)(to + length - 8), word, __ATOMIC_RELAXED);
        return;
    }
    for (size_t at = length - tail; at < length; at++)
        __atomic_store_n(&to[at], from[at], __ATOMIC_RELAXED);
}

#define octets_copy(view, at, source, source_at, length) \
    ((void)memcpy(OCTETS_TO(view, at, length), OCTETS_AT(source, source_at, length), (size_t)(length)))
#define octets_place(address, source, source_at, length) \
    mrc_place((uint8_t *)(uintptr_t)(address), OCTETS_AT(source, source_at, length), (size_t)(length))
#define octets_equal(view, at, other, other_at, length) \
    (memcmp(OCTETS_AT(view, at, length), OCTETS_AT(other, other_at, length), (size_t)(length)) == 0)
#define octets_crc(view, at, length, value) \
    mrc_crc32((value), OCTETS_AT(view, at, length), (size_t)(length))
#define octets_crc_at(address, length, value) \
    mrc_crc32((value), (const uint8_t *)(uintptr_t)(address), (size_t)(length))
#define octets_masked_crc(view, at, mask, value) \
    mrc_masked_crc32((value), OCTETS_AT(view, at, (mask).shape[0]), (const uint8_t *)(mask).data, \
                     (size_t)(mask).shape[0])

/* CRC-32, reflected polynomial 0xEDB88320, with zlib's convention for the value that is carried on. */

#define MRC_CRC_POLYNOMIAL 0xEDB88320u

static uint32_t mrc_crc_tables[8][256];

__attribute__((constructor)) static void mrc_crc_make_tables(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t value = byte;
        for (int bit = 0; bit < 8; bit++)
            value = value >> 1 ^ (value & 1 ? MRC_CRC_POLYNOMIAL : 0);
        mrc_crc_tables[0][byte] = value;
    }
    for (uint32_t byte = 0; byte < 256; byte++)
        for (int table = 1; table < 8; table++) {
            uint32_t before = mrc_crc_tables[table - 1][byte];
            mrc_crc_tables[table][byte] = before >> 8 ^ mrc_crc_tables[0][before & 0xFF];
        }
}

/* Eight bytes a step. Takes and gives the value as it stands inside, that is inverted. */
static inline uint32_t mrc_crc_by_table(uint32_t value, const uint8_t *p, size_t length)
{
    for (; length >= 8; p += 8, length -= 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        word ^= value;
        value = 0;
        for (int byte = 0; byte < 8; byte++)
            value ^= mrc_crc_tables[7 - byte][word >> 8 * byte & 0xFF];
    }
    while (length--)
        value = value >> 8 ^ mrc_crc_tables[0][(value ^ *p++) & 0xFF];
    return value;
}

#if defined(__x86_64__)
#include <immintrin.h>

/* Carry-less multiplication folds a step's bytes into lanes, these into one, that into 32 bits. Each constant is a power
 * of x modulo the polynomial, bit-reflected: x^(distance of the fold in bits +- 32). */
#define MRC_CRC_BY_2048 0x11542778aULL, 0x1322d1430ULL
#define MRC_CRC_BY_512 0x154442bd4ULL, 0x1c6e41596ULL
#define MRC_CRC_BY_128 0x1751997d0ULL, 0x0ccaa009eULL
#define MRC_CRC_BY_64 0x163cd6124ULL, 0x0ULL
#define MRC_CRC_BARRETT 0x1db710641ULL, 0x1f7011641ULL
#define MRC_CRC_FOLDS __attribute__((target("pclmul,sse4.1")))

static inline __m128i mrc_crc_pair(uint64_t low, uint64_t high) { return _mm_set_epi64x((long long)high, (long long)low); }

MRC_CRC_FOLDS static inline __m128i mrc_crc_fold(__m128i lane, __m128i by, __m128i next)
{
    __m128i low = _mm_clmulepi64_si128(lane, by, 0x00);
    return _mm_xor_si128(_mm_xor_si128(low, _mm_clmulepi64_si128(lane, by, 0x11)), next);
}

/* Four lanes and the bytes behind them, a multiple of 16, to 32 bits. */
MRC_CRC_FOLDS static inline uint32_t mrc_crc_of_lanes(const __m128i lane[4], const uint8_t *p, size_t length)
{
    const __m128i by_128 = mrc_crc_pair(MRC_CRC_BY_128);
    const __m128i by_64 = mrc_crc_pair(MRC_CRC_BY_64);
    const __m128i barrett = mrc_crc_pair(MRC_CRC_BARRETT);
    const __m128i low_words = _mm_setr_epi32(-1, 0, -1, 0);
    __m128i all = lane[0];

    for (int i = 1; i < 4; i++)
        all = mrc_crc_fold(all, by_128, lane[i]);
    for (; length >= 16; p += 16, length -= 16)
        all = mrc_crc_fold(all, by_128, _mm_loadu_si128((const __m128i *)p));
    /* 128 bits to 64, then to 32. */
    __m128i folded = _mm_clmulepi64_si128(all, by_128, 0x10);
    all = _mm_xor_si128(_mm_srli_si128(all, 8), folded);
    folded = _mm_srli_si128(all, 4);
    all = _mm_xor_si128(_mm_clmulepi64_si128(_mm_and_si128(all, low_words), by_64, 0x00), folded);
    folded = _mm_clmulepi64_si128(_mm_and_si128(all, low_words), barrett, 0x10);
    folded = _mm_clmulepi64_si128(_mm_and_si128(folded, low_words), barrett, 0x00);
    return (uint32_t)_mm_extract_epi32(_mm_xor_si128(all, folded), 1);
}

/* 64 bytes a step. At least 64 bytes, a multiple of 16. */
MRC_CRC_FOLDS static uint32_t mrc_crc_by_folding(uint32_t value, const uint8_t *p, size_t length)
{
    const __m128i by_512 = mrc_crc_pair(MRC_CRC_BY_512);
    __m128i lane[4];

    for (int i = 0; i < 4; i++)
        lane[i] = _mm_loadu_si128((const __m128i *)p + i);
    lane[0] = _mm_xor_si128(lane[0], _mm_cvtsi32_si128((int)value));
    for (p += 64, length -= 64; length >= 64; p += 64, length -= 64)
        for (int i = 0; i < 4; i++)
            lane[i] = mrc_crc_fold(lane[i], by_512, _mm_loadu_si128((const __m128i *)p + i));
    return mrc_crc_of_lanes(lane, p, length);
}

#define MRC_CRC_FOLDS_WIDE __attribute__((target("pclmul,sse4.1,avx512f,avx512vl,vpclmulqdq")))

MRC_CRC_FOLDS_WIDE static inline __m512i mrc_crc_fold_wide(__m512i lane, __m512i by, __m512i next)
{
    __m512i low = _mm512_clmulepi64_epi128(lane, by, 0x00);
    return _mm512_ternarylogic_epi64(low, _mm512_clmulepi64_epi128(lane, by, 0x11), next, 0x96); /* a ^ b ^ c */
}

/* 256 bytes a step, where the processor multiplies four lanes at once. At least 256 bytes, a multiple of 16. */
MRC_CRC_FOLDS_WIDE static uint32_t mrc_crc_by_wide_folding(uint32_t value, const uint8_t *p, size_t length)
{
    const __m512i by_2048 = _mm512_broadcast_i32x4(mrc_crc_pair(MRC_CRC_BY_2048));
    const __m512i by_512 = _mm512_broadcast_i32x4(mrc_crc_pair(MRC_CRC_BY_512));
    __m512i wide[4];
    __m128i lane[4];

    for (int i = 0; i < 4; i++)
        wide[i] = _mm512_loadu_si512(p + 64 * i);
    wide[0] = _mm512_xor_si512(wide[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)value)));
    for (p += 256, length -= 256; length >= 256; p += 256, length -= 256)
        for (int i = 0; i < 4; i++)
            wide[i] = mrc_crc_fold_wide(wide[i], by_2048, _mm512_loadu_si512(p + 64 * i));
    for (int i = 1; i < 4; i++)
        wide[0] = mrc_crc_fold_wide(wide[0], by_512, wide[i]);
    for (; length >= 64; p += 64, length -= 64)
        wide[0] = mrc_crc_fold_wide(wide[0], by_512, _mm512_loadu_si512(p));
    _mm512_storeu_si512(lane, wide[0]);
    return mrc_crc_of_lanes(lane, p, length);
}

static int mrc_crc_folds, mrc_crc_folds_wide;

__attribute__((constructor)) static void mrc_crc_look(void)
{
    __builtin_cpu_init();
    mrc_crc_folds = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
    mrc_crc_folds_wide = mrc_crc_folds && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                         __builtin_cpu_supports("vpclmulqdq");
}
#endif

static inline uint32_t mrc_crc32(uint32_t value, const uint8_t *p, size_t length)
{
    value = ~value;
#if defined(__x86_64__)
    if (mrc_crc_folds && length >= 64) {
        size_t whole = length & ~(size_t)15;
        value = mrc_crc_folds_wide && whole >= 256 ? mrc_crc_by_wide_folding(value, p, whole)
                                                   : mrc_crc_by_folding(value, p, whole);
        p += whole;
        length -= whole;
    }
#endif
    return ~mrc_crc_by_table(value, p, length);
}

static inline uint32_t mrc_masked_crc32(uint32_t value, const uint8_t *p, const uint8_t *mask, size_t length)
{
    uint8_t masked[64];
    for (size_t i = 0; i < length && i < sizeof masked; i++)
        masked[i] = p[i] | mask[i];
    return mrc_crc32(value, masked, length);
}

/* Words in memory that grows without the interpreter. Without memory there is nothing left to do. */
static inline long long *octets_longer_words(long long *old, Py_ssize_t count, Py_ssize_t wanted)
{
    long long *made = realloc(old, (size_t)(wanted > 0 ? wanted : 1) * sizeof *made);

    if (made == NULL)
        abort();
    memset(made + count, 0, (size_t)(wanted - count) * sizeof *made);
    return made;
}
static inline long long *octets_words(Py_ssize_t count) { return octets_longer_words(NULL, 0, count); }
#define octets_words_at(address, count) ((long long *)(uintptr_t)(address))
static inline void octets_free_words(long long *old) { free(old); }

#define octets_fetch(numbers, at) __builtin_prefetch((const int32_t *)(numbers).data + (at))

/* Words that one thread writes and another reads without a lock. */
static inline void octets_publish(long long *words, Py_ssize_t at, long long value)
{
    __atomic_store_n(&words[at], value, __ATOMIC_RELEASE);
}
static inline long long octets_exchange(long long *words, Py_ssize_t at, long long value)
{
    return __atomic_exchange_n(&words[at], value, __ATOMIC_SEQ_CST);
}
static inline long long octets_published(const long long *words, Py_ssize_t at)
{
    return __atomic_load_n(&words[at], __ATOMIC_ACQUIRE);
}

#endif
