/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MRC's application interface, version 1.0.1, with the ABI of the header that OCP publishes: a program that is built with
 * either header runs with either library. Devices, protection domains and memory regions are libibverbs'.
 * docs/capi.md says how each function fails.
 */
#ifndef _MRC_API_H_
#define _MRC_API_H_

#include <stdint.h>
#include <infiniband/verbs.h>
#include <mrc_api_ver.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MRC_MAX_VENDOR_CFG_SIZE 128
#define MRC_BIT_31 (-0x7fffffff - 1) /* of an enumeration whose values are ints */

struct mrc_context;
struct mrc_qp_hint;
struct mrc_qp;
struct mrc_cq;
struct mrc_comp_channel;

/* ------------------------------------------------------------------ the device and its versions */

/* A bit for each version of the wire protocol. 0 leaves the choice to the library. */
enum mrc_protocol_version { MRC_PROTOCOL_VERSION_0 = 0, MRC_PROTOCOL_VERSION_1 = 1 };

enum mrc_device_cap {
	MRC_DEVICE_CAP_TRIM_NACK = 1 << 0, /* answers trimmed packets with NACKs */
	MRC_DEVICE_CAP_DYNAMIC_MPR = 1 << 1, /* the window of PSNs may change while a QP runs */
	MRC_DEVICE_CAP_SVC_TIME = 1 << 2, /* a responder reports how long it held a packet */
};

struct mrc_device_attr {
	uint32_t mrc_protocol_version;
	/* Writes with immediate in flight: the most a requestor may have, the most a responder may grant. */
	struct {
		uint16_t max_wimm, max_wimm_dest;
	} wimm_attr;
	/* In units of 128 PSNs. */
	struct {
		uint8_t max_mpr, mpr_resolution;
	} mpr_attr;
	struct {
		uint32_t max_qp_hint;
	} qp_attr;
	uint32_t cap; /* enum mrc_device_cap */
};

/* For the API's version, 0 is: not given. */
struct mrc_context_attr {
	uint32_t mrc_api_version_used, mrc_vendor_api_version_used;
};

/* `supported` is set whatever is returned: 0 for a context of a device without MRC. -1 and errno on failure. */
int mrc_query_device(struct ibv_context *context, struct mrc_device_attr *attr, int *supported);
#if MRC_API_VER_USED >= MRC_API_VER(1, 0, 1)
int mrc_query_device_ex(
	struct ibv_context *context, struct mrc_context *mcontext, struct mrc_device_attr *attr, int *supported);
#endif
/* What the library implements, newest and oldest. May be called first of all. */
void mrc_query_version(uint32_t *current_version, uint32_t *last_supported_version, uint32_t *vendor_version,
	uint32_t *last_supported_vendor_version);
/* `context_attr` may be NULL. */
struct mrc_context *mrc_create_context(struct ibv_context *vcontext, struct mrc_context_attr *context_attr);
int mrc_destroy_context(struct mrc_context *mrc_ctx);

/* ------------------------------------------------------------------ completions */

int mrc_create_comp_channel(struct mrc_context *mrc_ctx, struct mrc_comp_channel **channel);
int mrc_get_comp_channel_fd(struct mrc_comp_channel *channel, int *fd);
int mrc_destroy_comp_channel(struct mrc_comp_channel *channel);
struct mrc_cq *mrc_create_cq(
	struct mrc_context *mrc_ctx, int cqe, void *cq_context, struct mrc_comp_channel *channel, int comp_vector);
/* Returns how many were found, or -1. */
int mrc_poll_cq(struct mrc_cq *cq, int num_entries, struct ibv_wc *wc);
int mrc_destroy_cq(struct mrc_cq *cq);
int mrc_req_notify_cq(struct mrc_cq *cq, int solicited_only);
int mrc_get_cq_event(struct mrc_comp_channel *channel, struct mrc_cq **cq, void **cq_context);
void mrc_ack_cq_events(struct mrc_cq *cq, unsigned int nevents);

/* ------------------------------------------------------------------ hints */

/* What an application expects of its traffic. */
struct mrc_qp_hint_attr {
	int num_qps_per_peer; /* QPs with this hint that send to one peer at a time */
	int num_send_peers; /* peers that they send to at a time */
	int num_remote_recv_peers; /* remote QPs that target the same peer meanwhile: the incast there */
	uint8_t vendor_cfg[MRC_MAX_VENDOR_CFG_SIZE];
};

enum mrc_qp_hint_attr_mask {
	MRC_QP_HINT_NUM_QPS_PER_PEER = 1 << 0,
	MRC_QP_HINT_NUM_SEND_PEERS = 1 << 1,
	MRC_QP_HINT_NUM_REMOTE_RECV_PEERS = 1 << 2,
	MRC_QP_HINT_VENDOR_CFG = MRC_BIT_31,
};

struct mrc_qp_hint_init_attr {
	struct mrc_qp_hint_attr attr;
};

