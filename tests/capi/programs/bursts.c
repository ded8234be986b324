/* SPDX-License-Identifier: BSD-2-Clause */
/* Bursts of posts, behind which the program waits in another way than by polling: none of them may be left lying. */
#include "pair.h"

#define DEPTH 64
#define BURST 16
#define ROUNDS 2000
#define EVENTS 200

/* Writes of four bytes, each another number. The last one may be told of. */
static unsigned burst(struct ibv_qp *left, unsigned wr_id, unsigned flags)
{
	unsigned *number = (unsigned *)memory;

	for (int each = 0; each < BURST; each++) {
		++*number;
		CHECK(post_write(left, wr_id, 4, IBV_SEND_INLINE | (each == BURST - 1 ? flags : 0), mr->rkey), 0);
	}
	return *number;
}

/* The program looks at memory alone until a burst's last number is there. */
static void watched(struct ibv_qp *left, struct ibv_cq *cq)
{
	volatile unsigned *landed = (unsigned *)(memory + ROOM);
	time_t end = time(NULL) + 240;

	for (unsigned round = 1; round <= ROUNDS; round++) {
		unsigned last = burst(left, round, round % 2 ? 0 : IBV_SEND_SIGNALED);

		for (unsigned looks = 0; *landed != last; looks++) {
			if (looks % 64 == 0)
				sched_yield();
			if (time(NULL) > end) {
				printf("burst %u has not landed\n", round);
				exit(1);
			}
		}
		if (round % 2 == 0)
			CHECK(next_of(cq).wr_id, round);
	}
}

/* The same with nothing but events of the completion queue. */
static void told(struct ibv_qp *left, struct ibv_cq *cq, struct ibv_comp_channel *channel)
{
	struct ibv_cq *of;
	struct ibv_wc wc;
	void *own;

	for (unsigned round = 1; round <= EVENTS; round++) {
		CHECK(ibv_req_notify_cq(cq, 0), 0);
		burst(left, round, IBV_SEND_SIGNALED);
		CHECK(ibv_get_cq_event(channel, &of, &own), 0);
		ibv_ack_cq_events(of, 1);
		CHECK(ibv_poll_cq(cq, 1, &wc), 1);
		CHECK(wc.wr_id, round);
	}
}

int main(void)
{
	open_all();
	struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
	struct ibv_cq *cq = ibv_create_cq(context, 2 * DEPTH, NULL, channel, 0);
	struct ibv_qp *left = made(cq, DEPTH), *right = made(cq, DEPTH);

	connect_both(left, right);
	alarm(270); /* who waits for an event that never comes ends so */
	watched(left, cq);
	told(left, cq, channel);
	CHECK(ibv_destroy_qp(left), 0), CHECK(ibv_destroy_qp(right), 0), CHECK(ibv_destroy_cq(cq), 0);
	CHECK(ibv_destroy_comp_channel(channel), 0);
	return wrong;
}
