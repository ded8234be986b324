/* SPDX-License-Identifier: BSD-2-Clause */
/* A controller of mrc_ctl.h, and checks that print what is wrong. */
#include <errno.h>
#include <mrc_ctl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int wrong;
static struct ibv_context *context;
static struct mrc_context *mrc;

#define CHECK(what, expected) check(__LINE__, #what, (long long)(what), (long long)(expected))
/* A call that fails with -1 and this errno; 0: that succeeds. */
#define FAILS(call, number)                                                                                            \
	(check(__LINE__, #call, (call), (number) ? -1 : 0), (number) ? check(__LINE__, #call " errno", errno, number) : (void)0)

static inline void check(int line, const char *what, long long found, long long wanted)
{
	if (found == wanted)
		return;
	printf("line %d: %s is %lld, not %lld\n", line, what, found, wanted);
	wrong = 1;
}

static inline void open_controller(void)
{
	context = ibv_open_device(ibv_get_device_list(NULL)[0]);
	if (!context || !(mrc = mrc_create_context(context, NULL))) {
		perror("open");
		exit(1);
	}
}

static inline struct mrc_ctl_ev ev_of(uint32_t number, uint8_t port)
{
	struct mrc_ctl_ev ev = {.port = port};

	memcpy(ev.val, &number, sizeof number);
	return ev;
}

static inline int ev_operation(uint64_t id, enum mrc_ctl_ev_op op, struct mrc_ctl_ev_op_entry *entries, int count)
{
	struct mrc_ctl_ev_profile_attr attr = {.ev_op = {op, entries, count}};

	return mrc_ctl_modify_ev_profile(mrc, id, &attr, MRC_CTL_EV_PROFILE_EV_OP);
}

/* Format 1 of these fields, ONLINE. */
static inline void make_format(enum mrc_ctl_ev_fmt_mode mode, struct mrc_ctl_ev_fmt_field *fields, int count)
{
	struct mrc_ctl_ev_fmt_profile_attr attr = {.profile_state = MRC_CTL_PROFILE_OFFLINE, .ev_fmt_mode = mode};

	FAILS(mrc_ctl_modify_ev_fmt_profile(mrc, 1, &attr, MRC_CTL_EV_FMT_PROFILE_STATE | MRC_CTL_EV_FMT_PROFILE_MODE), 0);
	attr.profile_state = MRC_CTL_PROFILE_ONLINE;
	attr.ev_fmt_op.op = MRC_CTL_EV_FMT_OP_MODIFY_FIELDS;
	attr.ev_fmt_op.fmt_fields = fields, attr.ev_fmt_op.fmt_field_count = count;
	FAILS(mrc_ctl_modify_ev_fmt_profile(mrc, 1, &attr, MRC_CTL_EV_FMT_PROFILE_STATE | MRC_CTL_EV_FMT_PROFILE_OP), 0);
}

/* EV profile 1 that is described so: explicit, with these EVs, ONLINE. `mask` is that of what is described besides. */
static inline void make_described(
	struct mrc_ctl_ev_profile_attr attr, int mask, struct mrc_ctl_ev_op_entry *entries, int count)
{
	attr.profile_state = MRC_CTL_PROFILE_OFFLINE, attr.ev_mode = MRC_CTL_EV_MODE_EXP, attr.ev_count = (uint32_t)count;
	FAILS(mrc_ctl_modify_ev_profile(mrc, 1, &attr,
		      MRC_CTL_EV_PROFILE_STATE | MRC_CTL_EV_PROFILE_MODE | MRC_CTL_EV_PROFILE_FMT_ID | MRC_CTL_EV_PROFILE_COUNT | mask),
		0);
	attr.profile_state = MRC_CTL_PROFILE_ONLINE;
	attr.ev_op.op = MRC_CTL_EV_OP_REPLACE_EV, attr.ev_op.entries = entries, attr.ev_op.entry_count = count;
	FAILS(mrc_ctl_modify_ev_profile(mrc, 1, &attr,
		      MRC_CTL_EV_PROFILE_STATE | MRC_CTL_EV_PROFILE_MIN_ACTIVE | MRC_CTL_EV_PROFILE_EVENT_MASK |
			      MRC_CTL_EV_PROFILE_EV_OP),
		0);
}

/* With these fields, of format 1. */
static inline void make_profile(
	struct mrc_ctl_ev_field *fields, int field_count, struct mrc_ctl_ev_op_entry *entries, int count)
{
	struct mrc_ctl_ev_profile_attr attr = {.ev_fmt_profile_id = 1, .ev_min_active = 1,
		.ev_event_mask = MRC_CTL_EV_GOOD | MRC_CTL_EV_ASSUMED_BAD,
		.ev_fields_op = {MRC_CTL_EV_FIELDS_OP_MODIFY_FIELDS, fields, field_count}};

	make_described(attr, MRC_CTL_EV_PROFILE_EV_FIELDS_OP, entries, count);
}

/* Without fields: EVs are what packets carry. Each change of an EV makes an event. */
static inline void make_plain_profile(struct mrc_ctl_ev_op_entry *entries, int count)
{
	struct mrc_ctl_ev_profile_attr attr = {.ev_min_active = 1,
		.ev_event_mask = MRC_CTL_EV_GOOD | MRC_CTL_EV_ASSUMED_BAD | MRC_CTL_EV_DENIED};

	make_described(attr, 0, entries, count);
}
