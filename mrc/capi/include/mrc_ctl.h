/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MRC's controller interface, version 1.0.1, with the ABI of the header that OCP publishes: a program that is built with
 * either header runs with either library. What is set holds for all endpoints of the host. To set something a process
 * needs CAP_NET_ADMIN, else EPERM. Functions return 0, or -1 with errno. docs/capi.md says how each fails.
 */
#ifndef _MRC_CTL_API_H_
#define _MRC_CTL_API_H_

#include <stdint.h>
#include <infiniband/verbs.h>
#include <mrc.h>
#include <mrc_ctl_api_ver.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MRC_CTL_MAX_VENDOR_CFG_SIZE 128
#define MRC_CTL_EV_MAX_BYTES 32
/* An entry of an explicit array that has no EV yet. */
#define MRC_CTL_EV_UNPOPULATED ((struct mrc_ctl_ev){.val = {0}, .port = 0})

enum mrc_ctl_protocol_version { MRC_CTL_PROTOCOL_VERSION_0 = 0, MRC_CTL_PROTOCOL_VERSION_1 = 1 };

/* Of each kind of profile. Nothing is known of it; it is being described; QPs may use it. */
enum mrc_ctl_profile_state { MRC_CTL_PROFILE_INIT, MRC_CTL_PROFILE_OFFLINE, MRC_CTL_PROFILE_ONLINE };

/* ------------------------------------------------------------------ the device */

enum mrc_ctl_attr_opt {
	MRC_CTL_OPT_CAP_EV_PROFILE_MODIFY_ONLINE = 1 << 0,
	MRC_CTL_OPT_CAP_CC_PROFILE_MODIFY_ONLINE = 1 << 1,
	MRC_CTL_OPT_CAP_EV_EVENT = 1 << 2,
	MRC_CTL_OPT_CAP_EV_EXPLICIT_RANGE = 1 << 3, /* explicit EVs have to follow each other */
	MRC_CTL_OPT_CAP_EV_EVENT_PRECISE_DROP_CNT = 1 << 4,
	MRC_CTL_OPT_CAP_EP_OP_EV_PROBE = 1 << 5,
};

struct mrc_ctl_device_attr {
	uint32_t mrc_ctl_protocol_version; /* a bit each */
	struct {
		uint32_t ev_max_fmt_profiles, ev_max_profiles; /* numbered from 0 */
		uint32_t ev_max_count, ev_free_count; /* EVs of all profiles together */
		uint32_t ev_max_count_profile; /* of one */
		uint32_t ev_count_align;
		uint32_t ev_max_width; /* bits of an EV */
		uint32_t ev_fmt_mode_mask, ev_mode_mask;
		uint32_t ev_op_max_entries;
	} ev;
	struct {
		uint32_t cc_max_profiles;
		const char **algorithms; /* the library's; NULL ends them */
	} cc;
	uint32_t phy_port_mask; /* bit N is port N; ports count from 1 */
	uint32_t opt_attr; /* enum mrc_ctl_attr_opt */
};

int mrc_ctl_query_device(struct ibv_context *context, struct mrc_ctl_device_attr *ctl_attr);
#if MRC_CTL_API_VER_USED >= MRC_CTL_API_VER(1, 0, 1)
/* `supported` is set whatever is returned. */
int mrc_ctl_query_device_ex(struct ibv_context *context, struct mrc_context *mcontext,
	struct mrc_ctl_device_attr *ctl_attr, int *supported);
#endif
/* What the library implements, newest and oldest. May be called first of all. */
void mrc_ctl_query_version(uint32_t *current_version, uint32_t *last_supported_version, uint32_t *vendor_version,
	uint32_t *last_supported_vendor_version);

/* ------------------------------------------------------------------ ports */

enum mrc_ctl_port_admin_state { MRC_CTL_PORT_ADMIN_DISABLED = 0, MRC_CTL_PORT_ADMIN_ENABLED = 1 };
enum mrc_ctl_port_attr_mask { MRC_CTL_PORT_ADMIN_STATE = 1 << 0 };

struct mrc_ctl_port_attr {
	enum mrc_ctl_port_admin_state port_admin_state;
};

int mrc_ctl_query_port(struct mrc_context *context, uint8_t port_num, struct mrc_ctl_port_attr *attr, int attr_mask);
int mrc_ctl_modify_port(struct mrc_context *context, uint8_t port_num, struct mrc_ctl_port_attr *attr, int attr_mask);

/* ------------------------------------------------------------------ EV formats */

