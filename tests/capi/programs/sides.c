/* SPDX-License-Identifier: BSD-2-Clause */
/* A program on two processors posts writes on one, then on the other: the endpoint's thread keeps off either. */
#define _GNU_SOURCE
#include "pair.h"

#include <dirent.h>
#include <sched.h>

#define PATIENCE_S 30

static void run_on(int processor)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(processor, &set);
	CHECK(sched_setaffinity(0, sizeof set, &set), 0);
}

/* How many threads, this one apart, may not run there. */
static int kept_off(int processor)
{
	DIR *directory = opendir("/proc/self/task");
	int count = 0;

	for (struct dirent *each; (each = readdir(directory));) {
		int number = atoi(each->d_name);
		cpu_set_t set;

		if (number && number != getpid() && !sched_getaffinity(number, sizeof set, &set))
			count += !CPU_ISSET(processor, &set);
	}
	closedir(directory);
	return count;
}

int main(void)
{
	cpu_set_t set, two;
	int sides[2], found = 0;

	CPU_ZERO(&two);
	CHECK(sched_getaffinity(0, sizeof set, &set), 0);
	for (int each = 0; each < CPU_SETSIZE && found < 2; each++)
		if (CPU_ISSET(each, &set))
			CPU_SET(each, &two), sides[found++] = each;
	if (found < 2)
		return printf("one processor alone\n"), 1;
	CHECK(sched_setaffinity(0, sizeof two, &two), 0);
	open_all();
	struct ibv_cq *cq = ibv_create_cq(context, 64, NULL, NULL, 0);
	struct ibv_qp *left = made(cq, 16), *right = made(cq, 16);

	connect_both(left, right);
	for (int side = 0; side < 4; side++) {
		int here = sides[side % 2], there = sides[!(side % 2)];
		time_t end = time(NULL) + PATIENCE_S;

		run_on(here);
		do {
			CHECK(post_write(left, side, 256, IBV_SEND_SIGNALED, mr->rkey), 0);
			CHECK(next_of(cq).status, IBV_WC_SUCCESS);
		} while (kept_off(here) != 1 && time(NULL) < end);
		/* One thread alone is moved, and it has the other processor. */
		CHECK(kept_off(here), 1), CHECK(kept_off(there), 0);
	}
	CHECK(ibv_destroy_qp(left), 0), CHECK(ibv_destroy_qp(right), 0), CHECK(ibv_destroy_cq(cq), 0);
	return wrong;
}
