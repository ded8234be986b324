/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A controller of a lab of two planes with two spines each: makes EV profile 1 of all four paths, and at each line of its
 * input that says "deny" denies the last. An EV is a bit for the plane and one for the spine.
 */
#include "ctl.h"

int main(void)
{
	struct mrc_ctl_device_attr device;
	struct mrc_ctl_ev_fmt_field widths[] = {{32}, {16}, {16}};
	struct mrc_ctl_ev_field fields[] = {{.width = 32, .init_val = 0x5f000000},
		{.width = 16, .init_val = 0x1000, .mask = 0x0100}, {.width = 16, .init_val = 0x2000, .mask = 0x0101}};
	struct mrc_ctl_ev_op_entry entries[4];
	char line[16];

	open_controller();
	FAILS(mrc_ctl_query_device(context, &device), 0);
	CHECK(device.ev.ev_fmt_mode_mask, MRC_CTL_EV_FMT_MODE_SRV6), CHECK(device.ev.ev_count_align, 2), CHECK(device.phy_port_mask, 6);
	make_format(MRC_CTL_EV_FMT_MODE_SRV6, widths, 3);
	for (uint32_t each = 0; each < 4; each++) {
		uint32_t plane = each >> 1, spine = each & 1;

		/* The plane comes twice: in the leaf's uSID and in the spine's. */
		entries[each] = (struct mrc_ctl_ev_op_entry){
			.ev_new = ev_of(plane << 2 | plane << 1 | spine, (uint8_t)(plane + 1)), .state = MRC_CTL_EV_GOOD};
	}
	make_profile(fields, 3, entries, 4);
	if (!wrong)
		printf("profile 1\n"), fflush(stdout);
	while (fgets(line, sizeof line, stdin) && !strcmp(line, "deny\n")) {
		struct mrc_ctl_ev_op_entry denied = {.ev = ev_of(7, 1), .state = MRC_CTL_EV_DENIED};

		FAILS(ev_operation(1, MRC_CTL_EV_OP_MODIFY_EV_STATE, &denied, 1), EINVAL); /* it is of the other plane */
		denied.ev.port = 2;
		FAILS(ev_operation(1, MRC_CTL_EV_OP_MODIFY_EV_STATE, &denied, 1), 0);
		struct mrc_ctl_ev_profile_attr attr = {.profile_state = MRC_CTL_PROFILE_OFFLINE};

		FAILS(mrc_ctl_modify_ev_profile(mrc, 1, &attr, MRC_CTL_EV_PROFILE_STATE), EBUSY); /* another process uses it */
		if (!wrong)
			printf("denied\n"), fflush(stdout);
	}
	return wrong;
}
