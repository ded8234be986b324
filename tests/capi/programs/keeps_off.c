/* SPDX-License-Identifier: BSD-2-Clause */
/* Which processors the endpoint's thread is given: the library's own source, with this program in the place of the
 * system. A set is a number here, a bit for each processor. */
#include "apart.c"

#include <stdio.h>
#include <stdlib.h>

#define THREAD 7

pthread_mutex_t mrc_lists = PTHREAD_MUTEX_INITIALIZER;
word *mrc_bells;
static word bells[BELL_WORDS];
static int64_t now_ns = 1000000000;
/* Where the program runs, what it may use, what the thread has, how often that was changed, whether that is refused. */
static int here, program, thread, changes, refused, wrong;

int clock_gettime(clockid_t clock, struct timespec *now)
{
	now->tv_sec = now_ns / 1000000000, now->tv_nsec = now_ns % 1000000000;
	return clock != CLOCK_MONOTONIC;
}

int sched_getcpu(void) { return here; }

int sched_getaffinity(pid_t who, size_t size, cpu_set_t *set)
{
	memset(set, 0, size);
	for (int each = 0; each < 8; each++)
		if ((who == THREAD ? thread : program) >> each & 1)
			CPU_SET(each, set);
	return 0;
}

int sched_setaffinity(pid_t who, size_t size, const cpu_set_t *set)
{
	wrong |= who != THREAD || size != sizeof *set;
	changes++;
	if (refused)
		return errno = EPERM, -1;
	thread = 0;
	for (int each = 0; each < 8; each++)
		thread |= CPU_ISSET(each, set) ? 1 << each : 0;
	return 0;
}

/* The program posts there so many milliseconds later. What has the thread then? */
static void posts(int line, int processor, int after_ms, int wanted)
{
	now_ns += after_ms * 1000000;
	here = processor;
	mrc_posted_here();
	if (thread != wanted)
		printf("line %d: the thread has %d, not %d\n", line, thread, wanted), wrong = 1;
}
#define POSTS(processor, after_ms, wanted) posts(__LINE__, processor, after_ms, wanted)

int main(int count, char **arguments)
{
	int processors = count > 1 ? atoi(arguments[1]) : 1;

	mrc_bells = bells;
	program = thread = (1 << processors) - 1;
	/* It has not said yet who it is. */
	POSTS(0, 20, program);
	bells[TURNER] = THREAD;
	if (processors != 2) {
		for (int each = 0; each < processors; each++)
			POSTS(each, 20, program);
		return wrong | changes;
	}
	POSTS(0, 20, 2), POSTS(0, 20, 2), POSTS(0, 20, 2);
	/* The program moved. So soon after the last time the thread stays. */
	POSTS(1, 20, 1), POSTS(0, 9, 1), POSTS(1, 0, 1), POSTS(0, 1, 2);
	wrong |= changes != 3;
	/* Somebody has the program keep to one: the thread may still have both. */
	program = 2;
	POSTS(1, 20, 1);
	/* Somebody gives the thread others: that holds. */
	thread = 2;
	POSTS(0, 20, 2), POSTS(1, 20, 2);
	thread = 6;
	POSTS(0, 20, 6), POSTS(1, 20, 4), POSTS(2, 20, 2);
	/* The system refuses. */
	refused = 1;
	POSTS(1, 20, 2);
	refused = 0;
	POSTS(2, 20, 2), POSTS(1, 20, 4);
	return wrong;
}
