/* SPDX-License-Identifier: BSD-2-Clause */
/* Every function of mrc_ctl.h over ordinary UDP, one port: what it does, what it refuses and with which errno. */
#include "ctl.h"
#include <math.h>

static void device(void)
{
	struct mrc_ctl_device_attr attr;
	int supported = -1, nscc = 0;

	FAILS(mrc_ctl_query_device_ex(context, mrc, &attr, &supported), 0), CHECK(!!supported, 1);
	FAILS(mrc_ctl_query_device(context, &attr), 0);
	CHECK(attr.mrc_ctl_protocol_version, MRC_CTL_PROTOCOL_VERSION_1);
	CHECK(attr.ev.ev_max_profiles, 64), CHECK(attr.cc.cc_max_profiles, 64), CHECK(attr.ev.ev_count_align, 1);
	CHECK(attr.ev.ev_fmt_mode_mask, MRC_CTL_EV_FMT_MODE_UDP), CHECK(attr.ev.ev_max_width, 16);
	CHECK(attr.ev.ev_mode_mask, MRC_CTL_EV_MODE_AUTO | MRC_CTL_EV_MODE_EXP | MRC_CTL_EV_MODE_GEN);
	CHECK(attr.ev.ev_free_count, attr.ev.ev_max_count), CHECK(attr.phy_port_mask, 1 << 1);
	CHECK(attr.opt_attr & MRC_CTL_OPT_CAP_EV_PROFILE_MODIFY_ONLINE, MRC_CTL_OPT_CAP_EV_PROFILE_MODIFY_ONLINE);
	for (const char **each = attr.cc.algorithms; *each; each++) {
		nscc += !strcmp(*each, "uet-1.0-nscc");
		CHECK(strcmp(*each, "none") != 0, 1);
	}
	CHECK(nscc, 1);
	FAILS(mrc_ctl_query_device(NULL, &attr), EINVAL), FAILS(mrc_ctl_query_device(context, NULL), EINVAL);
	FAILS(mrc_ctl_query_device_ex(context, NULL, &attr, &supported), EINVAL), CHECK(supported, 0);
}

static void ports(void)
{
	struct mrc_ctl_port_attr attr = {.port_admin_state = MRC_CTL_PORT_ADMIN_DISABLED}, found;

	FAILS(mrc_ctl_modify_port(mrc, 1, &attr, MRC_CTL_PORT_ADMIN_STATE), 0);
	FAILS(mrc_ctl_query_port(mrc, 1, &found, MRC_CTL_PORT_ADMIN_STATE), 0);
	CHECK(found.port_admin_state, MRC_CTL_PORT_ADMIN_DISABLED);
	attr.port_admin_state = MRC_CTL_PORT_ADMIN_ENABLED;
	FAILS(mrc_ctl_modify_port(mrc, 1, &attr, MRC_CTL_PORT_ADMIN_STATE), 0);
	FAILS(mrc_ctl_query_port(mrc, 1, &found, MRC_CTL_PORT_ADMIN_STATE), 0);
	CHECK(found.port_admin_state, MRC_CTL_PORT_ADMIN_ENABLED);
	FAILS(mrc_ctl_query_port(mrc, 0, &found, MRC_CTL_PORT_ADMIN_STATE), EINVAL);
	FAILS(mrc_ctl_query_port(mrc, 2, &found, MRC_CTL_PORT_ADMIN_STATE), EINVAL);
	FAILS(mrc_ctl_modify_port(mrc, 1, &attr, 2), EINVAL);
	attr.port_admin_state = (enum mrc_ctl_port_admin_state)2;
	FAILS(mrc_ctl_modify_port(mrc, 1, &attr, MRC_CTL_PORT_ADMIN_STATE), EINVAL);
}

