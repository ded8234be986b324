/* SPDX-License-Identifier: BSD-2-Clause */
/* 64 QPs that are destroyed in the middle of the peer's messages, one after the other: not half a second for each. */
#include "pair.h"

#define QPS 64
#define OUTSTANDING 16

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec * 1e-9;
}

int main(void)
{
	open_all();
	struct ibv_cq *cq = ibv_create_cq(context, 4 * QPS * OUTSTANDING, NULL, NULL, 0);
	struct ibv_qp *left[QPS], *right[QPS];

	for (int each = 0; each < QPS; each++) {
		left[each] = made(cq, OUTSTANDING), right[each] = made(cq, OUTSTANDING);
		connect_both(left[each], right[each]);
	}
	for (int each = 0; each < QPS * OUTSTANDING; each++)
		CHECK(post_write(left[each % QPS], each, ROOM, 0, mr->rkey), 0);
	usleep(200000);
	double before = now();

	for (int each = 0; each < QPS; each++)
		CHECK(ibv_destroy_qp(left[each]), 0);
	for (int each = 0; each < QPS; each++)
		CHECK(ibv_destroy_qp(right[each]), 0);
	if (now() - before > 10) {
		printf("%.1f s\n", now() - before);
		wrong = 1;
	}
	fprintf(stderr, "%.1f s\n", now() - before);
	return wrong;
}
