/* SPDX-License-Identifier: BSD-2-Clause */
/* mrc.h: queue pairs. Those of libibverbs, with attributes of MRC besides. */
#include "api.h"

#define QP_OF(qp) ((struct ibv_qp *)(qp))
#define CREATE "create_qp"
#define MODIFY "modify_qp"
#define KNOWN                                                                                                          \
	(MRC_QP_MAX_WIMM | MRC_QP_MAX_WIMM_DEST | MRC_QP_MPR | MRC_QP_MPR_DEST | MRC_QP_TIMEOUT | MRC_QP_EV_PROFILE_ID |  \
	 MRC_QP_CC_PROFILE_ID | MRC_QP_HINT | MRC_QP_RETRY_CNT | MRC_QP_CAP | MRC_QP_VENDOR_CFG)
#define KNOWN_CAPS                                                                                                     \
	(MRC_QP_CAP_TRIM_NACK_DEST_UNSUPPORTED | MRC_QP_CAP_DYNAMIC_MPR | MRC_QP_CAP_SVC_TIME_DEST_UNSUPPORTED)
#define SENDS (IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM)
/* What a peer may be unable to do has the same bits as what a device can. */
#define OF_PEERS (MRC_DEVICE_CAP_TRIM_NACK | MRC_DEVICE_CAP_SVC_TIME)

/* ------------------------------------------------------------------ made and destroyed */

static int check_new(const struct mrc_context *context, const struct mrc_qp_init_attr *attr)
{
	int error = mrc_check_place_of(CREATE, attr);

	if (error || (error = mrc_checked(CREATE, context, MRC_CONTEXT)) || (error = mrc_checked(CREATE, attr->pd, PD)))
		return error;
	if (attr->pd->context != context->ibv)
		return mrc_refuse(CREATE, REFUSED_OTHER_CONTEXT, "PD");
	if (attr->send_ops_flags & ~(uint64_t)SENDS)
		return mrc_refused("mrc_create_qp with send_ops_flags beyond RDMA_WRITE and RDMA_WRITE_WITH_IMM");
	if (attr->protocol_version != MRC_PROTOCOL_VERSION_0 && attr->protocol_version != MRC_PROTOCOL_VERSION_1)
		return mrc_refused("mrc_create_qp with a protocol_version other than 0 and 1");
	return 0;
}

struct mrc_qp *mrc_create_qp(struct mrc_context *context, struct mrc_qp_init_attr *attr)
{
	int error = check_new(context, attr);

	if (error)
		return mrc_null(error);
	struct ibv_qp_init_attr asked = {
		.qp_context = attr->qp_context,
		.send_cq = (struct ibv_cq *)attr->send_cq,
		.recv_cq = (struct ibv_cq *)attr->recv_cq,
		.cap = attr->cap,
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = attr->sq_sig_all,
	};
	struct qp *made = (struct qp *)ibv_create_qp(attr->pd, &asked);

	if (!made)
		return NULL;
	made->mrc = context;
	made->send_ops_flags = attr->send_ops_flags;
	attr->cap = asked.cap;
	return (struct mrc_qp *)made;
}

int mrc_destroy_qp(struct mrc_qp *qp) { return mrc_error(ibv_destroy_qp(QP_OF(qp))); }

int mrc_get_qpn(struct mrc_qp *qp, uint32_t *qpn)
{
	int error = mrc_check_place(qpn);

	if (!error && !(error = mrc_check(qp, QP)))
		*qpn = QP_OF(qp)->qp_num;
	return mrc_minus_one(error);
}

/* ------------------------------------------------------------------ modified */

static int check_attributes(const struct mrc_qp_attr *attr, int mask)
{
	if (mask & ~KNOWN)
		return mrc_refuse(MODIFY, REFUSED_MRC_MASK_FOREIGN, mask & ~KNOWN);
	if (mask && !attr)
		return mrc_refuse(MODIFY, REFUSED_NO_PLACE, "mrc_attr");
	/* There is no vendor whose settings they could be. */
	for (size_t each = 0; mask & MRC_QP_VENDOR_CFG && each < sizeof attr->vendor_cfg; each++)
		if (attr->vendor_cfg[each])
			return mrc_refuse(MODIFY, REFUSED_VENDOR_CFG);
	if (mask & MRC_QP_CAP && attr->cap & ~(uint32_t)KNOWN_CAPS)
		return mrc_refuse(MODIFY, REFUSED_QP_CAP, attr->cap & ~(uint32_t)KNOWN_CAPS);
	/* Larger ones would be words with a sign. */
	if (mask & MRC_QP_EV_PROFILE_ID && attr->profile.ev_profile_id > INT64_MAX)
		return mrc_refuse(MODIFY, REFUSED_PROFILE_NUMBER, (long long)attr->profile.ev_profile_id);
	if (mask & MRC_QP_CC_PROFILE_ID && attr->profile.cc_profile_id > INT64_MAX)
		return mrc_refuse(MODIFY, REFUSED_PROFILE_NUMBER, (long long)attr->profile.cc_profile_id);
	return 0;
}

