/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where the endpoint's thread runs. A program that posts writes and spins until they are done keeps its processor. Where
 * there are two of them, the endpoints of both ends then gather on the other one: who wakes a thread draws it there. An
 * endpoint that keeps off its own program's processor shares one with the other end's program, which waits just then.
 */
#define _GNU_SOURCE
#include "objects.h"

#include <sched.h>
#include <time.h>

/* So it was measured. With more of them nothing was: one that is idle is likelier there. */
#define FEW_PROCESSORS 2
/* No sooner it moves again: a program may post from threads on both. */
#define MOVES_AFTER_NS 10000000

/* Where the program posted when the endpoint's thread moved last, and when that was. */
static int kept_off = -1;
static int64_t moved;
/* Who moves the thread has this lock. */
static pthread_mutex_t moving = PTHREAD_MUTEX_INITIALIZER;
/* The processors that the thread may have, and those it was given here. Others may have given it others since. */
static cpu_set_t allowed, given;

int mrc_has_few_processors(void)
{
	static int count;
	int known = __atomic_load_n(&count, __ATOMIC_RELAXED);
	cpu_set_t may;

	if (!known) {
		/* More of them than a set has room for are not few. */
		known = sched_getaffinity(0, sizeof may, &may) ? CPU_SETSIZE : CPU_COUNT(&may);
		__atomic_store_n(&count, known, __ATOMIC_RELAXED);
	}
	return known <= FEW_PROCESSORS;
}

static void keep_off(pid_t thread, int processor)
{
	cpu_set_t has, others;

	if (sched_getaffinity(thread, sizeof has, &has))
		return;
	if (!CPU_EQUAL(&has, &given))
		allowed = has;
	others = allowed;
	CPU_CLR(processor, &others);
	if (CPU_COUNT(&allowed) <= FEW_PROCESSORS && CPU_COUNT(&others) && !sched_setaffinity(thread, sizeof others, &others))
		given = others;
}

void mrc_posted_here(void)
{
	int here = sched_getcpu();
	word thread = read_word(mrc_bells, TURNER);
	struct timespec now;

	if (here < 0 || here == __atomic_load_n(&kept_off, __ATOMIC_RELAXED) || !thread || !mrc_has_few_processors())
		return;
	clock_gettime(CLOCK_MONOTONIC, &now);
	int64_t ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;

	if (ns - __atomic_load_n(&moved, __ATOMIC_RELAXED) < MOVES_AFTER_NS || pthread_mutex_trylock(&moving))
		return;
	__atomic_store_n(&moved, ns, __ATOMIC_RELAXED);
	__atomic_store_n(&kept_off, here, __ATOMIC_RELAXED);
	keep_off((pid_t)thread, here);
	pthread_mutex_unlock(&moving);
}
