/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Polls in vain. A program that spins keeps a processor, and no thread that wakes up finds that one idle: on a host with
 * few of them the endpoints of both ends then share the other. So who has waited for long sleeps until a completion comes.
 */
#include "objects.h"

#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* So long nobody sleeps: as long as a write and its answer take where nothing is queued, whose latency is what counts. */
#define PATIENCE_NS 200000
/* Who has waited longer and does not sleep lets others have the processor this often: it takes as long as 100 polls. */
#define YIELDS_EVERY_NS 2000
/* It may look at memory too, which wakes nobody. */
#define NAP_NS 500000

/* The queue that was polled in vain last, by any thread, and since when; 0: since the next poll in vain. */
static struct cq *polled;
static int64_t since;
/* When somebody who had waited longer let others have it. */
static int64_t yielded;

static int64_t clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int mrc_pollers_bell(void)
{
	static int bell = -1;

	pthread_mutex_lock(&mrc_lists);
	if (bell < 0)
		bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	pthread_mutex_unlock(&mrc_lists);
	return bell;
}

/* Whether a write is under way whose end would be told here. Who waits for the peer's is not made to wait longer. */
static int has_sends(const struct cq *cq)
{
	int found = 0;

	pthread_mutex_lock(&mrc_lists);
	for (struct qp *qp = cq->ibv.context ? context_of(cq->ibv.context)->qps : NULL; qp && !found; qp = qp->next)
		found = qp->ibv.send_cq == &cq->ibv &&
			read_word(qp->words, SENDS_POSTED) != read_word(qp->words, SENDS_ENDED);
	pthread_mutex_unlock(&mrc_lists);
	return found;
}

/* By system calls that end no thread: polling never did. */
static void nap(struct cq *cq)
{
	struct pollfd bell = {.fd = (int)cq->words[EVENT_FD], .events = POLLIN};
	struct timespec most = {.tv_nsec = NAP_NS};
	uint64_t count;
	int before = errno;

	__atomic_store_n(&cq->words[ARMED], ANYTHING, __ATOMIC_SEQ_CST);
	/* In full order with CAME: the endpoint counts what came, then looks whether it is to tell of it. */
	if (__atomic_load_n(&cq->words[CAME], __ATOMIC_SEQ_CST) == read_word(cq->words, POLLED) &&
	    syscall(SYS_ppoll, &bell, 1, &most, NULL, 0) > 0)
		syscall(SYS_read, bell.fd, &count, sizeof count);
	__atomic_store_n(&cq->words[ARMED], NOTHING, __ATOMIC_SEQ_CST);
	errno = before;
}

void mrc_polled_in_vain(struct cq *cq)
{
	int64_t now = clock_ns(), began = __atomic_load_n(&since, __ATOMIC_RELAXED);

	/* Who looks at one queue after the other would miss what comes in another one. */
	if (__atomic_load_n(&polled, __ATOMIC_RELAXED) != cq) {
		__atomic_store_n(&polled, cq, __ATOMIC_RELAXED);
		began = 0;
	}
	if (!began)
		__atomic_store_n(&since, began = now, __ATOMIC_RELAXED);
	if (now - began < PATIENCE_NS)
		sched_yield();
	else if (!cq->ibv.channel && cq->words[EVENT_FD] >= 0 && mrc_has_few_processors() && has_sends(cq))
		nap(cq);
	else if (now - __atomic_load_n(&yielded, __ATOMIC_RELAXED) >= YIELDS_EVERY_NS) {
		__atomic_store_n(&yielded, now, __ATOMIC_RELAXED);
		sched_yield();
	}
}

void mrc_polled_anew(void)
{
	if (__atomic_load_n(&since, __ATOMIC_RELAXED))
		__atomic_store_n(&since, 0, __ATOMIC_RELAXED);
}
