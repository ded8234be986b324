/* SPDX-License-Identifier: BSD-2-Clause */
/* mrc.h: hints. What they say is kept, and `mrc.verbs` has it of each QP; nothing depends on it. */
#include "api.h"

#include <stdlib.h>

#define PEERS (MRC_QP_HINT_NUM_QPS_PER_PEER | MRC_QP_HINT_NUM_SEND_PEERS | MRC_QP_HINT_NUM_REMOTE_RECV_PEERS)

static int check_counts(const char *function, const struct mrc_qp_hint_attr *attr, int mask)
{
	if ((mask & MRC_QP_HINT_NUM_QPS_PER_PEER && attr->num_qps_per_peer < 0) ||
	    (mask & MRC_QP_HINT_NUM_SEND_PEERS && attr->num_send_peers < 0) ||
	    (mask & MRC_QP_HINT_NUM_REMOTE_RECV_PEERS && attr->num_remote_recv_peers < 0))
		return mrc_refuse(function, REFUSED_HINT_COUNTS, attr->num_qps_per_peer, attr->num_send_peers,
			attr->num_remote_recv_peers);
	return 0;
}

struct mrc_qp_hint *mrc_create_qp_hint(struct mrc_context *context, struct mrc_qp_hint_init_attr *init_attr)
{
	int error = mrc_check_context(context);

	if (!error && !(error = mrc_check_place(init_attr)))
		error = check_counts(__func__, &init_attr->attr, PEERS);
	struct mrc_qp_hint *made = error ? mrc_null(error) : mrc_new(HINT, sizeof *made);

	if (!made)
		return NULL;
	made->context = context;
	made->attr = init_attr->attr;
	pthread_mutex_lock(&mrc_lists);
	made->next = context->hints;
	context->hints = made;
	pthread_mutex_unlock(&mrc_lists);
	return made;
}

int mrc_destroy_qp_hint(struct mrc_qp_hint *hint)
{
	int error = mrc_check(hint, HINT);

	if (error)
		return mrc_minus_one(error);
	pthread_mutex_lock(&mrc_lists);
	if (hint->users) {
		error = REFUSE(REFUSED_HINT_IN_USE, hint->users);
	} else {
		struct mrc_qp_hint **each = &hint->context->hints;

		while (*each && *each != hint)
			each = &(*each)->next;
		if (*each)
			*each = hint->next;
	}
	pthread_mutex_unlock(&mrc_lists);
	if (!error)
		mrc_delete(hint);
	return mrc_minus_one(error);
}

static void copy(struct mrc_qp_hint_attr *to, const struct mrc_qp_hint_attr *from, int mask)
{
	if (mask & MRC_QP_HINT_NUM_QPS_PER_PEER)
		to->num_qps_per_peer = from->num_qps_per_peer;
	if (mask & MRC_QP_HINT_NUM_SEND_PEERS)
		to->num_send_peers = from->num_send_peers;
	if (mask & MRC_QP_HINT_NUM_REMOTE_RECV_PEERS)
		to->num_remote_recv_peers = from->num_remote_recv_peers;
	if (mask & MRC_QP_HINT_VENDOR_CFG)
		memcpy(to->vendor_cfg, from->vendor_cfg, sizeof to->vendor_cfg);
}

static int check_attributes(const char *function, struct mrc_qp_hint *hint, struct mrc_qp_hint_attr *attr, int mask)
{
	int foreign = mask & ~(PEERS | MRC_QP_HINT_VENDOR_CFG), error = mrc_check_place_of(function, attr);

	if (!error && foreign)
		error = mrc_refuse(function, REFUSED_HINT_MASK, foreign);
	return error ? error : mrc_checked(function, hint, HINT);
}

int mrc_query_qp_hint(struct mrc_qp_hint *hint, struct mrc_qp_hint_attr *attr, int mask)
{
	int error = check_attributes(__func__, hint, attr, mask);

	if (error)
		return mrc_minus_one(error);
	pthread_mutex_lock(&mrc_lists);
	copy(attr, &hint->attr, mask);
	pthread_mutex_unlock(&mrc_lists);
	return 0;
}

int mrc_modify_qp_hint(struct mrc_qp_hint *hint, struct mrc_qp_hint_attr *attr, int mask)
{
	int error = check_attributes(__func__, hint, attr, mask);

	if (!error)
		error = check_counts(__func__, attr, mask);
	if (error)
		return mrc_minus_one(error);
	pthread_mutex_lock(&mrc_lists);
	copy(&hint->attr, attr, mask);
	pthread_mutex_unlock(&mrc_lists);
	return 0;
}

void mrc_release_hint(struct qp *qp)
{
	if (qp->hint)
		qp->hint->users--;
	qp->hint = NULL;
}
