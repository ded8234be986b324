/* SPDX-License-Identifier: BSD-2-Clause */
/* Posting: into rings that the endpoint empties. Nothing here asks anybody, but for a ring at the endpoint's door. */
#include "objects.h"

#include <unistd.h>

#define LARGEST_WRITE 0x7fffffffu
#define VA_LIMIT ((uint64_t)1 << 62)
#define SEND "post_send"
#define RECEIVE "post_recv"

static void wake(void)
{
	uint64_t one = 1;

	if (__atomic_exchange_n(&mrc_bells[ASLEEP], AWAKE, __ATOMIC_SEQ_CST) != AWAKE)
		if (write((int)mrc_bells[BELL], &one, sizeof one) < 0)
			return; /* full: it is rung */
}

/* The endpoint is told, and woken where it sleeps. Where it dozes, a burst is left to the poll that follows. */
static void ring(const struct qp *qp, struct ibv_cq *ibv)
{
	struct cq *cq = (struct cq *)ibv;
	unsigned posts = __atomic_load_n(&cq->posts, __ATOMIC_RELAXED);
	int in_burst = posts >= BURST_BEGINS;

	__atomic_store_n(&cq->posts, posts + 1, __ATOMIC_RELAXED);
	mrc_posted_here();
	write_word(mrc_bells, BITS + qp->bit, 1);
	/* In full order with reading ASLEEP: the endpoint says that it sleeps, then looks whether it was rung. */
	__atomic_store_n(&mrc_bells[RUNG], in_burst ? IN_BURST : SINGLY, __ATOMIC_SEQ_CST);
	word asleep = __atomic_load_n(&mrc_bells[ASLEEP], __ATOMIC_SEQ_CST);

	if (asleep == SLEEPS || (asleep == DOZES && !in_burst))
		wake();
}

void mrc_end_burst(struct cq *cq)
{
	if (!__atomic_load_n(&cq->posts, __ATOMIC_RELAXED))
		return;
	__atomic_store_n(&cq->posts, 0, __ATOMIC_RELAXED);
	mrc_polled_anew();
	if (read_word(mrc_bells, ASLEEP) == DOZES && read_word(mrc_bells, RUNG) != SILENT)
		wake();
}

/* Why nothing may be posted now, 0 where it may. In ERR work completes flushed. */
static int may_post(const char *function, const struct qp *qp, word least)
{
	word state = read_word(qp->words, STATE);

	/* RESET by the program's own word too: the endpoint may not have come to it. */
	if (qp->may_post && state >= least && (state <= IBV_QPS_RTS || state == IBV_QPS_ERR))
		return 0;
	return mrc_refuse(function, REFUSED_POST_STATE, mrc_state_name(qp->may_post ? state : IBV_QPS_RESET));
}

static int check_send(const struct qp *qp, const struct ibv_send_wr *wr)
{
	const struct ibv_sge *sge = wr->num_sge ? wr->sg_list : NULL;

	if (wr->opcode != IBV_WR_RDMA_WRITE && wr->opcode != IBV_WR_RDMA_WRITE_WITH_IMM)
		return mrc_refused("ibv_post_send of anything but RDMA_WRITE and RDMA_WRITE_WITH_IMM");
	if (wr->num_sge < 0 || wr->num_sge > 1)
		return mrc_refuse(SEND, REFUSED_POST_SGES, wr->num_sge);
	if (wr->num_sge && !sge)
		return mrc_refuse(SEND, REFUSED_POST_NO_LIST);
	if (sge && sge->length > LARGEST_WRITE)
		return mrc_refuse(SEND, REFUSED_POST_LENGTH, sge->length, LARGEST_WRITE);
	if (sge && wr->wr.rdma.remote_addr >= VA_LIMIT)
		return mrc_refuse(SEND, REFUSED_POST_ADDRESS, (long long)wr->wr.rdma.remote_addr, (long long)VA_LIMIT);
	if (sge && wr->send_flags & IBV_SEND_INLINE && sge->length > qp->cap.max_inline_data)
		return mrc_refuse(SEND, REFUSED_POST_INLINE, sge->length, qp->cap.max_inline_data);
	return 0;
}

