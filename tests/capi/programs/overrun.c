/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion queues that are too small: an asynchronous event for each, once, and EIO of a poll that finds nothing more. */
#include "pair.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>

static int is_readable(int milliseconds)
{
	struct pollfd look = {.fd = context->async_fd, .events = POLLIN};

	return poll(&look, 1, milliseconds);
}

static void *wait_for_one(void *place)
{
	struct ibv_async_event event;

	CHECK(ibv_get_async_event(context, &event), 0);
	*(struct ibv_async_event *)place = event;
	ibv_ack_async_event(&event);
	return NULL;
}

static void fill(struct ibv_qp *qp)
{
	for (int each = 0; each < 6; each++)
		CHECK(post_write(qp, each, 8, IBV_SEND_SIGNALED, mr->rkey), 0);
}

int main(void)
{
	open_all();
	struct ibv_cq *small[2], *large = ibv_create_cq(context, 64, NULL, NULL, 0);
	struct ibv_qp *left[2], *right[2];
	struct ibv_async_event event;
	struct ibv_wc wc[8];
	pthread_t thread;

	for (int each = 0; each < 2; each++) {
		small[each] = ibv_create_cq(context, 4, NULL, NULL, 0);
		left[each] = made(small[each], 16), right[each] = made(large, 16);
		connect_both(left[each], right[each]);
	}
	/* Somebody waits for it. */
	CHECK(pthread_create(&thread, NULL, wait_for_one, &event), 0);
	CHECK(is_readable(200), 0);
	fill(left[0]);
	CHECK(pthread_join(thread, NULL), 0);
	CHECK(event.event_type, IBV_EVENT_CQ_ERR), CHECK(event.element.cq == small[0], 1);
	/* Four are there, and then it says that more were. */
	CHECK(ibv_poll_cq(small[0], 8, wc), 4), CHECK(ibv_poll_cq(small[0], 1, wc), -EIO);
	/* Two at once, and one that is lost again: each is told of once. */
	fill(left[1]);
	fill(left[0]);
	CHECK(is_readable(60000), 1);
	CHECK(fcntl(context->async_fd, F_SETFL, O_NONBLOCK), 0);
	CHECK(ibv_get_async_event(context, &event), 0);
	CHECK(event.event_type, IBV_EVENT_CQ_ERR), CHECK(event.element.cq == small[1], 1);
	ibv_ack_async_event(&event);
	usleep(200000);
	CHECK(ibv_get_async_event(context, &event) == -1 && errno == EAGAIN, 1);
	for (int each = 0; each < 2; each++) {
		CHECK(ibv_destroy_qp(left[each]), 0), CHECK(ibv_destroy_qp(right[each]), 0);
		CHECK(ibv_destroy_cq(small[each]), 0);
	}
	CHECK(ibv_destroy_cq(large), 0);
	/* One that has lost completions and is gone before anybody asked. */
	small[0] = ibv_create_cq(context, 4, NULL, NULL, 0);
	left[0] = made(small[0], 16), right[0] = made(small[0], 16);
	connect_both(left[0], right[0]);
	fill(left[0]);
	CHECK(is_readable(60000), 1);
	CHECK(ibv_destroy_qp(left[0]), 0), CHECK(ibv_destroy_qp(right[0]), 0), CHECK(ibv_destroy_cq(small[0]), 0);
	CHECK(ibv_get_async_event(context, &event) == -1 && errno == EAGAIN, 1), CHECK(is_readable(0), 0);
	CHECK(ibv_dereg_mr(mr), 0), CHECK(ibv_dealloc_pd(pd), 0), CHECK(ibv_close_device(context), 0);
	return wrong;
}
