/* SPDX-License-Identifier: BSD-2-Clause */
/* lib_mrc.so: the functions of mrc_ctl.h, passed on as those of mrc.h are. */
#include "../ctl_api.h"
#include "passing.h"

FINDS(struct mrc_ctl_api, "mrc_libmrc_ctl")

EXPORT void mrc_ctl_query_version(uint32_t *current_version, uint32_t *last_supported_version, uint32_t *vendor_version,
	uint32_t *last_supported_vendor_version)
{
	put(current_version, MRC_CTL_API_CURRENT_VERSION);
	put(last_supported_version, MRC_CTL_API_LAST_SUPPORTED_VERSION);
	put(vendor_version, 0);
	put(last_supported_vendor_version, 0);
}

PASSES_ON(int, mrc_ctl_query_device, (struct ibv_context *context, struct mrc_ctl_device_attr *attr), (context, attr), -1)
PASSES_ON(int, mrc_ctl_query_device_ex,
	(struct ibv_context *context, struct mrc_context *mcontext, struct mrc_ctl_device_attr *attr, int *supported),
	(context, mcontext, attr, supported), unsupported(supported))
PASSES_ON(int, mrc_ctl_query_port,
	(struct mrc_context *context, uint8_t port_num, struct mrc_ctl_port_attr *attr, int mask),
	(context, port_num, attr, mask), -1)
PASSES_ON(int, mrc_ctl_modify_port,
	(struct mrc_context *context, uint8_t port_num, struct mrc_ctl_port_attr *attr, int mask),
	(context, port_num, attr, mask), -1)
PASSES_ON(int, mrc_ctl_modify_ev_fmt_profile,
	(struct mrc_context *context, uint64_t id, struct mrc_ctl_ev_fmt_profile_attr *attr, int mask),
	(context, id, attr, mask), -1)
PASSES_ON(int, mrc_ctl_query_ev_fmt_profile,
	(struct mrc_context *context, uint64_t id, struct mrc_ctl_ev_fmt_profile_attr *attr, int mask),
	(context, id, attr, mask), -1)
PASSES_ON(int, mrc_ctl_modify_ev_profile,
	(struct mrc_context *context, uint64_t id, struct mrc_ctl_ev_profile_attr *attr, int mask),
	(context, id, attr, mask), -1)
PASSES_ON(int, mrc_ctl_query_ev_profile,
	(struct mrc_context *context, uint64_t id, struct mrc_ctl_ev_profile_attr *attr, int mask),
	(context, id, attr, mask), -1)
PASSES_ON(int, mrc_ctl_modify_cc_profile,
	(struct mrc_context *context, uint64_t id, struct mrc_ctl_cc_profile_attr *attr, int mask),
	(context, id, attr, mask), -1)
PASSES_ON(int, mrc_ctl_query_cc_profile,
	(struct mrc_context *context, uint64_t id, struct mrc_ctl_cc_profile_attr *attr, int mask),
	(context, id, attr, mask), -1)
PASSES_ON(struct mrc_cq *, mrc_ctl_create_ev_event_cq,
	(struct mrc_context *context, int cqe, void *cq_context, struct mrc_comp_channel *channel, int comp_vector),
	(context, cqe, cq_context, channel, comp_vector), NULL)
PASSES_ON(int, mrc_ctl_poll_ev_event, (struct mrc_cq *cq, int num_entries, struct mrc_ctl_ev_event *event),
	(cq, num_entries, event), -ENOSYS)
PASSES_ON(int, mrc_ctl_ep_batch_send_wait,
	(struct mrc_context *context, uint8_t req_tc, enum mrc_ctl_ep_op_type op_type, struct mrc_ctl_ep_req *req,
		int num_req, uint32_t rsp_timeout, struct mrc_ctl_ep_rsp *rsp, int *num_rsp),
	(context, req_tc, op_type, req, num_req, rsp_timeout, rsp, num_rsp), -1)
