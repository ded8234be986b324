/* SPDX-License-Identifier: BSD-2-Clause */
/* The functions of mrc_ctl.h, as api.h has those of mrc.h: lib_mrc.so finds their table under the name mrc_libmrc_ctl. */
#ifndef MRC_CTL_API_TABLE_H
#define MRC_CTL_API_TABLE_H

#include "api.h"
#include "mrc_ctl.h"

/* Every function but mrc_ctl_query_version, in the table's order. */
#define MRC_CTL_API_FUNCTIONS(each)                                                                                    \
	each(mrc_ctl_query_device) each(mrc_ctl_query_device_ex) each(mrc_ctl_query_port) each(mrc_ctl_modify_port)    \
	each(mrc_ctl_modify_ev_fmt_profile) each(mrc_ctl_query_ev_fmt_profile) each(mrc_ctl_modify_ev_profile)         \
	each(mrc_ctl_query_ev_profile) each(mrc_ctl_modify_cc_profile) each(mrc_ctl_query_cc_profile)                  \
	each(mrc_ctl_create_ev_event_cq) each(mrc_ctl_poll_ev_event) each(mrc_ctl_ep_batch_send_wait)

struct mrc_ctl_api {
	MRC_CTL_API_FUNCTIONS(MRC_API_POINTER)
};

/* NULL where the caller's table has another size: the two libraries are not of one build. */
typedef const struct mrc_ctl_api *mrc_libmrc_ctl_function(size_t size);

#endif