/* Where the endpoint reads the bytes of a write; 0 for memory that is no region's. */
static word source_of(struct qp *qp, word place, const struct ibv_send_wr *wr)
{
	const struct ibv_sge *sge = wr->sg_list;

	if (!(wr->send_flags & IBV_SEND_INLINE))
		return mrc_local_address(qp->ibv.pd, sge->lkey, sge->addr, sge->length);
	uint8_t *copy = qp->inline_data + (size_t)place * qp->cap.max_inline_data;

	memcpy(copy, (const void *)(uintptr_t)sge->addr, sge->length);
	return (word)(uintptr_t)copy;
}

static int put_send(struct qp *qp, const struct ibv_send_wr *wr, word posted)
{
	word place = posted & qp->words[SEND_MASK], *send = &qp->sends[place * SEND_WORDS], source = 1;
	uint32_t length = wr->num_sge ? wr->sg_list->length : 0;
	int is_inline = !!(wr->send_flags & IBV_SEND_INLINE);

	if (length && !(source = source_of(qp, place, wr)))
		return mrc_refuse(
			SEND, REFUSED_POST_REGION, wr->sg_list->lkey, length, (long long)wr->sg_list->addr);
	send[WR_ID] = (word)wr->wr_id;
	send[ADDRESS] = source;
	send[LENGTH] = length;
	send[REMOTE_VA] = length ? (word)wr->wr.rdma.remote_addr : 0;
	send[RKEY] = length ? wr->wr.rdma.rkey : 0;
	send[IMMEDIATE] = NO_IMMEDIATE;
	if (wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
		send[IMMEDIATE] = __builtin_bswap32(wr->imm_data) | (wr->send_flags & IBV_SEND_SOLICITED ? SOLICITED : 0);
	send[FLAGS] = wr->send_flags | (qp->sq_sig_all ? IBV_SEND_SIGNALED : 0);
	send[LKEY] = length && !is_inline ? wr->sg_list->lkey : 0;
	return 0;
}

static int refuse_child(const char *function, void **bad_wr, void *wr)
{
	if (bad_wr)
		*bad_wr = wr;
	return mrc_refuse(function, REFUSED_FORKED);
}

int mrc_ring_send(struct ibv_qp *ibv, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
{
	struct qp *qp = (struct qp *)ibv;
	int error = 0;

	if (mrc_is_forked()) /* its locks may be held for ever */
		return refuse_child(SEND, (void **)bad_wr, wr);
	pthread_spin_lock(&qp->send_lock);
	word before = qp->words[SENDS_POSTED], posted = before;

	for (; wr && !error; wr = wr->next) {
		if ((error = may_post(SEND, qp, IBV_QPS_RTS)) || (error = check_send(qp, wr)))
			break;
		if (posted - read_word(qp->words, SENDS_ENDED) >= (word)qp->cap.max_send_wr)
			error = ENOMEM;
		else
			error = put_send(qp, wr, posted);
		if (error)
			break;
		posted++;
	}
	if (posted != before) {
		write_word(qp->words, SENDS_POSTED, posted);
		ring(qp, ibv->send_cq);
	}
	pthread_spin_unlock(&qp->send_lock);
	if (error && bad_wr)
		*bad_wr = wr;
	return error;
}

int mrc_ring_receive(struct ibv_qp *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	struct qp *qp = (struct qp *)ibv;
	int error = 0;

	if (mrc_is_forked())
		return refuse_child(RECEIVE, (void **)bad_wr, wr);
	pthread_spin_lock(&qp->receive_lock);
	word before = qp->words[RECEIVES_POSTED], posted = before;

	for (; wr; wr = wr->next) {
		if ((error = may_post(RECEIVE, qp, IBV_QPS_INIT)))
			break;
		if (wr->num_sge < 0 || wr->num_sge > 1) { /* nothing is read there: an immediate has no bytes */
			error = mrc_refuse(RECEIVE, REFUSED_POST_SGES, wr->num_sge);
			break;
		}
		if (posted - read_word(qp->words, RECEIVES_ENDED) >= (word)qp->cap.max_recv_wr) {
			error = ENOMEM;
			break;
		}
		qp->receives[posted++ & qp->words[RECEIVE_MASK]] = (word)wr->wr_id;
	}
	if (posted != before) {
		write_word(qp->words, RECEIVES_POSTED, posted);
		ring(qp, ibv->recv_cq);
	}
	pthread_spin_unlock(&qp->receive_lock);
	if (error && bad_wr)
		*bad_wr = wr;
	return error;
}