static void formats(void)
{
	struct mrc_ctl_ev_fmt_field fields[3] = {{4}, {12}}, found[2];
	struct mrc_ctl_ev_fmt_profile_attr attr = {.ev_fmt_op = {MRC_CTL_EV_FMT_OP_QUERY_FIELDS, found, 1}};

	make_format(MRC_CTL_EV_FMT_MODE_UDP, fields, 2);
	FAILS(mrc_ctl_query_ev_fmt_profile(mrc, 1, &attr, MRC_CTL_EV_FMT_PROFILE_OP), E2BIG);
	CHECK(attr.ev_fmt_op.fmt_field_count, 2);
	FAILS(mrc_ctl_query_ev_fmt_profile(mrc, 1, &attr,
		      MRC_CTL_EV_FMT_PROFILE_OP | MRC_CTL_EV_FMT_PROFILE_MODE | MRC_CTL_EV_FMT_PROFILE_CUR_STATE),
		0);
	CHECK(found[0].width, 4), CHECK(found[1].width, 12), CHECK(attr.ev_fmt_mode, MRC_CTL_EV_FMT_MODE_UDP);
	CHECK(attr.cur_profile_state, MRC_CTL_PROFILE_ONLINE);
	attr = (struct mrc_ctl_ev_fmt_profile_attr){.profile_state = MRC_CTL_PROFILE_OFFLINE};
	FAILS(mrc_ctl_modify_ev_fmt_profile(mrc, 2, &attr, MRC_CTL_EV_FMT_PROFILE_STATE), EINVAL);
	attr.ev_fmt_mode = MRC_CTL_EV_FMT_MODE_SRV6;
	FAILS(mrc_ctl_modify_ev_fmt_profile(mrc, 2, &attr, MRC_CTL_EV_FMT_PROFILE_STATE | MRC_CTL_EV_FMT_PROFILE_MODE), EINVAL);
	attr.ev_fmt_mode = MRC_CTL_EV_FMT_MODE_UDP, fields[2].width = 1;
	attr.ev_fmt_op.op = MRC_CTL_EV_FMT_OP_MODIFY_FIELDS;
	attr.ev_fmt_op.fmt_fields = fields, attr.ev_fmt_op.fmt_field_count = 3;
	FAILS(mrc_ctl_modify_ev_fmt_profile(mrc, 2, &attr,
		      MRC_CTL_EV_FMT_PROFILE_STATE | MRC_CTL_EV_FMT_PROFILE_MODE | MRC_CTL_EV_FMT_PROFILE_OP),
		E2BIG);
	FAILS(mrc_ctl_query_ev_fmt_profile(mrc, 64, &attr, MRC_CTL_EV_FMT_PROFILE_STATE), EINVAL);
	FAILS(mrc_ctl_query_ev_fmt_profile(mrc, ~0ull, &attr, MRC_CTL_EV_FMT_PROFILE_STATE), EINVAL);
	FAILS(mrc_ctl_query_ev_fmt_profile(mrc, 2, &attr, 1 << 4), EINVAL);
	attr.vendor_cfg[127] = 1;
	FAILS(mrc_ctl_modify_ev_fmt_profile(mrc, 2, &attr, MRC_CTL_EV_FMT_VENDOR_CFG), EINVAL);
}