static void tell_hint(const struct mrc_qp_hint *hint, word *words)
{
	words[MODIFY_QPS_PER_PEER] = hint ? hint->attr.num_qps_per_peer : 0;
	words[MODIFY_SEND_PEERS] = hint ? hint->attr.num_send_peers : 0;
	words[MODIFY_REMOTE_RECV_PEERS] = hint ? hint->attr.num_remote_recv_peers : 0;
}

static void tell(const struct mrc_qp_attr *attr, int mask, word *words)
{
	if (mask & MRC_QP_EV_PROFILE_ID)
		words[MODIFY_EV_PROFILE] = (word)attr->profile.ev_profile_id;
	if (mask & MRC_QP_CC_PROFILE_ID)
		words[MODIFY_CC_PROFILE] = (word)attr->profile.cc_profile_id;
	if (mask & MRC_QP_MPR)
		words[MODIFY_MPR] = attr->mpr.mpr;
	if (mask & MRC_QP_MPR_DEST)
		words[MODIFY_MPR_DEST] = attr->mpr.mpr_dest;
	if (mask & MRC_QP_MAX_WIMM)
		words[MODIFY_WIMM] = attr->wimm.max_wimm;
	if (mask & MRC_QP_MAX_WIMM_DEST)
		words[MODIFY_WIMM_DEST] = attr->wimm.max_wimm_dest;
	if (mask & MRC_QP_TIMEOUT)
		words[MODIFY_TIMEOUT] = attr->timeout;
	if (mask & MRC_QP_RETRY_CNT) {
		words[MODIFY_LINEAR] = attr->retry.linear_cnt;
		words[MODIFY_EXPONENTIAL] = attr->retry.exp_cnt;
	}
	if (mask & MRC_QP_CAP) {
		words[MODIFY_DYNAMIC_MPR] = !!(attr->cap & MRC_QP_CAP_DYNAMIC_MPR);
		words[MODIFY_DEST_CAPS] = OF_PEERS & ~attr->cap;
	}
}

/* Holds a hint for a QP that may come to use it. An errno for what is none of the QP's context. */
static int hold(const struct qp *qp, struct mrc_qp_hint *hint)
{
	int error = 0;

	if (!hint)
		return 0;
	pthread_mutex_lock(&mrc_lists);
	if (!(error = mrc_checked(MODIFY, hint, HINT)) && hint->context != qp->mrc)
		error = mrc_refuse(MODIFY, REFUSED_OTHER_CONTEXT, "hint");
	if (!error)
		hint->users++;
	pthread_mutex_unlock(&mrc_lists);
	return error;
}

/* The hint that is held replaces the QP's, or, after an error, is let go. */
static void settle(struct qp *qp, struct mrc_qp_hint *hint, int error)
{
	pthread_mutex_lock(&mrc_lists);
	if (error) {
		if (hint)
			hint->users--;
	} else {
		mrc_release_hint(qp);
		qp->hint = hint;
	}
	pthread_mutex_unlock(&mrc_lists);
}

static int modify(struct qp *qp, struct ibv_qp_attr *vattr, int vmask, struct mrc_qp_attr *attr, int mask)
{
	enum ibv_qp_state wanted = mrc_wanted_state(qp, vattr, vmask);
	word words[CALL_WORDS];
	int error, with_hint;

	if (wanted == IBV_QPS_RESET || wanted == IBV_QPS_ERR)
		mask = 0; /* programs leave it, and the structure, as they were */
	if ((error = check_attributes(attr, mask)))
		return error;
	/* A QP that sends keeps what it has. */
	if (mask && wanted == IBV_QPS_RTS && read_word(qp->words, STATE) == IBV_QPS_RTS)
		return mrc_refuse(MODIFY, REFUSED_MRC_IN_RTS);
	for (int each = 0; each < CALL_WORDS; each++)
		words[each] = NOT_GIVEN;
	if ((with_hint = mask & MRC_QP_HINT)) {
		if ((error = hold(qp, attr->qp_hint)))
			return error;
		tell_hint(attr->qp_hint, words);
	}
	tell(attr, mask, words);
	error = mrc_modify(qp, vattr, vmask, words);
	if (with_hint)
		settle(qp, attr->qp_hint, error);
	return error;
}