enum mrc_ctl_ev_fmt_mode {
	MRC_CTL_EV_FMT_MODE_STEV = 1 << 0,
	MRC_CTL_EV_FMT_MODE_SRV6 = 1 << 1,
	MRC_CTL_EV_FMT_MODE_UDP = 1 << 2,
};
enum mrc_ctl_ev_fmt_op { MRC_CTL_EV_FMT_OP_MODIFY_FIELDS, MRC_CTL_EV_FMT_OP_QUERY_FIELDS };
enum mrc_ctl_ev_fmt_profile_attr_mask {
	MRC_CTL_EV_FMT_PROFILE_STATE = 1 << 0,
	MRC_CTL_EV_FMT_PROFILE_CUR_STATE = 1 << 1,
	MRC_CTL_EV_FMT_PROFILE_MODE = 1 << 2,
	MRC_CTL_EV_FMT_PROFILE_OP = 1 << 3,
	MRC_CTL_EV_FMT_VENDOR_CFG = MRC_BIT_31,
};

struct mrc_ctl_ev_fmt_field {
	uint8_t width; /* bits */
};

/* Fields, the most significant first, and how many. A query with too little room is E2BIG and sets the count. */
struct mrc_ctl_ev_fmt_profile_attr {
	enum mrc_ctl_profile_state profile_state, cur_profile_state;
	enum mrc_ctl_ev_fmt_mode ev_fmt_mode;
	struct {
		enum mrc_ctl_ev_fmt_op op;
		struct mrc_ctl_ev_fmt_field *fmt_fields;
		int fmt_field_count;
	} ev_fmt_op;
	uint8_t vendor_cfg[MRC_CTL_MAX_VENDOR_CFG_SIZE];
};

int mrc_ctl_modify_ev_fmt_profile(
	struct mrc_context *mrc_ctx, uint64_t ev_fmt_profile_id, struct mrc_ctl_ev_fmt_profile_attr *attr, int attr_mask);
int mrc_ctl_query_ev_fmt_profile(
	struct mrc_context *mrc_ctx, uint64_t ev_fmt_profile_id, struct mrc_ctl_ev_fmt_profile_attr *attr, int attr_mask);

/* ------------------------------------------------------------------ EV profiles */

typedef uint8_t mrc_ctl_ev_t[MRC_CTL_EV_MAX_BYTES];

/* `val` begins with a number of 32 bits in the processor's byte order: the bits of the masks of the profile's fields, or
 * without fields what packets carry. The rest is 0. */
struct mrc_ctl_ev {
	mrc_ctl_ev_t val;
	uint8_t port;
};

enum mrc_ctl_ev_state {
	MRC_CTL_EV_GOOD = 1 << 0,
	MRC_CTL_EV_ASSUMED_BAD = 1 << 1,
	MRC_CTL_EV_DENIED = 1 << 2,
	MRC_CTL_EV_UNKNOWN = MRC_BIT_31,
};
enum mrc_ctl_ev_mode { MRC_CTL_EV_MODE_AUTO = 1 << 0, MRC_CTL_EV_MODE_EXP = 1 << 1, MRC_CTL_EV_MODE_GEN = 1 << 2 };
enum mrc_ctl_ev_op {
	MRC_CTL_EV_OP_REPLACE_EV,
	MRC_CTL_EV_OP_MODIFY_EV_STATE,
	MRC_CTL_EV_OP_QUERY_EV_STATE,
	MRC_CTL_EV_OP_QUERY_EV_ARRAY,
};
enum mrc_ctl_ev_fields_op { MRC_CTL_EV_FIELDS_OP_MODIFY_FIELDS, MRC_CTL_EV_FIELDS_OP_QUERY_FIELDS };
enum mrc_ctl_ev_profile_attr_mask {
	MRC_CTL_EV_PROFILE_STATE = 1 << 0,
	MRC_CTL_EV_PROFILE_CUR_STATE = 1 << 1,
	MRC_CTL_EV_PROFILE_MODE = 1 << 2,
	MRC_CTL_EV_PROFILE_FMT_ID = 1 << 3,
	MRC_CTL_EV_PROFILE_COUNT = 1 << 4,
	MRC_CTL_EV_PROFILE_MIN_ACTIVE = 1 << 5,
	MRC_CTL_EV_PROFILE_EVENT_MASK = 1 << 6,
	MRC_CTL_EV_PROFILE_EV_OP = 1 << 7,
	MRC_CTL_EV_PROFILE_EV_FIELDS_OP = 1 << 8,
	MRC_CTL_EV_PROFILE_VENDOR_CFG = MRC_BIT_31,
};

/* A field of `width` bits that begins as `init_val`. The EV's bits go where `mask` has ones; `min_val` and `max_val` bound
 * them where EVs are generated. */
struct mrc_ctl_ev_field {
	uint32_t width, init_val, min_val, max_val, mask;
};

enum mrc_ctl_ev_op_flags { MRC_CTL_EV_OP_F_ALL_COPIES = 1 << 0 };

/* What an operation reads: `ev` all but QUERY_EV_ARRAY, `ev_new` and `flags` REPLACE_EV, `state` both that change one. */
struct mrc_ctl_ev_op_entry {
	struct mrc_ctl_ev ev, ev_new;
	enum mrc_ctl_ev_state state;
	uint32_t flags;
};

