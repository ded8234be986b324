/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a program and the endpoint share: words of 64 bits in the program's memory. mrc/endpoint/work_rings.py and
 * doorbells.py have the same places (tests/capi).
 */
#ifndef MRC_RINGS_H
#define MRC_RINGS_H

#include <stdint.h>

typedef int64_t word;

/* Of a QP: the program's line, then the endpoint's. */
enum { SENDS_POSTED, RECEIVES_POSTED, SEND_MASK, RECEIVE_MASK, SENDS, RECEIVES, SEND_CQ, RECEIVE_CQ };
enum { SENDS_TAKEN = 8, RECEIVES_TAKEN, SENDS_ENDED, RECEIVES_ENDED, STATE, QPN, QP_WORDS = 16 };
/* Of a send. A receive has its wr_id alone. */
enum { WR_ID, ADDRESS, LENGTH, REMOTE_VA, RKEY, IMMEDIATE, FLAGS, LKEY, SEND_WORDS };
/* Of a completion queue: the endpoint's line, then the program's. */
enum { CAME, OVERRUN, POLLED = 8, CQ_MASK, CQ_ROOM, ENTRIES, ARMED, EVENT_FD, ASYNC_FD, CQ_WORDS = 16 };
enum { NOTHING, ANYTHING, SOLICITED_ONLY };
enum { DONE_WR_ID, DONE_STATUS, DONE_KIND, DONE_LENGTH, DONE_IMMEDIATE, DONE_QPN, DONE_WORDS = 8 };
/* The doorbells of all QPs. */
enum {
	RUNG, ASLEEP, BELL, TELLS, TURNER, BITS = 8, MOST_QPS = 4096, BIT_WORDS = MOST_QPS, QPNS = BITS + BIT_WORDS,
	TELL_FDS = QPNS + MOST_QPS, MOST_TELLS = 4096, BELL_WORDS = TELL_FDS + MOST_TELLS
};
/* What RUNG and ASLEEP say. */
enum { SILENT, SINGLY, IN_BURST };
enum { AWAKE, SLEEPS, DOZES };
#define BURST_BEGINS 2 /* after so many posts in a row, without a poll between */
#define NO_IMMEDIATE (-1)
#define SOLICITED ((word)1 << 32) /* with an immediate */

static inline word read_word(const word *words, int at) { return __atomic_load_n(&words[at], __ATOMIC_ACQUIRE); }
static inline void write_word(word *words, int at, word value)
{
	__atomic_store_n(&words[at], value, __ATOMIC_RELEASE);
}

#endif