int mrc_modify_qp(struct mrc_qp *qp, struct ibv_qp_attr *vattr, int vmask, struct mrc_qp_attr *attr, int mask)
{
	struct ibv_qp_attr none = {0};
	int error = vmask ? mrc_check_place(vattr) : 0;

	if (!error)
		error = mrc_check(qp, QP);
	return mrc_error(error ? error : modify((struct qp *)qp, vattr ? vattr : &none, vmask, attr, mask));
}

/* ------------------------------------------------------------------ queried */

static void fill(struct mrc_qp_attr *attr, const struct qp *qp, const word *words)
{
	*attr = (struct mrc_qp_attr){
		.mpr = {(uint8_t)words[MODIFY_MPR], (uint8_t)words[MODIFY_MPR_DEST]},
		.wimm = {(uint16_t)words[MODIFY_WIMM], (uint16_t)words[MODIFY_WIMM_DEST]},
		.timeout = (uint8_t)words[MODIFY_TIMEOUT],
		.profile = {(uint64_t)words[MODIFY_EV_PROFILE], (uint64_t)words[MODIFY_CC_PROFILE]},
		.retry = {(uint8_t)words[MODIFY_LINEAR], (uint8_t)words[MODIFY_EXPONENTIAL]},
		.qp_hint = qp->hint,
		.cap = (uint32_t)(OF_PEERS & ~words[MODIFY_DEST_CAPS]),
	};
	if (words[MODIFY_DYNAMIC_MPR])
		attr->cap |= MRC_QP_CAP_DYNAMIC_MPR;
}

static int query(struct qp *qp, struct ibv_qp_attr *vattr, struct mrc_qp_attr *attr, int mask)
{
	word words[CALL_WORDS] = {qp->handle};
	int error;

	if (mask && (error = mrc_call(CALL_QUERY_QP, words)))
		return error;
	if (mask)
		fill(attr, qp, words);
	return vattr ? ibv_query_qp(&qp->ibv, vattr, -1, NULL) : 0;
}

/* All attributes are told of the structures whose mask is not 0, whichever it names. */
int mrc_query_qp(struct mrc_qp *handle, struct ibv_qp_attr *vattr, int vattr_mask, struct mrc_qp_attr *mrc_attr,
	int mrc_attr_mask, struct mrc_qp_init_attr *init_attr)
{
	struct qp *qp = (struct qp *)handle;
	int error = mrc_check(qp, QP);

	if (!error && vattr_mask)
		error = mrc_check_place(vattr);
	if (!error && mrc_attr_mask)
		error = mrc_check_place(mrc_attr);
	if (!error && mrc_attr_mask & ~KNOWN)
		error = REFUSE(REFUSED_MRC_MASK_FOREIGN, mrc_attr_mask & ~KNOWN);
	if (!error)
		error = query(qp, vattr, mrc_attr, mrc_attr_mask);
	if (error)
		return mrc_error(error);
	if (init_attr)
		*init_attr = (struct mrc_qp_init_attr){
			.qp_context = qp->ibv.qp_context,
			.send_cq = (struct mrc_cq *)qp->ibv.send_cq,
			.recv_cq = (struct mrc_cq *)qp->ibv.recv_cq,
			.cap = qp->cap,
			.sq_sig_all = qp->sq_sig_all,
			.pd = qp->ibv.pd,
			.send_ops_flags = qp->send_ops_flags,
			.protocol_version = MRC_PROTOCOL_VERSION_1,
		};
	return 0;
}

/* ------------------------------------------------------------------ posted to */

int mrc_post_send(struct mrc_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
{
	if (!qp && bad_wr)
		*bad_wr = wr;
	return mrc_error(qp ? mrc_ring_send(QP_OF(qp), wr, bad_wr) : REFUSE(REFUSED_NO_SUCH_POSTED, "QP"));
}

int mrc_post_recv(struct mrc_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	if (!qp && bad_wr)
		*bad_wr = wr;
	return mrc_minus_one(qp ? mrc_ring_receive(QP_OF(qp), wr, bad_wr) : REFUSE(REFUSED_NO_SUCH_POSTED, "QP"));
}
