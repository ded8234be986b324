/* SPDX-License-Identifier: BSD-2-Clause */
/* A completion channel: an event for what was armed, and none for what was not. */
#include "pair.h"

#include <poll.h>

static int is_readable(int fd, int milliseconds)
{
	struct pollfd look = {.fd = fd, .events = POLLIN};

	return poll(&look, 1, milliseconds);
}

int main(void)
{
	open_all();
	struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
	struct ibv_cq *cq = ibv_create_cq(context, 64, &wrong, channel, 0), *plain = ibv_create_cq(context, 64, NULL, NULL, 0);
	struct ibv_qp *left = made(plain, 64), *right = made(cq, 64);
	struct ibv_cq *found;
	void *about;

	connect_both(left, right);
	CHECK(ibv_req_notify_cq(plain, 0), EINVAL), CHECK(ibv_destroy_comp_channel(channel), EBUSY);
	for (int each = 0; each < 200; each++) {
		struct ibv_wc wc;

		CHECK(post_receive(right, each), 0);
		CHECK(ibv_req_notify_cq(cq, 0), 0);
		CHECK(post_immediate(left, each, each), 0);
		CHECK(ibv_get_cq_event(channel, &found, &about), 0);
		CHECK(found == cq && about == &wrong, 1);
		ibv_ack_cq_events(cq, 1);
		CHECK(next_of(cq).wr_id, each), CHECK(next_of(plain).wr_id, each);
		CHECK(ibv_poll_cq(cq, 1, &wc), 0);
	}
	/* Armed for what is solicited, and for errors. */
	CHECK(ibv_req_notify_cq(cq, 1), 0);
	for (int solicited = 0; solicited < 2; solicited++) {
		CHECK(post_receive(right, solicited), 0);
		CHECK(post_immediate_with(left, 1, 0xfffffffe, solicited ? IBV_SEND_SOLICITED : 0), 0);
		struct ibv_wc wc = next_of(cq);

		CHECK(wc.wr_id, solicited), CHECK(ntohl(wc.imm_data), 0xfffffffe), CHECK(wc.wc_flags, IBV_WC_WITH_IMM);
		CHECK(next_of(plain).wr_id, 1), CHECK(is_readable(channel->fd, 100), solicited);
	}
	CHECK(ibv_get_cq_event(channel, &found, &about), 0), ibv_ack_cq_events(cq, 1);
	/* Not armed; then armed for errors alone. */
	for (int armed = 0; armed < 2; armed++) {
		CHECK(post_receive(right, 1), 0);
		if (armed)
			CHECK(ibv_req_notify_cq(cq, 1), 0);
		CHECK(post_immediate(left, 1, 1), 0);
		CHECK(next_of(cq).wr_id, 1), CHECK(next_of(plain).wr_id, 1);
		CHECK(is_readable(channel->fd, 100), 0);
	}
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	CHECK(post_receive(right, 2), 0);
	CHECK(ibv_modify_qp(right, &attr, IBV_QP_STATE), 0);
	CHECK(ibv_get_cq_event(channel, &found, &about), 0), CHECK(next_of(cq).status, IBV_WC_WR_FLUSH_ERR);
	ibv_ack_cq_events(cq, 1);
	CHECK(ibv_destroy_qp(left), 0), CHECK(ibv_destroy_qp(right), 0);
	CHECK(ibv_destroy_cq(cq), 0), CHECK(ibv_destroy_cq(plain), 0), CHECK(ibv_destroy_comp_channel(channel), 0);
	return wrong;
}
