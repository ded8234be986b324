/* SPDX-License-Identifier: BSD-2-Clause */
/* The states of a QP, and which attributes go with the way to each. */
#include "objects.h"

#include <stdio.h>

#define MODIFY "modify_qp"
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

/* A packet that switches trim is sent again at once and draws on these, more than a congested switch takes. How long a
 * silent peer is waited for has a bound of its own. */
#define EXPONENTIAL_RETRIES 24

#define BIT_NAMES(each)                                                                                                \
	each(IBV_QP_STATE) each(IBV_QP_CUR_STATE) each(IBV_QP_ACCESS_FLAGS) each(IBV_QP_PKEY_INDEX) each(IBV_QP_PORT)          \
	each(IBV_QP_QKEY) each(IBV_QP_AV) each(IBV_QP_PATH_MTU) each(IBV_QP_TIMEOUT) each(IBV_QP_RETRY_CNT)                    \
	each(IBV_QP_RNR_RETRY) each(IBV_QP_RQ_PSN) each(IBV_QP_MAX_QP_RD_ATOMIC) each(IBV_QP_ALT_PATH)                         \
	each(IBV_QP_MIN_RNR_TIMER) each(IBV_QP_SQ_PSN) each(IBV_QP_MAX_DEST_RD_ATOMIC) each(IBV_QP_PATH_MIG_STATE)             \
	each(IBV_QP_CAP) each(IBV_QP_DEST_QPN)
#define MOST_NAMES 400

const char *mrc_state_name(word state)
{
	static const char *const names[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};

	return state >= 0 && state <= IBV_QPS_ERR ? names[state] : "no state";
}

/* The names of a mask's bits, and what has none. */
static const char *names_of(int mask, char *text)
{
	size_t length = 0;

#define NAME_OF(bit)                                                                                                   \
	if (mask & (bit))                                                                                              \
		length += (size_t)snprintf(text + length, MOST_NAMES - length, "%s" #bit, length ? " | " : ""), mask &= ~(bit);
	BIT_NAMES(NAME_OF)
	if (mask)
		snprintf(text + length, MOST_NAMES - length, "%s%#x", length ? " | " : "", (unsigned)mask);
	return text;
}

/* EINVAL for attributes that are missing or foreign. In ERR and RESET nothing but the state is read: programs leave the
 * mask, too, as it was. */
static int check_mask(enum ibv_qp_state from, enum ibv_qp_state to, int mask)
{
	int needed = 0, allowed;
	char names[MOST_NAMES];

	switch ((int)to) {
	case IBV_QPS_RESET:
	case IBV_QPS_ERR: return 0;
	case IBV_QPS_INIT: allowed = FOR_INIT; break;
	case IBV_QPS_RTR: allowed = FOR_RTR, needed = NEEDED_FOR_RTR; break;
	case IBV_QPS_RTS:
		allowed = from == IBV_QPS_RTS ? IN_RTS : FOR_RTS, needed = from == IBV_QPS_RTS ? 0 : NEEDED_FOR_RTS;
		break;
	default: return mrc_refuse(MODIFY, REFUSED_NO_STATE, (int)to);
	}
	if (mask & ~allowed)
		return mrc_refuse(MODIFY, REFUSED_MASK_FOREIGN, mrc_state_name(to), names_of(mask & ~allowed, names));
	if (needed & ~mask)
		return mrc_refuse(MODIFY, REFUSED_MASK_MISSING, mrc_state_name(to), names_of(needed & ~mask, names));
	return 0;
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
		error = mrc_refuse(
			MODIFY, REFUSED_OTHER_STATE, mrc_state_name(attr->cur_qp_state), mrc_state_name(current));
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
	int error = mrc_check_place(attr);
	word words[CALL_WORDS];

	if (error || (error = mrc_check(ibv, QP)))
		return error;
	for (int each = 0; each < CALL_WORDS; each++)
		words[each] = NOT_GIVEN;
	if (mrc_wanted_state((struct qp *)ibv, attr, mask) == IBV_QPS_RTS)
		words[MODIFY_EXPONENTIAL] = EXPONENTIAL_RETRIES;
	/* Port, pkey_index, timeouts, retries, access flags and read depths are not MRC's: they are taken and not used. */
	return mrc_modify((struct qp *)ibv, attr, mask, words);
}
