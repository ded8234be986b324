/* SPDX-License-Identifier: BSD-2-Clause */
/* Queue pairs: made, queried, destroyed. */
#include "objects.h"

#include <stdlib.h>

#define MOST_WR (1u << 20)
#define CREATE "create_qp"

static uint64_t taken[MOST_QPS / 64]; /* places of the doorbells */

static void release(struct qp *qp)
{
	free(qp->words);
	free(qp->sends);
	free(qp->receives);
	free(qp->inline_data);
	mrc_delete(qp);
}

static word power_of_two(uint32_t wanted)
{
	word room = 1;

	while (room < wanted)
		room *= 2;
	return room;
}

static int check_cap(const struct ibv_qp_cap *cap)
{
	if (cap->max_send_wr > MOST_WR || cap->max_recv_wr > MOST_WR)
		return mrc_refuse(CREATE, REFUSED_QP_ROOM, cap->max_send_wr, cap->max_recv_wr, MOST_WR);
	if (cap->max_inline_data > MOST_INLINE)
		return mrc_refuse(CREATE, REFUSED_QP_INLINE, cap->max_inline_data, MOST_INLINE);
	if (cap->max_send_sge > 1 || cap->max_recv_sge > 1)
		return mrc_refuse(CREATE, REFUSED_QP_SGES, cap->max_send_sge, cap->max_recv_sge);
	return 0;
}

/* What a QP asks for, or an errno. */
static int check_new(struct ibv_pd *pd, const struct ibv_qp_init_attr *attr)
{
	int error = mrc_checked(CREATE, pd, PD);

	if (error || !attr)
		return error ? error : mrc_refuse(CREATE, REFUSED_NO_PLACE, "qp_init_attr");
	if ((error = mrc_checked(CREATE, attr->send_cq, CQ)) || (error = mrc_checked(CREATE, attr->recv_cq, CQ)))
		return error;
	if (attr->qp_type != IBV_QPT_RC)
		return mrc_refused("a QP that is not RC");
	if (attr->srq)
		return mrc_refused("a shared receive queue");
	if (attr->send_cq->context != pd->context || attr->recv_cq->context != pd->context)
		return mrc_refuse(CREATE, REFUSED_OTHER_CONTEXT, "CQ");
	if (((struct cq *)attr->send_cq)->ev_events || ((struct cq *)attr->recv_cq)->ev_events)
		return mrc_refuse(CREATE, REFUSED_CQ_OF_EVENTS);
	return check_cap(&attr->cap);
}

static struct qp *with_rings(struct ibv_pd *pd, const struct ibv_qp_init_attr *attr)
{
	struct qp *qp = mrc_new(QP, sizeof *qp);
	word sends = power_of_two(attr->cap.max_send_wr), receives = power_of_two(attr->cap.max_recv_wr);

	if (!qp)
		return NULL;
	qp->cap = attr->cap;
	qp->cap.max_send_sge = qp->cap.max_recv_sge = 1;
	if (!qp->cap.max_send_wr)
		qp->cap.max_send_wr = 1;
	qp->words = mrc_memory(QP_WORDS * sizeof(word));
	qp->sends = mrc_memory((size_t)sends * SEND_WORDS * sizeof(word));
	qp->receives = mrc_memory((size_t)receives * sizeof(word));
	qp->inline_data = malloc((size_t)sends * qp->cap.max_inline_data + 1);
	if (!qp->words || !qp->sends || !qp->receives || !qp->inline_data) {
		release(qp);
		return mrc_null(mrc_refuse(CREATE, REFUSED_NO_MEMORY));
	}
	qp->words[SEND_MASK] = sends - 1;
	qp->words[RECEIVE_MASK] = receives - 1;
	qp->words[SENDS] = (word)(uintptr_t)qp->sends;
	qp->words[RECEIVES] = (word)(uintptr_t)qp->receives;
	qp->words[SEND_CQ] = (word)(uintptr_t)((struct cq *)attr->send_cq)->words;
	qp->words[RECEIVE_CQ] = (word)(uintptr_t)((struct cq *)attr->recv_cq)->words;
	pthread_spin_init(&qp->send_lock, PTHREAD_PROCESS_PRIVATE);
	pthread_spin_init(&qp->receive_lock, PTHREAD_PROCESS_PRIVATE);
	qp->sq_sig_all = attr->sq_sig_all;
	qp->ibv.context = pd->context;
	qp->ibv.qp_context = attr->qp_context;
	qp->ibv.pd = pd;
	qp->ibv.send_cq = attr->send_cq;
	qp->ibv.recv_cq = attr->recv_cq;
	qp->ibv.qp_type = attr->qp_type;
	qp->ibv.state = IBV_QPS_RESET;
	pthread_mutex_init(&qp->ibv.mutex, NULL);
	pthread_cond_init(&qp->ibv.cond, NULL);
	return qp;
}

