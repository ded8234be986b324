/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A controller of a lab of two planes with two spines each: makes EV profile 1 of fields, in the mode that is given, and at
 * each line of its input that says "deny" denies EVs. In modes srv6 and stev an EV names a plane and a spine, there are
 * four, and it denies the last, by plane 1 and spine 1. In udp mode nobody knows where an EV leads: of eight it denies the
 * four that leave by port 2. Entries of the array belong to the ports in turn.
 */
#include "ctl.h"

#define MOST 8

static const struct mode {
	const char *name;
	enum mrc_ctl_ev_fmt_mode mode;
	int field_count, evs, denied;
	struct mrc_ctl_ev_fmt_field widths[3];
	struct mrc_ctl_ev_field fields[3];
} modes[] = {
	/* The plane comes twice: in the leaf's uSID and in the spine's. */
	{"srv6", MRC_CTL_EV_FMT_MODE_SRV6, 3, 4, 1, {{32}, {16}, {16}},
		{{.width = 32, .init_val = 0x5f000000}, {.width = 16, .init_val = 0x1000, .mask = 0x0100},
			{.width = 16, .init_val = 0x2000, .mask = 0x0101}}},
	/* The spine is what switches read. Whatever else is there tells the EVs of the ports apart. */
	{"stev", MRC_CTL_EV_FMT_MODE_STEV, 2, 4, 1, {{8}, {24}}, {{.width = 8, .mask = 1}, {.width = 24, .init_val = 0x50, .mask = 1}}},
	{"udp", MRC_CTL_EV_FMT_MODE_UDP, 2, 8, 4, {{4}, {12}}, {{.width = 4, .init_val = 0xc}, {.width = 12, .mask = 7}}},
};

static const struct mode *mode;

static uint8_t port_of(int place) { return (uint8_t)(place % 2 + 1); }

static struct mrc_ctl_ev ev_at(int place)
{
	uint32_t plane = place & 1, spine = place >> 1;

	return ev_of(mode->mode == MRC_CTL_EV_FMT_MODE_SRV6 ? plane << 2 | plane << 1 | spine : (uint32_t)place, port_of(place));
}

static void deny(void)
{
	for (int each = mode->evs - 1, left = mode->denied; left; each -= 2, left--) {
		struct mrc_ctl_ev_op_entry denied = {.ev = ev_at(each), .state = MRC_CTL_EV_DENIED};

		denied.ev.port = 1;
		FAILS(ev_operation(1, MRC_CTL_EV_OP_MODIFY_EV_STATE, &denied, 1), EINVAL); /* it is of the other plane */
		denied.ev.port = 2;
		FAILS(ev_operation(1, MRC_CTL_EV_OP_MODIFY_EV_STATE, &denied, 1), 0);
	}
	struct mrc_ctl_ev_profile_attr attr = {.profile_state = MRC_CTL_PROFILE_OFFLINE};

	FAILS(mrc_ctl_modify_ev_profile(mrc, 1, &attr, MRC_CTL_EV_PROFILE_STATE), EBUSY); /* another process uses it */
}

int main(int count, char **arguments)
{
	struct mrc_ctl_device_attr device;
	struct mrc_ctl_ev_op_entry entries[MOST];
	struct mrc_ctl_ev_fmt_field widths[3];
	struct mrc_ctl_ev_field fields[3];
	char line[16];

	for (int each = 0; each < 3; each++)
		if (count > 1 && !strcmp(modes[each].name, arguments[1]))
			mode = &modes[each];
	if (!mode)
		return 2;
	open_controller();
	FAILS(mrc_ctl_query_device(context, &device), 0);
	CHECK(device.ev.ev_fmt_mode_mask, mode->mode), CHECK(device.ev.ev_count_align, 2), CHECK(device.phy_port_mask, 6);
	memcpy(widths, mode->widths, sizeof widths), memcpy(fields, mode->fields, sizeof fields);
	make_format(mode->mode, widths, mode->field_count);
	for (int each = 0; each < mode->evs; each++)
		entries[each] = (struct mrc_ctl_ev_op_entry){.ev_new = ev_at(each), .state = MRC_CTL_EV_GOOD};
	make_profile(fields, mode->field_count, entries, mode->evs);
	if (!wrong)
		printf("profile 1\n"), fflush(stdout);
	while (fgets(line, sizeof line, stdin) && !strcmp(line, "deny\n")) {
		deny();
		if (!wrong)
			printf("denied\n"), fflush(stdout);
	}
	return wrong;
}