struct mrc_ctl_ev_profile_attr {
	enum mrc_ctl_profile_state profile_state, cur_profile_state;
	enum mrc_ctl_ev_mode ev_mode;
	uint64_t ev_fmt_profile_id;
	uint32_t ev_count; /* a query has what it is after rounding */
	uint32_t ev_min_active;
	int ev_event_mask;
	/* One of the two in a call. Operations end at the first entry that fails. */
	struct {
		enum mrc_ctl_ev_op op;
		struct mrc_ctl_ev_op_entry *entries;
		int entry_count;
	} ev_op;
	struct {
		enum mrc_ctl_ev_fields_op op;
		struct mrc_ctl_ev_field *fields;
		int field_count;
	} ev_fields_op;
	uint8_t vendor_cfg[MRC_CTL_MAX_VENDOR_CFG_SIZE];
};

int mrc_ctl_modify_ev_profile(
	struct mrc_context *mrc_ctx, uint64_t ev_profile_id, struct mrc_ctl_ev_profile_attr *attr, int attr_mask);
int mrc_ctl_query_ev_profile(
	struct mrc_context *mrc_ctx, uint64_t ev_profile_id, struct mrc_ctl_ev_profile_attr *attr, int attr_mask);

/* ------------------------------------------------------------------ CC profiles */

enum mrc_ctl_cc_profile_attr_mask {
	MRC_CTL_CC_PROFILE_STATE = 1 << 0,
	MRC_CTL_CC_PROFILE_CUR_STATE = 1 << 1,
	MRC_CTL_CC_PROFILE_ALGORITHM = 1 << 2,
	MRC_CTL_CC_PROFILE_CONFIG = 1 << 3,
	MRC_CTL_CC_PROFILE_VENDOR_CFG = MRC_BIT_31,
};

/* No algorithm, NULL, is no congestion control. After a query the pointers are the library's. */
struct mrc_ctl_cc_profile_attr {
	enum mrc_ctl_profile_state profile_state, cur_profile_state;
	const char *algorithm;
	const void *cc_config;
	uint8_t vendor_cfg[MRC_CTL_MAX_VENDOR_CFG_SIZE];
};

/* Times are in ns, sizes in bytes. */
struct mrc_ctl_cc_nscc_cfg {
	uint8_t disable_qa;
	uint32_t adjust_bytes_threshold, adjust_period_threshold, base_rtt;
	float eta, fi, fi_scale, gamma, max_md_jump;
	uint32_t max_cwnd;
	uint8_t qa_gate;
	uint32_t qa_threshold, target_delay;
};

int mrc_ctl_modify_cc_profile(
	struct mrc_context *mrc_ctx, uint64_t cc_profile_id, struct mrc_ctl_cc_profile_attr *attr, int attr_mask);
int mrc_ctl_query_cc_profile(
	struct mrc_context *mrc_ctx, uint64_t cc_profile_id, struct mrc_ctl_cc_profile_attr *attr, int attr_mask);

/* ------------------------------------------------------------------ EV events */

struct mrc_ctl_ev_event {
	uint64_t profile_id;
	struct mrc_ctl_ev ev;
	uint32_t drop_count; /* events that were dropped since the one before */
#if MRC_CTL_API_VER_USED >= MRC_CTL_API_VER(1, 0, 1)
	enum mrc_ctl_ev_state state;
#endif
};

struct mrc_cq *mrc_ctl_create_ev_event_cq(
	struct mrc_context *mrc_ctx, int cqe, void *cq_context, struct mrc_comp_channel *channel, int comp_vector);
/* How many events, or a negative errno. */
int mrc_ctl_poll_ev_event(struct mrc_cq *ev_cq, int num_entries, struct mrc_ctl_ev_event *ev_event);

/* ------------------------------------------------------------------ endpoint operations */

enum mrc_ctl_ep_op_type { MRC_CTL_EP_OP_EV_PROBE, MRC_CTL_EP_OP_PORT_STATUS_UPDATE };

struct mrc_ctl_ep_req {
	uint16_t req_id;
	union ibv_gid sgid, dgid;
	enum mrc_ctl_ev_fmt_mode ev_fmt_mode;
	struct mrc_ctl_ev req_ev;
	union {
		struct {
			uint32_t port_status;
		} port_status_update;
	} op;
};

struct mrc_ctl_ep_rsp {
	uint16_t req_id;
	uint8_t port; /* that it was received on */
	unsigned int rtt; /* ns */
	uint8_t adj_svc_time; /* whether the time the responder took is not in it */
};

int mrc_ctl_ep_batch_send_wait(struct mrc_context *mrc_ctx, uint8_t req_tc, enum mrc_ctl_ep_op_type op_type,
	struct mrc_ctl_ep_req *req, int num_req, uint32_t rsp_timeout, struct mrc_ctl_ep_rsp *rsp, int *num_rsp);

#ifdef __cplusplus
}
#endif

#endif
