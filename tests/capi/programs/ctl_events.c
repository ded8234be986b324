/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * EV events and endpoint operations of one process: two QPs of it, connected to each other over ordinary UDP, and a
 * controller that denies their EV. What each call does and refuses, the counts of what was dropped, and channels.
 */
#include "mrc_pair.h"

#include <mrc_ctl.h>
#include <poll.h>

#define FAILS(call, number)                                                                                            \
	(check(__LINE__, #call, (call), (number) ? -1 : 0), (number) ? check(__LINE__, #call " errno", errno, number) : (void)0)
#define ROUNDS 20
#define MORE 20 /* an endpoint has fewer connections */

static struct mrc_cq *cq;
static struct mrc_qp *left, *right;
static struct mrc_ctl_ev ev = {.port = 1};

static void change(enum mrc_ctl_ev_state state)
{
	struct mrc_ctl_ev_op_entry entry = {.ev = ev, .state = state};
	struct mrc_ctl_ev_profile_attr attr = {.ev_op = {MRC_CTL_EV_OP_MODIFY_EV_STATE, &entry, 1}};

	FAILS(mrc_ctl_modify_ev_profile(mrc, 1, &attr, MRC_CTL_EV_PROFILE_EV_OP), 0);
}

/* EV profile 1: one EV, explicit. */
static void make_profile(void)
{
	uint32_t number = 0xc123;
	struct mrc_ctl_ev_op_entry entry = {.ev_new = ev, .state = MRC_CTL_EV_GOOD};
	struct mrc_ctl_ev_profile_attr attr = {.profile_state = MRC_CTL_PROFILE_OFFLINE, .ev_mode = MRC_CTL_EV_MODE_EXP,
		.ev_count = 1, .ev_event_mask = MRC_CTL_EV_GOOD | MRC_CTL_EV_ASSUMED_BAD | MRC_CTL_EV_DENIED};

	memcpy(ev.val, &number, sizeof number);
	entry.ev_new = ev;
	FAILS(mrc_ctl_modify_ev_profile(mrc, 1, &attr,
		      MRC_CTL_EV_PROFILE_STATE | MRC_CTL_EV_PROFILE_MODE | MRC_CTL_EV_PROFILE_FMT_ID | MRC_CTL_EV_PROFILE_COUNT),
		0);
	attr.profile_state = MRC_CTL_PROFILE_ONLINE;
	attr.ev_op.op = MRC_CTL_EV_OP_REPLACE_EV, attr.ev_op.entries = &entry, attr.ev_op.entry_count = 1;
	FAILS(mrc_ctl_modify_ev_profile(mrc, 1, &attr,
		      MRC_CTL_EV_PROFILE_STATE | MRC_CTL_EV_PROFILE_MIN_ACTIVE | MRC_CTL_EV_PROFILE_EVENT_MASK | MRC_CTL_EV_PROFILE_EV_OP),
		0);
}

static void connect_pair(void)
{
	struct mrc_qp_attr with = {.profile = {1, 0}};

	cq = mrc_create_cq(mrc, 64, NULL, NULL, 0), left = mrc_made(cq, 16), right = mrc_made(cq, 16);
	CHECK(mrc_to_init(left, &with, MRC_QP_EV_PROFILE_ID), 0), CHECK(mrc_to_init(right, NULL, 0), 0);
	CHECK(mrc_to_rtr(left, right, NULL, 0), 0), CHECK(mrc_to_rtr(right, left, NULL, 0), 0);
	CHECK(mrc_to_rts(left, NULL, 0), 0), CHECK(mrc_to_rts(right, NULL, 0), 0);
}

static struct mrc_ctl_ev_event next_event(struct mrc_cq *events)
{
	struct mrc_ctl_ev_event event = {0};
	time_t end = time(NULL) + 60;
	int found;

	while (!(found = mrc_ctl_poll_ev_event(events, 1, &event)))
		if (time(NULL) > end) {
			printf("no event comes\n");
			exit(1);
		}
	CHECK(found, 1);
	return event;
}

static void check_event(struct mrc_ctl_ev_event event, enum mrc_ctl_ev_state state, uint32_t dropped)
{
	CHECK(event.profile_id, 1), CHECK(memcmp(&event.ev, &ev, sizeof ev), 0);
	CHECK(event.state, state), CHECK(event.drop_count, dropped);
}

/* ------------------------------------------------------------------ events */

static void in_order(void)
{
	struct mrc_cq *events = mrc_ctl_create_ev_event_cq(mrc, 16, NULL, NULL, 0);
	struct mrc_ctl_ev_event two[2];
	struct ibv_wc wc;

	CHECK(events != NULL, 1);
	CHECK(mrc_ctl_poll_ev_event(events, 2, two), 0);
	change(MRC_CTL_EV_DENIED), change(MRC_CTL_EV_GOOD);
	check_event(next_event(events), MRC_CTL_EV_DENIED, 0), check_event(next_event(events), MRC_CTL_EV_GOOD, 0);
	CHECK(mrc_ctl_poll_ev_event(events, 2, two), 0);

	CHECK(mrc_ctl_poll_ev_event(NULL, 1, two), -EINVAL), CHECK(mrc_ctl_poll_ev_event(cq, 1, two), -EINVAL);
	CHECK(mrc_ctl_poll_ev_event(events, -1, two), -EINVAL), CHECK(mrc_ctl_poll_ev_event(events, 1, NULL), -EINVAL);
	CHECK(mrc_ctl_poll_ev_event(events, 0, NULL), 0);
	FAILS(mrc_poll_cq(events, 1, &wc), EINVAL);
	errno = 0, CHECK(mrc_made(events, 4) == NULL, 1), CHECK(errno, EINVAL);
	CHECK(mrc_destroy_cq(events), 0);
	CHECK(mrc_ctl_poll_ev_event(events, 1, two), -EINVAL);
	errno = 0, CHECK(mrc_ctl_create_ev_event_cq(NULL, 16, NULL, NULL, 0) == NULL, 1), CHECK(errno, EINVAL);
	errno = 0, CHECK(mrc_ctl_create_ev_event_cq(mrc, 0, NULL, NULL, 0) == NULL, 1), CHECK(errno, EINVAL);
	errno = 0, CHECK(mrc_ctl_create_ev_event_cq(mrc, 16, NULL, NULL, 1) == NULL, 1), CHECK(errno, EINVAL);
}

/* Two have room. The next that finds room says how many did not. */
static void dropped(void)
{
	struct mrc_cq *few = mrc_ctl_create_ev_event_cq(mrc, 2, NULL, NULL, 0);
	struct mrc_cq *all = mrc_ctl_create_ev_event_cq(mrc, 4 * ROUNDS, NULL, NULL, 0), *more[MORE];

	for (int each = 0; each < MORE; each++)
		more[each] = mrc_ctl_create_ev_event_cq(mrc, 2, NULL, NULL, 0);
	for (int each = 0; each < ROUNDS; each++)
		change(MRC_CTL_EV_DENIED), change(MRC_CTL_EV_GOOD);
	for (int each = 0; each < ROUNDS; each++)
		check_event(next_event(all), MRC_CTL_EV_DENIED, 0), check_event(next_event(all), MRC_CTL_EV_GOOD, 0);
	check_event(next_event(few), MRC_CTL_EV_DENIED, 0), check_event(next_event(few), MRC_CTL_EV_GOOD, 0);
	change(MRC_CTL_EV_DENIED), change(MRC_CTL_EV_GOOD);
	check_event(next_event(few), MRC_CTL_EV_DENIED, 2 * ROUNDS - 2), check_event(next_event(few), MRC_CTL_EV_GOOD, 0);
	for (int each = 0; each < MORE; each++)
		check_event(next_event(more[each]), MRC_CTL_EV_DENIED, 0), CHECK(mrc_destroy_cq(more[each]), 0);
	CHECK(mrc_destroy_cq(few), 0), CHECK(mrc_destroy_cq(all), 0);
}

static void over_a_channel(void)
{
	struct mrc_comp_channel *channel;
	struct mrc_cq *found = NULL, *events;
	struct pollfd ready = {.events = POLLIN};
	void *own = NULL;

	CHECK(mrc_create_comp_channel(mrc, &channel), 0), CHECK(mrc_get_comp_channel_fd(channel, &ready.fd), 0);
	events = mrc_ctl_create_ev_event_cq(mrc, 16, &ready, channel, 0);
	CHECK(events != NULL, 1), CHECK(mrc_destroy_comp_channel(channel), EBUSY);
	for (int each = 0; each < 3; each++) {
		CHECK(mrc_req_notify_cq(events, 0), 0), CHECK(poll(&ready, 1, 0), 0);
		change(MRC_CTL_EV_DENIED), change(MRC_CTL_EV_GOOD);
		CHECK(poll(&ready, 1, 60000), 1);
		CHECK(mrc_get_cq_event(channel, &found, &own), 0), CHECK(found == events && own == &ready, 1);
		mrc_ack_cq_events(events, 1);
		check_event(next_event(events), MRC_CTL_EV_DENIED, 0), check_event(next_event(events), MRC_CTL_EV_GOOD, 0);
	}
	CHECK(mrc_destroy_cq(events), 0), CHECK(mrc_destroy_comp_channel(channel), 0);
}

/* A program of 1.0.0 has events that end before the state. */
static void as_in_1_0_0(void)
{
	struct mrc_context_attr attr = {.mrc_api_version_used = MRC_API_VER(1, 0, 0)};
	struct mrc_context *old = mrc_create_context(context, &attr);
	struct mrc_cq *events = mrc_ctl_create_ev_event_cq(old, 16, NULL, NULL, 0);
	unsigned char two[2 * sizeof(struct mrc_ctl_ev_event)];
	size_t size = offsetof(struct mrc_ctl_ev_event, state);
	int found = 0;

	memset(two, 0xa5, sizeof two);
	change(MRC_CTL_EV_DENIED), change(MRC_CTL_EV_GOOD);
	while (found < 2)
		found += mrc_ctl_poll_ev_event(events, 2 - found, (struct mrc_ctl_ev_event *)(two + found * size));
	for (int each = 0; each < 2; each++)
		CHECK(memcmp(two + each * size + offsetof(struct mrc_ctl_ev_event, ev), &ev, sizeof ev), 0);
	CHECK(two[2 * size], 0xa5);
	FAILS(mrc_destroy_context(old), EBUSY), CHECK(mrc_destroy_cq(events), 0), CHECK(mrc_destroy_context(old), 0);
}

/* ------------------------------------------------------------------ endpoint operations */

static struct mrc_ctl_ep_req request(uint16_t id)
{
	struct mrc_ctl_ep_req made = {.req_id = id, .ev_fmt_mode = MRC_CTL_EV_FMT_MODE_UDP, .req_ev = ev};

	ibv_query_gid(context, 1, 3, &made.sgid), made.dgid = made.sgid;
	return made;
}

static int operate(enum mrc_ctl_ep_op_type kind, struct mrc_ctl_ep_req *requests, int count, struct mrc_ctl_ep_rsp *answers, int *answered)
{
	return mrc_ctl_ep_batch_send_wait(mrc, 0, kind, requests, count, 2000000000, answers, answered);
}

/* What comes back to the address that sent it is answered by nobody. */
static void unanswered(void)
{
	struct mrc_ctl_ep_req requests[2] = {request(7), request(0xffff)};
	struct mrc_ctl_ep_rsp answers[2];
	int answered = -1;

	FAILS(mrc_ctl_ep_batch_send_wait(mrc, 0, MRC_CTL_EP_OP_EV_PROBE, requests, 2, 5000000, answers, &answered), ETIMEDOUT);
	CHECK(answered, 0), answered = -1;
	requests[0].op.port_status_update.port_status = 1 << 1;
	FAILS(mrc_ctl_ep_batch_send_wait(mrc, 0, MRC_CTL_EP_OP_PORT_STATUS_UPDATE, requests, 1, 5000000, answers, &answered), ETIMEDOUT);
	CHECK(answered, 0), answered = -1;
	FAILS(operate(MRC_CTL_EP_OP_EV_PROBE, requests, 0, NULL, &answered), 0), CHECK(answered, 0);
}

static void refusals(void)
{
	static struct mrc_ctl_ep_req requests[1025];
	static struct mrc_ctl_ep_rsp answers[1025];
	enum mrc_ctl_ep_op_type probe = MRC_CTL_EP_OP_EV_PROBE;
	int answered = 7;

	FAILS(mrc_ctl_ep_batch_send_wait(NULL, 0, probe, requests, 1, 0, answers, &answered), EINVAL), CHECK(answered, 0);
	requests[0] = request(1);
	FAILS(operate(probe, NULL, 1, answers, &answered), EINVAL), FAILS(operate(probe, requests, 1, NULL, &answered), EINVAL);
	FAILS(operate(probe, requests, 1, answers, NULL), EINVAL), FAILS(operate(probe, requests, -1, answers, &answered), EINVAL);
	FAILS(operate((enum mrc_ctl_ep_op_type)2, requests, 1, answers, &answered), EINVAL);
	FAILS(operate(probe, requests, 1025, answers, &answered), E2BIG);
	FAILS(mrc_ctl_ep_batch_send_wait(mrc, 64, probe, requests, 1, 0, answers, &answered), EINVAL);
	requests[1] = request(1);
	FAILS(operate(probe, requests, 2, answers, &answered), EINVAL);
	requests[0].ev_fmt_mode = MRC_CTL_EV_FMT_MODE_STEV;
	FAILS(operate(probe, requests, 1, answers, &answered), EINVAL);
	requests[0] = request(1), requests[0].req_ev.port = 2;
	FAILS(operate(probe, requests, 1, answers, &answered), EINVAL);
	requests[0] = request(1), requests[0].req_ev.val[31] = 1;
	FAILS(operate(probe, requests, 1, answers, &answered), EINVAL);
	requests[0] = request(1), requests[0].sgid.raw[15] ^= 1;
	FAILS(operate(probe, requests, 1, answers, &answered), EINVAL);
	requests[0] = request(1), requests[0].op.port_status_update.port_status = 1;
	FAILS(operate(MRC_CTL_EP_OP_PORT_STATUS_UPDATE, requests, 1, answers, &answered), EINVAL);
	/* An EV of more bits than source ports have: nothing is known of it before it is tried. */
	requests[0] = request(1), requests[0].req_ev.val[2] = 1;
	FAILS(operate(probe, requests, 1, answers, &answered), EINVAL), CHECK(answered, 0);
	requests[0] = request(1), requests[0].dgid.raw[15] ^= 1; /* nobody is connected to that one */
	FAILS(operate(probe, requests, 1, answers, &answered), EAGAIN), CHECK(answered, 0);
}

int main(void)
{
	struct mrc_ctl_device_attr device;

	open_mrc();
	FAILS(mrc_ctl_query_device(context, &device), 0);
	CHECK(device.opt_attr, MRC_CTL_OPT_CAP_EV_PROFILE_MODIFY_ONLINE | MRC_CTL_OPT_CAP_EV_EVENT |
				       MRC_CTL_OPT_CAP_EV_EVENT_PRECISE_DROP_CNT | MRC_CTL_OPT_CAP_EP_OP_EV_PROBE);
	make_profile(), connect_pair();
	in_order(), dropped(), over_a_channel(), as_in_1_0_0(), unanswered(), refusals();
	CHECK(mrc_destroy_qp(left), 0), CHECK(mrc_destroy_qp(right), 0), CHECK(mrc_destroy_cq(cq), 0);
	close_mrc();
	return wrong;
}