static void evs(void)
{
	/* The EV is the last two bits: source ports 0xc000 to 0xc003. */
	struct mrc_ctl_ev_field fields[2] = {{.width = 4, .init_val = 0xc}, {.width = 12, .mask = 3}}, found[2];
	struct mrc_ctl_ev_op_entry entries[2] = {
		{.ev_new = ev_of(1, 1), .state = MRC_CTL_EV_GOOD}, {.ev_new = ev_of(2, 1), .state = MRC_CTL_EV_DENIED}};
	struct mrc_ctl_ev_op_entry array[2], one = {.ev = ev_of(2, 1)};
	struct mrc_ctl_ev_profile_attr attr = {.ev_op = {MRC_CTL_EV_OP_QUERY_EV_ARRAY, array, 1}};
	struct mrc_ctl_ev_fmt_profile_attr format = {.profile_state = MRC_CTL_PROFILE_OFFLINE};

	make_profile(fields, 2, entries, 2);
	FAILS(mrc_ctl_query_ev_profile(mrc, 1, &attr, MRC_CTL_EV_PROFILE_EV_OP), E2BIG), CHECK(attr.ev_op.entry_count, 2);
	FAILS(mrc_ctl_query_ev_profile(mrc, 1, &attr, MRC_CTL_EV_PROFILE_EV_OP), 0);
	CHECK(memcmp(&array[0].ev, &entries[0].ev_new, sizeof array[0].ev), 0), CHECK(array[1].ev.val[0], 2);
	/* Nobody uses it here: what an EV is like elsewhere is not known, but for what controllers denied. */
	CHECK(array[0].state, MRC_CTL_EV_UNKNOWN), CHECK(array[1].state, MRC_CTL_EV_DENIED);
	FAILS(ev_operation(1, MRC_CTL_EV_OP_QUERY_EV_STATE, &one, 1), 0), CHECK(one.state, MRC_CTL_EV_DENIED);
	one.state = MRC_CTL_EV_GOOD;
	FAILS(ev_operation(1, MRC_CTL_EV_OP_MODIFY_EV_STATE, &one, 1), 0);
	FAILS(ev_operation(1, MRC_CTL_EV_OP_QUERY_EV_STATE, &one, 1), 0), CHECK(one.state, MRC_CTL_EV_UNKNOWN);
	one.state = MRC_CTL_EV_ASSUMED_BAD;
	FAILS(ev_operation(1, MRC_CTL_EV_OP_MODIFY_EV_STATE, &one, 1), EINVAL);
	one.state = MRC_CTL_EV_DENIED, one.ev.port = 2;
	FAILS(ev_operation(1, MRC_CTL_EV_OP_MODIFY_EV_STATE, &one, 1), EINVAL);
	one.ev = ev_of(3, 1);
	FAILS(ev_operation(1, MRC_CTL_EV_OP_MODIFY_EV_STATE, &one, 1), ENOENT);
	one = (struct mrc_ctl_ev_op_entry){.ev = ev_of(1, 1), .ev_new = ev_of(4, 1), .state = MRC_CTL_EV_GOOD};
	FAILS(ev_operation(1, MRC_CTL_EV_OP_REPLACE_EV, &one, 1), EINVAL); /* more bits than the masks have */
	one.ev_new = ev_of(3, 1);
	FAILS(ev_operation(1, MRC_CTL_EV_OP_REPLACE_EV, &one, 1), 0);
	FAILS(ev_operation(1, MRC_CTL_EV_OP_REPLACE_EV, &one, 1), ENOENT);
	one.ev.val[31] = 1;
	FAILS(ev_operation(1, MRC_CTL_EV_OP_REPLACE_EV, &one, 1), EINVAL);
	FAILS(ev_operation(1, (enum mrc_ctl_ev_op)4, &one, 1), EINVAL), FAILS(ev_operation(1, MRC_CTL_EV_OP_REPLACE_EV, NULL, 1), EINVAL);
	FAILS(ev_operation(1, MRC_CTL_EV_OP_REPLACE_EV, &one, 1025), E2BIG), FAILS(ev_operation(9, MRC_CTL_EV_OP_QUERY_EV_STATE, &one, 1), ENOENT);

	attr.ev_fields_op.op = MRC_CTL_EV_FIELDS_OP_QUERY_FIELDS, attr.ev_fields_op.fields = found, attr.ev_fields_op.field_count = 1;
	FAILS(mrc_ctl_query_ev_profile(mrc, 1, &attr, MRC_CTL_EV_PROFILE_EV_FIELDS_OP), E2BIG), CHECK(attr.ev_fields_op.field_count, 2);
	FAILS(mrc_ctl_query_ev_profile(mrc, 1, &attr,
		      MRC_CTL_EV_PROFILE_EV_FIELDS_OP | MRC_CTL_EV_PROFILE_COUNT | MRC_CTL_EV_PROFILE_MODE |
			      MRC_CTL_EV_PROFILE_MIN_ACTIVE | MRC_CTL_EV_PROFILE_EVENT_MASK | MRC_CTL_EV_PROFILE_FMT_ID |
			      MRC_CTL_EV_PROFILE_STATE),
		0);
	CHECK(memcmp(found, fields, sizeof fields), 0), CHECK(attr.ev_count, 2), CHECK(attr.ev_mode, MRC_CTL_EV_MODE_EXP);
	CHECK(attr.ev_min_active, 1), CHECK(attr.ev_event_mask, MRC_CTL_EV_GOOD | MRC_CTL_EV_ASSUMED_BAD);
	CHECK(attr.ev_fmt_profile_id, 1), CHECK(attr.profile_state, MRC_CTL_PROFILE_ONLINE);
	FAILS(mrc_ctl_query_ev_profile(mrc, 1, &attr, MRC_CTL_EV_PROFILE_EV_FIELDS_OP | MRC_CTL_EV_PROFILE_EV_OP), EINVAL);
	FAILS(mrc_ctl_modify_ev_profile(mrc, 1, &attr, MRC_CTL_EV_PROFILE_COUNT), EINVAL);
	FAILS(mrc_ctl_modify_ev_fmt_profile(mrc, 1, &format, MRC_CTL_EV_FMT_PROFILE_STATE), EBUSY);
	attr.profile_state = MRC_CTL_PROFILE_OFFLINE, attr.cur_profile_state = MRC_CTL_PROFILE_INIT;
	FAILS(mrc_ctl_modify_ev_profile(mrc, 1, &attr, MRC_CTL_EV_PROFILE_STATE | MRC_CTL_EV_PROFILE_CUR_STATE), EINVAL);
	attr.cur_profile_state = MRC_CTL_PROFILE_ONLINE;
	FAILS(mrc_ctl_modify_ev_profile(mrc, 1, &attr, MRC_CTL_EV_PROFILE_STATE | MRC_CTL_EV_PROFILE_CUR_STATE), 0);
	FAILS(mrc_ctl_modify_ev_fmt_profile(mrc, 1, &format, MRC_CTL_EV_FMT_PROFILE_STATE), 0);
	FAILS(mrc_ctl_modify_ev_profile(mrc, 0, &attr, MRC_CTL_EV_PROFILE_STATE), EPERM);
}

