/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion channels, asynchronous events, and retries: those that were given end a QP without a peer sooner. */
#include "mrc_pair.h"

#include <fcntl.h>
#include <poll.h>

static int is_readable(int fd, int within_ms)
{
	struct pollfd ready = {fd, POLLIN, 0};

	return poll(&ready, 1, within_ms) == 1;
}

static void channels(void)
{
	struct mrc_comp_channel *channel;
	struct mrc_cq *found;
	void *about;
	int fd = -1;

	CHECK(mrc_create_comp_channel(mrc, &channel), 0), CHECK(mrc_get_comp_channel_fd(channel, &fd), 0);
	struct mrc_cq *cq = mrc_create_cq(mrc, 64, &fd, channel, 0), *silent = mrc_create_cq(mrc, 64, NULL, NULL, 0);
	struct mrc_qp *left = mrc_made(cq, 8), *right = mrc_made(silent, 8);

	CHECK(mrc_req_notify_cq(silent, 0) == EINVAL && errno == EINVAL, 1); /* it has no channel */
	mrc_connect(left, right);
	CHECK(mrc_req_notify_cq(cq, 0), 0), CHECK(is_readable(fd, 0), 0);
	CHECK(mrc_write(left, 5, 100, IBV_SEND_SIGNALED), 0);
	CHECK(mrc_get_cq_event(channel, &found, &about), 0), CHECK(found == cq && about == &fd, 1);
	CHECK(mrc_next(cq).wr_id, 5);
	mrc_ack_cq_events(cq, 1);
	/* Not asked for, not told. */
	CHECK(mrc_write(left, 6, 100, IBV_SEND_SIGNALED), 0), CHECK(mrc_next(cq).wr_id, 6), CHECK(is_readable(fd, 0), 0);
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
	CHECK(mrc_get_cq_event(channel, &found, &about) == -1 && errno == EAGAIN, 1);
	CHECK(mrc_destroy_qp(left), 0), CHECK(mrc_destroy_qp(right), 0), CHECK(mrc_destroy_cq(cq), 0), CHECK(mrc_destroy_cq(silent), 0);
	CHECK(mrc_destroy_comp_channel(channel), 0);
}

/* Two QPs write to QPs that do not answer: the one with short timeouts and few retries ends first. */
static void retries(void)
{
	struct mrc_cq *cq = mrc_create_cq(mrc, 64, NULL, NULL, 0);
	struct mrc_qp *usual = mrc_made(cq, 8), *hasty = mrc_made(cq, 8), *silent = mrc_made(cq, 8);
	struct mrc_qp_attr attr = {.timeout = 6, .retry = {1, 0}};
	struct mrc_async_event event;
	struct ibv_wc wc;

	CHECK(mrc_to_init(usual, NULL, 0), 0), CHECK(mrc_to_init(hasty, NULL, 0), 0);
	CHECK(mrc_to_rtr(usual, silent, NULL, 0), 0), CHECK(mrc_to_rtr(hasty, silent, NULL, 0), 0);
	CHECK(mrc_to_rts(usual, NULL, 0), 0), CHECK(mrc_to_rts(hasty, &attr, MRC_QP_TIMEOUT | MRC_QP_RETRY_CNT), 0);
	CHECK(mrc_write(usual, 1, 8, IBV_SEND_SIGNALED), 0), CHECK(mrc_write(hasty, 2, 8, IBV_SEND_SIGNALED), 0);
	wc = mrc_next(cq);
	CHECK(wc.wr_id, 2), CHECK(wc.status, IBV_WC_RETRY_EXC_ERR), CHECK(wc.qp_num, number_of(hasty));
	CHECK(mrc_get_async_event(mrc, &event), 0), CHECK(event.event_type, IBV_EVENT_QP_FATAL);
	CHECK(event.element.qp == hasty, 1);
	mrc_ack_async_event(&event);
	CHECK(mrc_destroy_qp(usual), 0), CHECK(mrc_destroy_qp(hasty), 0), CHECK(mrc_destroy_qp(silent), 0), CHECK(mrc_destroy_cq(cq), 0);
}

/* A queue that overflows is told of once, and fails when it is empty. */
static void overflow(void)
{
	struct mrc_cq *small = mrc_create_cq(mrc, 2, NULL, NULL, 0), *cq = mrc_create_cq(mrc, 64, NULL, NULL, 0);
	struct mrc_qp *left = mrc_made(small, 8), *right = mrc_made(cq, 8);
	struct mrc_async_event event;
	struct ibv_wc wc[4];
	int found;

	mrc_connect(left, right);
	for (int each = 0; each < 3; each++)
		CHECK(mrc_write(left, each, 8, IBV_SEND_SIGNALED), 0);
	CHECK(mrc_get_async_event(mrc, &event), 0), CHECK(event.event_type, IBV_EVENT_CQ_ERR), CHECK(event.element.cq == small, 1);
	mrc_ack_async_event(&event);
	CHECK(mrc_poll_cq(small, 4, wc), 2);
	CHECK((found = mrc_poll_cq(small, 4, wc)) == -1 && errno == EIO, 1);
	CHECK(mrc_destroy_qp(left), 0), CHECK(mrc_destroy_qp(right), 0), CHECK(mrc_destroy_cq(small), 0), CHECK(mrc_destroy_cq(cq), 0);
}

int main(void)
{
	open_mrc();
	channels();
	retries();
	overflow();
	close_mrc();
	return wrong;
}
