/* SPDX-License-Identifier: BSD-2-Clause */
/* Every function of mrc.h with nothing, with what is destroyed, with what is something else and with what is in use: an
 * errno as the function gives it, and never a crash. */
#include "mrc_pair.h"

/* A pointer, or -1, with errno; an errno that is returned and set. */
#define NULL_WITH(error, call) CHECK((errno = 0, (call) == NULL) && errno == (error), 1)
#define MINUS_ONE_WITH(error, call) CHECK((errno = 0, (call) == -1) && errno == (error), 1)
#define RETURNS(error, call) CHECK((errno = 0, (call) == (error)) && errno == (error), 1)

static void no_context(struct mrc_context *bad, struct mrc_cq *cq)
{
	struct mrc_qp_init_attr attr = {.send_cq = cq, .recv_cq = cq, .pd = pd};
	struct mrc_qp_hint_init_attr hint = {0};
	struct mrc_device_attr device;
	struct mrc_comp_channel *channel;
	struct mrc_async_event event;
	int supported = -1;

	MINUS_ONE_WITH(EINVAL, mrc_destroy_context(bad)), RETURNS(EINVAL, mrc_create_comp_channel(bad, &channel));
	NULL_WITH(EINVAL, mrc_create_cq(bad, 4, NULL, NULL, 0)), NULL_WITH(EINVAL, mrc_create_qp_hint(bad, &hint));
	NULL_WITH(EINVAL, mrc_create_qp(bad, &attr)), MINUS_ONE_WITH(EINVAL, mrc_get_async_event(bad, &event));
	MINUS_ONE_WITH(EINVAL, mrc_query_device_ex(context, bad, &device, &supported)), CHECK(supported, 0);
}

static void no_channel(struct mrc_comp_channel *bad)
{
	struct mrc_cq *found;
	void *about;
	int fd;

	MINUS_ONE_WITH(EINVAL, mrc_get_comp_channel_fd(bad, &fd)), RETURNS(EINVAL, mrc_destroy_comp_channel(bad));
	MINUS_ONE_WITH(EINVAL, mrc_get_cq_event(bad, &found, &about));
	if (bad)
		NULL_WITH(EINVAL, mrc_create_cq(mrc, 4, NULL, bad, 0));
}

static void no_cq(struct mrc_cq *bad, struct mrc_cq *good)
{
	struct mrc_qp_init_attr attr = {.send_cq = bad, .recv_cq = good, .pd = pd};

	NULL_WITH(EINVAL, mrc_create_qp(mrc, &attr));
	attr.send_cq = good, attr.recv_cq = bad;
	NULL_WITH(EINVAL, mrc_create_qp(mrc, &attr));
	RETURNS(EINVAL, mrc_destroy_cq(bad));
	mrc_ack_cq_events(bad, 1);
}

static void no_qp(struct mrc_qp *bad)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT};
	struct mrc_qp_attr mrc_attr = {0};
	struct mrc_qp_init_attr init;
	uint32_t qpn;

	RETURNS(EINVAL, mrc_modify_qp(bad, &attr, IBV_QP_STATE, &mrc_attr, 0)), RETURNS(EINVAL, mrc_destroy_qp(bad));
	RETURNS(EINVAL, mrc_query_qp(bad, &attr, IBV_QP_STATE, &mrc_attr, MRC_QP_MPR, &init));
	MINUS_ONE_WITH(EINVAL, mrc_get_qpn(bad, &qpn));
}

static void no_hint(struct mrc_qp_hint *bad, struct mrc_qp *qp)
{
	struct mrc_qp_hint_attr attr = {0};
	struct mrc_qp_attr with = {.qp_hint = bad};

	MINUS_ONE_WITH(EINVAL, mrc_destroy_qp_hint(bad));
	MINUS_ONE_WITH(EINVAL, mrc_query_qp_hint(bad, &attr, MRC_QP_HINT_NUM_SEND_PEERS));
	MINUS_ONE_WITH(EINVAL, mrc_modify_qp_hint(bad, &attr, MRC_QP_HINT_NUM_SEND_PEERS));
	if (bad)
		CHECK(mrc_to_init(qp, &with, MRC_QP_HINT), EINVAL);
}

