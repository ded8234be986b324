/* SPDX-License-Identifier: BSD-2-Clause */
/* A controller without CAP_NET_ADMIN: it may look, and change nothing. */
#include "ctl.h"

int main(void)
{
	struct mrc_ctl_ev_op_entry entry = {.ev = ev_of(0xc001, 1), .state = MRC_CTL_EV_DENIED};
	struct mrc_ctl_cc_profile_attr cc = {.profile_state = MRC_CTL_PROFILE_OFFLINE};
	struct mrc_ctl_ev_fmt_profile_attr format = {.profile_state = MRC_CTL_PROFILE_OFFLINE, .ev_fmt_mode = MRC_CTL_EV_FMT_MODE_UDP};
	struct mrc_ctl_ev_profile_attr ev = {.profile_state = MRC_CTL_PROFILE_OFFLINE, .ev_mode = MRC_CTL_EV_MODE_AUTO};
	struct mrc_ctl_port_attr port = {.port_admin_state = MRC_CTL_PORT_ADMIN_DISABLED};
	struct mrc_ctl_device_attr device;
	struct mrc_ctl_ep_req request = {.ev_fmt_mode = MRC_CTL_EV_FMT_MODE_UDP, .req_ev = ev_of(0xc001, 1)};
	struct mrc_ctl_ep_rsp answer;
	struct mrc_ctl_ev_event event;
	int answered;

	open_controller();
	FAILS(mrc_ctl_query_device(context, &device), 0);
	FAILS(mrc_ctl_modify_port(mrc, 1, &port, MRC_CTL_PORT_ADMIN_STATE), EPERM);
	FAILS(mrc_ctl_query_port(mrc, 1, &port, MRC_CTL_PORT_ADMIN_STATE), 0);
	CHECK(port.port_admin_state, MRC_CTL_PORT_ADMIN_ENABLED);
	FAILS(mrc_ctl_modify_ev_fmt_profile(mrc, 1, &format, MRC_CTL_EV_FMT_PROFILE_STATE | MRC_CTL_EV_FMT_PROFILE_MODE), EPERM);
	FAILS(mrc_ctl_modify_ev_profile(mrc, 1, &ev,
		      MRC_CTL_EV_PROFILE_STATE | MRC_CTL_EV_PROFILE_MODE | MRC_CTL_EV_PROFILE_FMT_ID),
		EPERM);
	FAILS(mrc_ctl_modify_cc_profile(mrc, 1, &cc, MRC_CTL_CC_PROFILE_STATE | MRC_CTL_CC_PROFILE_ALGORITHM), EPERM);
	FAILS(ev_operation(0, MRC_CTL_EV_OP_MODIFY_EV_STATE, &entry, 1), EPERM);
	FAILS(ev_operation(0, MRC_CTL_EV_OP_QUERY_EV_STATE, &entry, 1), 0), CHECK(entry.state, MRC_CTL_EV_UNKNOWN);
	FAILS(mrc_ctl_query_cc_profile(mrc, 1, &cc, MRC_CTL_CC_PROFILE_STATE), 0);
	CHECK(cc.profile_state, MRC_CTL_PROFILE_INIT);
	ibv_query_gid(context, 1, 0, &request.sgid), request.dgid = request.sgid;
	FAILS(mrc_ctl_ep_batch_send_wait(mrc, 0, MRC_CTL_EP_OP_EV_PROBE, &request, 1, 0, &answer, &answered), EPERM);
	struct mrc_cq *events = mrc_ctl_create_ev_event_cq(mrc, 4, NULL, NULL, 0);

	CHECK(events != NULL, 1), CHECK(mrc_ctl_poll_ev_event(events, 1, &event), 0), CHECK(mrc_destroy_cq(events), 0);
	return wrong;
}
