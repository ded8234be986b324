/* SPDX-License-Identifier: BSD-2-Clause */
/* A thread arms, polls and waits while another completes work: no event is lost. Rounds: the argument, or 5,000. */
#include "pair.h"

#include <poll.h>
#include <pthread.h>

static struct ibv_comp_channel *channel;
static struct ibv_cq *cq, *plain;
static struct ibv_qp *left, *right;
static long rounds = 5000, seen;

/* As libibverbs' manual has it: wait, arm, poll until there is nothing. */
static void *receive(void *argument)
{
	(void)argument;
	while (seen < rounds) {
		struct pollfd look = {.fd = channel->fd, .events = POLLIN};
		struct ibv_cq *found;
		struct ibv_wc wc;
		void *about;

		if (poll(&look, 1, 60000) != 1) {
			printf("no event after %ld completions\n", seen);
			exit(1);
		}
		CHECK(ibv_get_cq_event(channel, &found, &about), 0), CHECK(found == cq, 1);
		ibv_ack_cq_events(cq, 1);
		CHECK(ibv_req_notify_cq(cq, 0), 0);
		while (ibv_poll_cq(cq, 1, &wc) == 1) {
			CHECK(wc.status, IBV_WC_SUCCESS), CHECK(wc.wr_id, seen);
			__atomic_store_n(&seen, seen + 1, __ATOMIC_RELEASE);
			CHECK(post_receive(right, seen + 63), 0);
		}
	}
	return NULL;
}

int main(int count, char **arguments)
{
	pthread_t receiver;
	unsigned draw = 1;

	if (count > 1)
		rounds = atol(arguments[1]);
	open_all();
	channel = ibv_create_comp_channel(context);
	cq = ibv_create_cq(context, 256, NULL, channel, 0), plain = ibv_create_cq(context, 256, NULL, NULL, 0);
	left = made(plain, 64), right = made(cq, 128);
	connect_both(left, right);
	for (int each = 0; each < 64; each++)
		CHECK(post_receive(right, each), 0);
	CHECK(ibv_req_notify_cq(cq, 0), 0);
	pthread_create(&receiver, NULL, receive, NULL);
	for (long each = 0; each < rounds;) {
		long behind = each - __atomic_load_n(&seen, __ATOMIC_ACQUIRE);

		/* At times one by one, so that each finds the receiver about to wait; at times many. */
		draw = draw * 1103515245 + 12345;
		if (behind < (draw >> 16 & 3 ? 1 : 16) && post_immediate(left, each, each) == 0)
			each++;
		struct ibv_wc wc;

		while (ibv_poll_cq(plain, 1, &wc) == 1)
			CHECK(wc.status, IBV_WC_SUCCESS);
	}
	pthread_join(receiver, NULL);
	return wrong;
}