/* NULL where something is to be told or to be told of. */
static void nothing(struct mrc_qp *qp, struct mrc_cq *cq, struct mrc_comp_channel *channel, struct mrc_qp_hint *hint)
{
	struct mrc_device_attr device;
	struct ibv_qp_attr attr;
	struct ibv_send_wr send = {0}, *bad_send = NULL;
	struct ibv_recv_wr receive = {0}, *bad_receive = NULL;
	struct mrc_cq *found;
	struct ibv_wc wc;
	void *about;
	int supported = -1;

	MINUS_ONE_WITH(EINVAL, mrc_query_device(NULL, &device, &supported)), CHECK(supported, 0), supported = -1;
	MINUS_ONE_WITH(EINVAL, mrc_query_device(context, NULL, &supported)), CHECK(supported, 0), supported = -1;
	MINUS_ONE_WITH(EINVAL, mrc_query_device_ex(context, mrc, NULL, &supported)), CHECK(supported, 0);
	MINUS_ONE_WITH(EINVAL, mrc_query_device(context, &device, NULL));
	NULL_WITH(EINVAL, mrc_create_context(NULL, NULL)), RETURNS(EINVAL, mrc_create_comp_channel(mrc, NULL));
	NULL_WITH(EINVAL, mrc_create_qp(mrc, NULL)), NULL_WITH(EINVAL, mrc_create_qp_hint(mrc, NULL));
	MINUS_ONE_WITH(EINVAL, mrc_query_qp_hint(hint, NULL, 0)), MINUS_ONE_WITH(EINVAL, mrc_modify_qp_hint(hint, NULL, 0));
	MINUS_ONE_WITH(EINVAL, mrc_get_comp_channel_fd(channel, NULL)), MINUS_ONE_WITH(EINVAL, mrc_get_qpn(qp, NULL));
	MINUS_ONE_WITH(EINVAL, mrc_get_cq_event(channel, NULL, &about));
	MINUS_ONE_WITH(EINVAL, mrc_get_cq_event(channel, &found, NULL));
	MINUS_ONE_WITH(EINVAL, mrc_get_async_event(mrc, NULL)), mrc_ack_async_event(NULL);
	RETURNS(EINVAL, mrc_modify_qp(qp, NULL, IBV_QP_STATE, NULL, 0));
	RETURNS(EINVAL, mrc_query_qp(qp, NULL, IBV_QP_STATE, NULL, 0, NULL));
	RETURNS(EINVAL, mrc_query_qp(qp, &attr, IBV_QP_STATE, NULL, MRC_QP_MPR, NULL));
	CHECK(mrc_query_qp(qp, NULL, 0, NULL, 0, NULL), 0);
	attr.qp_state = IBV_QPS_INIT;
	RETURNS(EINVAL, mrc_modify_qp(qp, &attr, IBV_QP_STATE, NULL, MRC_QP_HINT));
	MINUS_ONE_WITH(EINVAL, mrc_poll_cq(NULL, 1, &wc)), MINUS_ONE_WITH(EINVAL, mrc_poll_cq(cq, 1, NULL));
	CHECK(mrc_poll_cq(cq, 0, NULL), 0), RETURNS(EINVAL, mrc_req_notify_cq(NULL, 0));
	RETURNS(EINVAL, mrc_post_send(NULL, &send, &bad_send)), CHECK(bad_send == &send, 1);
	MINUS_ONE_WITH(EINVAL, mrc_post_recv(NULL, &receive, &bad_receive)), CHECK(bad_receive == &receive, 1);
	mrc_query_version(NULL, NULL, NULL, NULL);
}

/* Another device's context, as far as can be told, has no MRC: that is an answer. */
static void foreign_device(void *anything, struct ibv_context *gone)
{
	struct mrc_device_attr device;
	int supported = -1;

	CHECK(mrc_query_device(anything, &device, &supported), 0), CHECK(supported, 0), supported = -1;
	CHECK(mrc_query_device(gone, &device, &supported), 0), CHECK(supported, 0);
	NULL_WITH(EINVAL, mrc_create_context(anything, NULL)), NULL_WITH(EINVAL, mrc_create_context(gone, NULL));
}