/* A place among the doorbells that no QP has, the first there is; -1 without any. */
static int take_bit(void)
{
	for (int bit = 0; bit < MOST_QPS; bit++)
		if (!(taken[bit / 64] >> bit % 64 & 1)) {
			taken[bit / 64] |= (uint64_t)1 << bit % 64;
			mrc_bells[QPNS + bit] = -1; /* the endpoint looks no further than to a 0 */
			return bit;
		}
	return -1;
}

static void join(struct qp *qp)
{
	qp->next = context_of(qp->ibv.context)->qps;
	context_of(qp->ibv.context)->qps = qp;
	((struct cq *)qp->ibv.send_cq)->users++;
	((struct cq *)qp->ibv.recv_cq)->users++;
}

EXPORT struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	int error = check_new(pd, attr);
	struct qp *qp = error ? mrc_null(error) : with_rings(pd, attr);

	if (!qp)
		return NULL;
	pthread_mutex_lock(&mrc_lists);
	qp->bit = take_bit();
	pthread_mutex_unlock(&mrc_lists);
	word words[CALL_WORDS] = {
		((struct pd *)pd)->handle, (word)(uintptr_t)qp->words, qp->cap.max_send_wr, qp->cap.max_recv_wr};

	error = qp->bit < 0 ? REFUSE(REFUSED_QP_TOO_MANY, MOST_QPS) : mrc_call(CALL_CREATE_QP, words);
	if (error) {
		pthread_mutex_lock(&mrc_lists);
		if (qp->bit >= 0)
			taken[qp->bit / 64] &= ~((uint64_t)1 << qp->bit % 64);
		pthread_mutex_unlock(&mrc_lists);
		release(qp);
		return mrc_null(error);
	}
	qp->handle = words[0];
	qp->ibv.handle = (uint32_t)words[0];
	qp->ibv.qp_num = (uint32_t)words[1];
	mrc_bells[QPNS + qp->bit] = words[1];
	pthread_mutex_lock(&mrc_lists);
	join(qp);
	pthread_mutex_unlock(&mrc_lists);
	attr->cap = qp->cap;
	return &qp->ibv;
}

EXPORT int ibv_destroy_qp(struct ibv_qp *ibv)
{
	struct qp *qp = (struct qp *)ibv, **each;
	int error = mrc_check(qp, QP);

	if (error)
		return error;
	word words[CALL_WORDS] = {qp->handle};

	if ((error = mrc_call(CALL_DESTROY_QP, words)))
		return error;
	pthread_mutex_lock(&mrc_lists);
	for (each = &context_of(qp->ibv.context)->qps; *each && *each != qp; each = &(*each)->next)
		;
	if (*each)
		*each = qp->next;
	((struct cq *)ibv->send_cq)->users--;
	((struct cq *)ibv->recv_cq)->users--;
	mrc_release_hint(qp);
	mrc_bells[QPNS + qp->bit] = -1;
	taken[qp->bit / 64] &= ~((uint64_t)1 << qp->bit % 64);
	pthread_mutex_unlock(&mrc_lists);
	mrc_forget(ibv->send_cq, ibv->qp_num);
	mrc_forget(ibv->recv_cq, ibv->qp_num);
	mrc_await(__func__, &ibv->mutex, &ibv->cond, &ibv->events_completed, qp->events_told, "ibv_ack_async_event");
	release(qp);
	return 0;
}

EXPORT int ibv_query_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init_attr)
{
	struct qp *qp = (struct qp *)ibv;

	int error = mrc_check_place(attr);

	(void)mask; /* all is told */
	if (error || (error = mrc_check(qp, QP)))
		return error;
	*attr = qp->attr;
	attr->qp_state = attr->cur_qp_state = ibv->state = (enum ibv_qp_state)read_word(qp->words, STATE);
	attr->port_num = 1;
	attr->cap = qp->cap;
	if (init_attr)
		*init_attr = (struct ibv_qp_init_attr){ibv->qp_context, ibv->send_cq, ibv->recv_cq, NULL, qp->cap,
						       ibv->qp_type, qp->sq_sig_all};
	return 0;
}

EXPORT void *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
	(void)qp;
	return NULL;
}

struct ibv_ece {
	uint32_t vendor_id, options, comp_mask;
};

/* No options of a vendor's are known. */
EXPORT int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	int error = mrc_check_place(ece);

	if (!error && !(error = mrc_check(qp, QP)))
		*ece = (struct ibv_ece){0};
	return error;
}

EXPORT int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	int error = mrc_check_place(ece);

	if (!error && !(error = mrc_check(qp, QP)))
		ece->options = 0;
	return error;
}
