/* SPDX-License-Identifier: BSD-2-Clause */
/* When a program that polls in vain sleeps: the library's own source, with this program in the place of the system. */
#include "apart.c"
#include "vain.c"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define BELL_FD 7

pthread_mutex_t mrc_lists = PTHREAD_MUTEX_INITIALIZER;
word *mrc_bells;
static struct context context;
static word words[CQ_WORDS] = {[EVENT_FD] = BELL_FD}, other_words[CQ_WORDS] = {[EVENT_FD] = BELL_FD}, sends[QP_WORDS];
static int64_t now_ns = 1000000000;
static int processors, wrong;
/* What was asked of the system: yields, naps and the last nap's length; what came while one was about to begin. */
static int yields, naps, heard, comes;
static int64_t nap_ns;

int sched_yield(void) { return yields++, 0; }
int eventfd(unsigned count, int flags) { return (int)count + (flags ? BELL_FD : 0); }

int clock_gettime(clockid_t clock, struct timespec *now)
{
	now->tv_sec = now_ns / 1000000000, now->tv_nsec = now_ns % 1000000000;
	return clock != CLOCK_MONOTONIC;
}

int sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set)
{
	memset(set, 0, size);
	for (int each = 0; each < processors; each++)
		CPU_SET(each, set);
	return pid;
}

long syscall(long number, ...)
{
	va_list given;

	va_start(given, number);
	if (number == SYS_ppoll) {
		struct pollfd *bell = va_arg(given, struct pollfd *);

		wrong |= bell->fd != BELL_FD || words[ARMED] != ANYTHING || va_arg(given, int) != 1;
		nap_ns = va_arg(given, struct timespec *)->tv_nsec;
		naps++;
		/* As the endpoint does. */
		words[CAME] += comes;
		if (comes)
			words[ARMED] = NOTHING;
		va_end(given);
		errno = EINTR;
		return comes;
	}
	wrong |= number != SYS_read || va_arg(given, int) != BELL_FD;
	va_end(given);
	return heard++, sizeof(uint64_t);
}

static void check(int line, long found, long wanted)
{
	if (found != wanted)
		printf("line %d: %ld, not %ld\n", line, found, wanted), wrong = 1;
}
#define CHECK(found, wanted) check(__LINE__, found, wanted)

/* A poll in vain so many microseconds later. Returns the length of the nap, 0 without one. */
static long look(struct cq *cq, int after_us)
{
	int before = naps, yielded = yields;

	now_ns += after_us * 1000;
	errno = 0;
	mrc_polled_in_vain(cq);
	CHECK(errno, 0), CHECK(cq->words[ARMED], NOTHING);
	CHECK(yields - yielded, naps == before); /* either */
	return naps == before ? 0 : nap_ns;
}

int main(int argc, char **argv)
{
	struct ibv_comp_channel channel;
	struct cq cq = {.words = words, .ibv.context = &context.verbs.context}, other = cq;
	struct qp received = {.ibv.recv_cq = &cq.ibv, .words = sends}, sent = {.ibv.send_cq = &cq.ibv, .words = sends, .next = &received};

	other.words = other_words;
	context.qps = &sent;
	processors = argc > 1 ? atoi(argv[1]) : 2;
	CHECK(mrc_pollers_bell(), BELL_FD);
	sends[SENDS_POSTED] = 3, sends[SENDS_ENDED] = 1;
	/* With a processor for everybody it never sleeps. */
	if (processors > FEW_PROCESSORS) {
		CHECK(look(&cq, 0) + look(&cq, 199) + look(&cq, 100000), 0);
		return wrong;
	}
	/* Not before its patience ends, then at each look. */
	CHECK(look(&cq, 0), 0), CHECK(look(&cq, 199), 0), CHECK(look(&cq, 1), 500000), CHECK(look(&cq, 1), 500000);
	CHECK(heard, 0);
	/* The endpoint rings, which is heard. It waits anew after what it finds, and what it posts. */
	comes = 1, CHECK(look(&cq, 100), 500000), CHECK(heard, 1), comes = 0;
	words[POLLED] = words[CAME], mrc_polled_anew();
	CHECK(look(&cq, 5000), 0), CHECK(look(&cq, 199), 0), CHECK(look(&cq, 2), 500000);
	/* What has come before it is armed is not slept over. */
	words[CAME]++, now_ns += 1000000, naps = 0, mrc_polled_in_vain(&cq), CHECK(naps, 0), CHECK(words[ARMED], NOTHING);
	words[POLLED]++;
	CHECK(look(&cq, 100), 500000);
	/* Nothing of its own is under way: it waits for the peer's. */
	sends[SENDS_ENDED] = 3, CHECK(look(&cq, 1000), 0), sends[SENDS_ENDED] = 2, CHECK(look(&cq, 1000), 500000);
	context.qps = &received, CHECK(look(&cq, 1000), 0), context.qps = &sent;
	/* Who looks at two queues sleeps at neither, then at one again. */
	CHECK(look(&other, 9000) + look(&cq, 9000) + look(&other, 9000) + look(&cq, 9000), 0), CHECK(look(&cq, 200), 500000);
	/* A queue with a channel, one that rings nothing, one whose device is closed. */
	cq.ibv.channel = &channel, CHECK(look(&cq, 1000), 0), cq.ibv.channel = NULL;
	words[EVENT_FD] = -1, CHECK(look(&cq, 1000), 0), words[EVENT_FD] = BELL_FD;
	cq.ibv.context = NULL, CHECK(look(&cq, 1000), 0);
	return wrong;
}
