/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the library asks of the Python that has the endpoint: a number of what, and words that are arguments first and
 * answers then (mrc/capi/host.py). Returns an errno.
 */
#ifndef MRC_CALLS_H
#define MRC_CALLS_H

#include "rings.h"

enum call {
	CALL_OPEN = 1, CALL_CLOSE, CALL_QUERY_PORT, CALL_QUERY_GID, CALL_ALLOC_PD, CALL_DEALLOC_PD, CALL_REG_MR, CALL_DEREG_MR,
	CALL_CREATE_QP, CALL_MODIFY_QP, CALL_DESTROY_QP, CALL_ASYNC_EVENT, CALL_QUERY_MRC, CALL_QUERY_QP, CALL_CONTROL,
	CALL_EV_EVENTS, CALL_END_EV_EVENTS, CALL_OPERATE
};
enum { CALL_WORDS = 24, NOT_GIVEN = -1 };
/* Of CALL_CONTROL: its words, and what the second of them asks. */
enum { CONTROL_CONTEXT, CONTROL_WHAT, CONTROL_NUMBER, CONTROL_ATTR, CONTROL_MASK };
enum control {
	CONTROL_QUERY_DEVICE = 1, CONTROL_QUERY_PORT, CONTROL_MODIFY_PORT, CONTROL_QUERY_FORMAT, CONTROL_MODIFY_FORMAT,
	CONTROL_QUERY_EV, CONTROL_MODIFY_EV, CONTROL_QUERY_CC, CONTROL_MODIFY_CC
};
/* Of CALL_EV_EVENTS, whose answer is a handle. Of CALL_OPERATE: the count is that of the answers then. */
enum { EVENTS_CONTEXT, EVENTS_QUEUE, EVENTS_PUT };
enum {
	OPERATE_CONTEXT, OPERATE_KIND, OPERATE_REQUESTS, OPERATE_COUNT, OPERATE_ANSWERS, OPERATE_DSCP, OPERATE_TIMEOUT
};
/* Of CALL_QUERY_MRC, answers. */
enum { MRC_VERSION = 1, MRC_CAPS, MRC_MOST_WIMM, MRC_MOST_WIMM_DEST, MRC_MOST_MPR, MRC_MPR_RESOLUTION };
/* Of CALL_MODIFY_QP, and answers of CALL_QUERY_QP. */
enum {
	MODIFY_QP, MODIFY_STATE, MODIFY_EV_PROFILE, MODIFY_CC_PROFILE, MODIFY_DEST_QPN, MODIFY_RQ_PSN, MODIFY_SQ_PSN,
	MODIFY_PATH_MTU, MODIFY_TRAFFIC_CLASS, MODIFY_TIMEOUT, MODIFY_LINEAR, MODIFY_EXPONENTIAL, MODIFY_MPR,
	MODIFY_MPR_DEST, MODIFY_WIMM, MODIFY_WIMM_DEST, MODIFY_DYNAMIC_MPR, MODIFY_DEST_CAPS, MODIFY_GID,
	MODIFY_QPS_PER_PEER, MODIFY_SEND_PEERS, MODIFY_REMOTE_RECV_PEERS
};

/* Start the Python once. Returns 0 or an errno, after a line on stderr. */
int mrc_start(void);
/* Ask. In a child that was forked it refuses with EIO. */
int mrc_call(enum call what, word *words);
/* Whether this process is a child that was forked after the start. */
int mrc_is_forked(void);

#endif