struct mrc_qp_hint *mrc_create_qp_hint(struct mrc_context *mrc_ctx, struct mrc_qp_hint_init_attr *init_attr);
int mrc_destroy_qp_hint(struct mrc_qp_hint *qp_hint);
int mrc_query_qp_hint(struct mrc_qp_hint *qp_hint, struct mrc_qp_hint_attr *qp_hint_attr, int qp_hint_attr_mask);
int mrc_modify_qp_hint(struct mrc_qp_hint *qp_hint, struct mrc_qp_hint_attr *qp_hint_attr, int qp_hint_attr_mask);

/* ------------------------------------------------------------------ queue pairs */

struct mrc_qp_init_attr {
	void *qp_context;
	struct mrc_cq *send_cq, *recv_cq;
	struct ibv_qp_cap cap;
	int sq_sig_all;
	struct ibv_pd *pd;
	uint64_t send_ops_flags; /* enum ibv_qp_create_send_ops_flags */
	enum mrc_protocol_version protocol_version;
};

/* With the states that take them: INIT, RTR, RTS. RTR takes those of RTS early. */
enum mrc_qp_attr_mask {
	MRC_QP_MAX_WIMM = 1 << 0, /* RTS */
	MRC_QP_MAX_WIMM_DEST = 1 << 1, /* RTR */
	MRC_QP_MPR = 1 << 2, /* RTS */
	MRC_QP_MPR_DEST = 1 << 3, /* RTR */
	MRC_QP_TIMEOUT = 1 << 4, /* RTS */
	MRC_QP_EV_PROFILE_ID = 1 << 5, /* INIT */
	MRC_QP_CC_PROFILE_ID = 1 << 6, /* INIT */
	MRC_QP_HINT = 1 << 7, /* INIT, RTR, RTS */
	MRC_QP_RETRY_CNT = 1 << 8, /* RTS */
	MRC_QP_CAP = 1 << 9, /* RTR */
	MRC_QP_VENDOR_CFG = MRC_BIT_31,
};

/* Of the peer, what it cannot do; of this QP, what it shall do. */
enum mrc_qp_cap {
	MRC_QP_CAP_TRIM_NACK_DEST_UNSUPPORTED = 1 << 0,
	MRC_QP_CAP_DYNAMIC_MPR = 1 << 1, /* in use where both ends give it */
	MRC_QP_CAP_SVC_TIME_DEST_UNSUPPORTED = 1 << 2,
};

struct mrc_qp_attr {
	/* In units of 128 PSNs: what the peer granted, and what this QP grants. */
	struct {
		uint8_t mpr, mpr_dest;
	} mpr;
	/* Writes with immediate in flight, likewise. */
	struct {
		uint16_t max_wimm, max_wimm_dest;
	} wimm;
	uint8_t timeout; /* t: 1.024 us x 2^t, up to 24 */
	/* What a controller loaded into the device. */
	struct {
		uint64_t ev_profile_id, cc_profile_id;
	} profile;
	/* Retries one timeout apart, up to 7; then each after twice the time, up to 24, or 25: for ever. */
	struct {
		uint8_t linear_cnt, exp_cnt;
	} retry;
	struct mrc_qp_hint *qp_hint; /* NULL: none */
	uint32_t cap; /* enum mrc_qp_cap */
	uint8_t vendor_cfg[MRC_MAX_VENDOR_CFG_SIZE];
};

struct mrc_qp *mrc_create_qp(struct mrc_context *mrc_ctx, struct mrc_qp_init_attr *mrc_qp_attr);
int mrc_destroy_qp(struct mrc_qp *qp);
int mrc_query_qp(struct mrc_qp *qp, struct ibv_qp_attr *vattr, int vattr_mask, struct mrc_qp_attr *mrc_attr,
	int mrc_attr_mask, struct mrc_qp_init_attr *init_attr);
/* On the way to ERR and RESET neither `mrc_attr` nor its mask is read. */
int mrc_modify_qp(struct mrc_qp *qp, struct ibv_qp_attr *vattr, int vattr_mask, struct mrc_qp_attr *mrc_attr,
	int mrc_attr_mask);
int mrc_get_qpn(struct mrc_qp *qp, uint32_t *qpn);
/* Returns -1 and sets errno, unlike mrc_post_send, which returns the error. */
int mrc_post_recv(struct mrc_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);
int mrc_post_send(struct mrc_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr);

/* ------------------------------------------------------------------ events */

struct mrc_async_event {
	union {
		struct mrc_cq *cq;
		struct mrc_qp *qp;
		int port_num;
	} element;
	enum ibv_event_type event_type;
};

int mrc_get_async_event(struct mrc_context *mrc_ctx, struct mrc_async_event *event);
void mrc_ack_async_event(struct mrc_async_event *event);

#ifdef __cplusplus
}
#endif
#endif
