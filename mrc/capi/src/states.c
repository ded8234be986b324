/* SPDX-License-Identifier: BSD-2-Clause */
/* The states of a QP, and which attributes go with the way to each. */
#include "objects.h"

/* What has to be given on the way to RTR and to RTS, and what may be. What a NIC would want besides is MRC's to know. */
#define NEEDED_FOR_RTR (IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN)
#define NEEDED_FOR_RTS IBV_QP_SQ_PSN
#define ANY (IBV_QP_STATE | IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS)
#define OF_PATHS (IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE | IBV_QP_MIN_RNR_TIMER)
#define OF_SENDING (IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY)
#define FOR_INIT (ANY | IBV_QP_PKEY_INDEX | IBV_QP_PORT)
#define FOR_RTR (FOR_INIT | NEEDED_FOR_RTR | OF_PATHS | OF_SENDING | IBV_QP_MAX_DEST_RD_ATOMIC)
#define FOR_RTS (ANY | NEEDED_FOR_RTS | OF_PATHS | OF_SENDING | IBV_QP_MAX_QP_RD_ATOMIC)
#define IN_RTS (ANY | OF_PATHS)

/* EINVAL for attributes that are missing or foreign. In ERR and RESET nothing but the state is read: programs leave the
 * mask, too, as it was. */
static int check_mask(enum ibv_qp_state from, enum ibv_qp_state to, int mask)
{
	int needed = 0, allowed;

	switch ((int)to) {
	case IBV_QPS_RESET:
	case IBV_QPS_ERR: return 0;
	case IBV_QPS_INIT: allowed = FOR_INIT; break;
	case IBV_QPS_RTR: allowed = FOR_RTR, needed = NEEDED_FOR_RTR; break;
	case IBV_QPS_RTS:
		allowed = from == IBV_QPS_RTS ? IN_RTS : FOR_RTS, needed = from == IBV_QPS_RTS ? 0 : NEEDED_FOR_RTS;
		break;
	default: return EINVAL;
	}
	return mask & ~allowed || (mask & needed) != needed ? EINVAL : 0;
}

static void tell_rtr(const struct ibv_qp_attr *attr, word *words)
{
	words[MODIFY_DEST_QPN] = attr->dest_qp_num;
	words[MODIFY_RQ_PSN] = attr->rq_psn & 0xffffff;
	words[MODIFY_PATH_MTU] = attr->path_mtu;
	words[MODIFY_TRAFFIC_CLASS] = attr->ah_attr.grh.traffic_class ? attr->ah_attr.grh.traffic_class : NOT_GIVEN;
	words[MODIFY_GID] = (word)(uintptr_t)&attr->ah_attr.grh.dgid;
}

/* What ibv_query_qp tells from now on. */
static void remember(struct qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	if (mask & IBV_QP_ACCESS_FLAGS)
		qp->attr.qp_access_flags = attr->qp_access_flags;
	if (mask & IBV_QP_RQ_PSN) {
		qp->attr.dest_qp_num = attr->dest_qp_num;
		qp->attr.rq_psn = attr->rq_psn;
		qp->attr.path_mtu = attr->path_mtu;
		qp->attr.ah_attr = attr->ah_attr;
	}
	if (mask & IBV_QP_SQ_PSN)
		qp->attr.sq_psn = attr->sq_psn;
}

/* Whether anything may be posted. Who posts now has done so when this returns. */
static void may_post(struct qp *qp, int may)
{
	pthread_spin_lock(&qp->send_lock);
	pthread_spin_lock(&qp->receive_lock);
	qp->may_post = may;
	pthread_spin_unlock(&qp->receive_lock);
	pthread_spin_unlock(&qp->send_lock);
}

static void begin_anew(struct qp *qp)
{
	mrc_forget(qp->ibv.send_cq, qp->ibv.qp_num);
	mrc_forget(qp->ibv.recv_cq, qp->ibv.qp_num);
	memset(&qp->attr, 0, sizeof qp->attr);
	pthread_mutex_lock(&mrc_lists);
	mrc_release_hint(qp);
	pthread_mutex_unlock(&mrc_lists);
}

enum ibv_qp_state mrc_wanted_state(const struct qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	return mask & IBV_QP_STATE ? attr->qp_state : (enum ibv_qp_state)read_word(qp->words, STATE);
}

int mrc_modify(struct qp *qp, struct ibv_qp_attr *attr, int mask, word *words)
{
	enum ibv_qp_state current = (enum ibv_qp_state)read_word(qp->words, STATE);
	enum ibv_qp_state wanted = mrc_wanted_state(qp, attr, mask);
	int error = check_mask(current, wanted, mask), is_end = wanted == IBV_QPS_RESET || wanted == IBV_QPS_ERR;

	if (!error && !is_end && mask & IBV_QP_CUR_STATE && attr->cur_qp_state != current)
		error = EINVAL;
	if (error)
		return error;
	words[MODIFY_QP] = qp->handle;
	words[MODIFY_STATE] = wanted;
	if (wanted == IBV_QPS_RTR)
		tell_rtr(attr, words);
	else if (wanted == IBV_QPS_RTS)
		words[MODIFY_SQ_PSN] = attr->sq_psn & 0xffffff;
	if (wanted == IBV_QPS_RESET)
		may_post(qp, 0);
	/* What may be given in RTS is taken and not used. */
	error = wanted == IBV_QPS_RTS && current == IBV_QPS_RTS ? 0 : mrc_call(CALL_MODIFY_QP, words);
	if (error || wanted != IBV_QPS_RESET)
		may_post(qp, read_word(qp->words, STATE) != IBV_QPS_RESET);
	if (error)
		return error;
	if (wanted == IBV_QPS_RESET)
		begin_anew(qp);
	else if (!is_end)
		remember(qp, attr, mask);
	qp->ibv.state = wanted;
	return 0;
}

EXPORT int ibv_modify_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int mask)
{
	int error = attr ? mrc_check(ibv, QP) : EINVAL;
	word words[CALL_WORDS];

	if (error)
		return error;
	for (int each = 0; each < CALL_WORDS; each++)
		words[each] = NOT_GIVEN;
	/* Port, pkey_index, timeouts, retries, access flags and read depths are not MRC's: they are taken and not used. */
	return mrc_modify((struct qp *)ibv, attr, mask, words);
}