static void congestion(void)
{
	struct mrc_ctl_cc_nscc_cfg config = {.disable_qa = 1, .gamma = 0.5f, .target_delay = 9000, .qa_gate = 4};
	struct mrc_ctl_cc_profile_attr attr = {
		.profile_state = MRC_CTL_PROFILE_OFFLINE, .algorithm = "uet-1.0-nscc", .cc_config = &config};
	int described = MRC_CTL_CC_PROFILE_STATE | MRC_CTL_CC_PROFILE_ALGORITHM, all = described | MRC_CTL_CC_PROFILE_CONFIG;

	FAILS(mrc_ctl_modify_cc_profile(mrc, 1, &attr, MRC_CTL_CC_PROFILE_STATE), EINVAL);
	FAILS(mrc_ctl_modify_cc_profile(mrc, 1, &attr, described), 0);
	attr.profile_state = MRC_CTL_PROFILE_ONLINE;
	FAILS(mrc_ctl_modify_cc_profile(mrc, 1, &attr, MRC_CTL_CC_PROFILE_STATE), EINVAL);
	FAILS(mrc_ctl_modify_cc_profile(mrc, 1, &attr, MRC_CTL_CC_PROFILE_STATE | MRC_CTL_CC_PROFILE_CONFIG), 0);
	attr = (struct mrc_ctl_cc_profile_attr){0};
	FAILS(mrc_ctl_query_cc_profile(mrc, 1, &attr, all), 0);
	const struct mrc_ctl_cc_nscc_cfg *found = attr.cc_config;

	CHECK(attr.profile_state, MRC_CTL_PROFILE_ONLINE), CHECK(strcmp(attr.algorithm, "uet-1.0-nscc"), 0);
	CHECK(found->disable_qa, 1), CHECK(found->target_delay, 9000), CHECK(found->qa_gate, 4), CHECK(found->gamma == 0.5f, 1);
	CHECK(found->max_md_jump == 0.5f, 1), CHECK(found->base_rtt, 0);
	/* Without an algorithm there is no congestion control, and nothing to configure. */
	attr = (struct mrc_ctl_cc_profile_attr){.profile_state = MRC_CTL_PROFILE_OFFLINE};
	FAILS(mrc_ctl_modify_cc_profile(mrc, 2, &attr, described), 0);
	attr.profile_state = MRC_CTL_PROFILE_ONLINE;
	FAILS(mrc_ctl_modify_cc_profile(mrc, 2, &attr, MRC_CTL_CC_PROFILE_STATE), 0);
	attr.algorithm = "x", attr.cc_config = &config;
	FAILS(mrc_ctl_query_cc_profile(mrc, 2, &attr, all), 0), CHECK(attr.algorithm == NULL, 1), CHECK(attr.cc_config == NULL, 1);
	attr = (struct mrc_ctl_cc_profile_attr){.profile_state = MRC_CTL_PROFILE_OFFLINE, .algorithm = "cubic"};
	FAILS(mrc_ctl_modify_cc_profile(mrc, 3, &attr, described), EINVAL);
	attr.algorithm = "fixed", attr.cc_config = &config;
	FAILS(mrc_ctl_modify_cc_profile(mrc, 3, &attr, all), EINVAL);
	config.gamma = 2;
	attr.algorithm = "uet-1.0-nscc";
	FAILS(mrc_ctl_modify_cc_profile(mrc, 3, &attr, all), EINVAL);
}

int main(void)
{
	open_controller();
	device(), ports(), formats(), evs(), congestion();
	CHECK(mrc_destroy_context(mrc), 0);
	struct mrc_ctl_port_attr port;

	FAILS(mrc_ctl_query_port(mrc, 1, &port, MRC_CTL_PORT_ADMIN_STATE), EINVAL);
	CHECK(ibv_close_device(context), 0);
	return wrong;
}
