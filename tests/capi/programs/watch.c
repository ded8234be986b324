/* SPDX-License-Identifier: BSD-2-Clause */
/* A thread watches memory while writes of 64 B to 4 KiB land in it: a block's last word is never there before its first.
 * Prints how often it looked on stderr. It looks for 0.25 s at each size, and until it has looked as often as the argument says. */
#include "pair.h"

#include <pthread.h>

#define NS_OF_EACH 250000000
#define SIZES 7

static volatile uint64_t *first, *last;
static volatile int over;
static unsigned long looks, early;

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000 + now.tv_nsec;
}

static void *watch(void *argument)
{
	(void)argument;
	while (!over) {
		uint64_t end = __atomic_load_n(last, __ATOMIC_ACQUIRE), beginning = __atomic_load_n(first, __ATOMIC_ACQUIRE);

		early += beginning < end;
		__atomic_store_n(&looks, looks + 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

int main(int count, char **arguments)
{
	unsigned long wanted = count > 1 ? strtoul(arguments[1], NULL, 0) / SIZES : 0, goal = wanted, writes = 0;

	open_all();
	struct ibv_cq *cq = ibv_create_cq(context, 256, NULL, NULL, 0);
	struct ibv_qp *left = made(cq, 64), *right = made(cq, 64);
	uint64_t number = 0, *words = (uint64_t *)memory;

	connect_both(left, right);
	for (unsigned size = 64; size <= 4096; size *= 2, goal += wanted) {
		pthread_t watcher;
		int64_t end = now_ns() + NS_OF_EACH;

		first = (uint64_t *)(memory + ROOM);
		last = (uint64_t *)(memory + ROOM + size) - 1;
		memset(memory + ROOM, 0, ROOM);
		over = 0;
		number = 0;
		pthread_create(&watcher, NULL, watch, NULL);
		while (now_ns() < end || __atomic_load_n(&looks, __ATOMIC_RELAXED) < goal) {
			number++;
			for (unsigned each = 0; each < size / 8; each++)
				words[each] = number;
			CHECK(post_write(left, number, size, IBV_SEND_SIGNALED, mr->rkey), 0);
			CHECK(next_of(cq).status, IBV_WC_SUCCESS);
		}
		over = 1;
		pthread_join(watcher, NULL);
		writes += number;
		CHECK(early, 0);
	}
	fprintf(stderr, "%lu looks at %lu writes, %lu early\n", looks, writes, early);
	return wrong;
}