/* What has parts cannot be destroyed. */
static void in_use(struct mrc_context *other, struct mrc_cq *cq, struct mrc_comp_channel *channel)
{
	struct mrc_context *third = mrc_create_context(context, NULL);
	struct mrc_cq *of_third = mrc_create_cq(third, 4, NULL, NULL, 0);

	MINUS_ONE_WITH(EBUSY, mrc_destroy_context(mrc)), MINUS_ONE_WITH(EBUSY, mrc_destroy_context(third));
	CHECK(mrc_destroy_cq(of_third), 0), CHECK(mrc_destroy_context(third), 0);
	RETURNS(EBUSY, mrc_destroy_cq(cq)), RETURNS(EBUSY, mrc_destroy_comp_channel(channel));
	CHECK(mrc_destroy_context(other), 0);
}

int main(void)
{
	static unsigned char anything[2048];
	struct mrc_qp_hint_init_attr none = {0};

	memset(anything, 0xa5, sizeof anything);
	open_mrc();
	struct ibv_context *gone_device = ibv_open_device(ibv_get_device_list(NULL)[0]);
	struct mrc_context *other = mrc_create_context(context, NULL), *gone = mrc_create_context(context, NULL);
	struct mrc_context *over = mrc_create_context(gone_device, NULL);
	struct mrc_comp_channel *channel, *gone_channel;
	CHECK(mrc_create_comp_channel(mrc, &channel), 0), CHECK(mrc_create_comp_channel(mrc, &gone_channel), 0);
	struct mrc_cq *cq = mrc_create_cq(mrc, 4, NULL, channel, 0), *gone_cq = mrc_create_cq(mrc, 4, NULL, NULL, 0);
	struct mrc_qp *qp = mrc_made(cq, 4), *gone_qp = mrc_made(cq, 4);
	struct mrc_qp_hint *hint = mrc_create_qp_hint(mrc, &none), *gone_hint = mrc_create_qp_hint(mrc, &none);
	struct mrc_qp_hint *foreign = mrc_create_qp_hint(other, &none), *of_gone = mrc_create_qp_hint(gone, &none);

	CHECK(ibv_close_device(gone_device), EBUSY), CHECK(mrc_destroy_context(over), 0), CHECK(ibv_close_device(gone_device), 0);
	CHECK(mrc_destroy_context(gone), 0), CHECK(mrc_destroy_qp_hint(gone_hint), 0), CHECK(mrc_destroy_qp(gone_qp), 0);
	CHECK(mrc_destroy_cq(gone_cq), 0), CHECK(mrc_destroy_comp_channel(gone_channel), 0);
	no_context(NULL, cq), no_context(gone, cq), no_context((void *)anything, cq), no_context((void *)qp, cq);
	no_channel(NULL), no_channel(gone_channel), no_channel((void *)anything), no_channel((void *)cq);
	no_cq(NULL, cq), no_cq(gone_cq, cq), no_cq((void *)anything, cq), no_cq((void *)qp, cq);
	no_qp(NULL), no_qp(gone_qp), no_qp((void *)anything), no_qp((void *)hint);
	no_hint(NULL, qp), no_hint(gone_hint, qp), no_hint(of_gone, qp), no_hint((void *)anything, qp), no_hint((void *)cq, qp);
	nothing(qp, cq, channel, hint);
	foreign_device(anything + 1024, gone_device);
	/* Of another context: its hint is none here, and stays there. */
	struct mrc_qp_attr with = {.qp_hint = foreign};
	CHECK(mrc_to_init(qp, &with, MRC_QP_HINT), EINVAL), CHECK(mrc_destroy_qp_hint(foreign), 0);
	in_use(other, cq, channel);
	CHECK(mrc_destroy_qp(qp), 0), CHECK(mrc_destroy_cq(cq), 0), CHECK(mrc_destroy_comp_channel(channel), 0);
	close_mrc();
	return wrong;
}
