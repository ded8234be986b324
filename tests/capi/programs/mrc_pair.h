/* SPDX-License-Identifier: BSD-2-Clause */
/* Two QPs of mrc.h in one process, connected to each other. */
#include "pair.h"

#include <mrc.h>

/* What production's programs give on each way. */
#define INIT_MASK (IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)
#define MRC_RTR_MASK (RTR_MASK | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)
#define RTS_MASK                                                                                                       \
	(IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC)

static struct mrc_context *mrc;

static inline void open_mrc(void)
{
	struct mrc_context_attr attr = {0};

	open_all();
	if (!(mrc = mrc_create_context(context, &attr))) {
		perror("mrc_create_context");
		exit(1);
	}
}

static inline void close_mrc(void)
{
	CHECK(ibv_dereg_mr(mr), 0), CHECK(ibv_dealloc_pd(pd), 0);
	CHECK(mrc_destroy_context(mrc), 0), CHECK(ibv_close_device(context), 0);
}

static inline struct mrc_qp *mrc_made(struct mrc_cq *cq, int depth)
{
	struct mrc_qp_init_attr attr = {.send_cq = cq, .recv_cq = cq, .pd = pd, .cap = {depth, depth, 1, 1, 64}};

	return mrc_create_qp(mrc, &attr);
}

static inline uint32_t number_of(struct mrc_qp *qp)
{
	uint32_t qpn = 0;

	CHECK(mrc_get_qpn(qp, &qpn), 0);
	return qpn;
}

static inline int mrc_to_init(struct mrc_qp *qp, struct mrc_qp_attr *mrc_attr, int mrc_mask)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};

	return mrc_modify_qp(qp, &attr, INIT_MASK, mrc_attr, mrc_mask);
}

static inline int mrc_to_rtr(struct mrc_qp *qp, struct mrc_qp *other, struct mrc_qp_attr *mrc_attr, int mrc_mask)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_4096, .dest_qp_num = number_of(other), .rq_psn = 7};

	attr.ah_attr.is_global = attr.ah_attr.port_num = 1;
	ibv_query_gid(context, 1, 3, &attr.ah_attr.grh.dgid);
	return mrc_modify_qp(qp, &attr, MRC_RTR_MASK, mrc_attr, mrc_mask);
}

static inline int mrc_to_rts(struct mrc_qp *qp, struct mrc_qp_attr *mrc_attr, int mrc_mask)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS, .sq_psn = 7, .timeout = 7, .retry_cnt = 14, .rnr_retry = 14};

	return mrc_modify_qp(qp, &attr, RTS_MASK, mrc_attr, mrc_mask);
}

static inline void mrc_connect(struct mrc_qp *left, struct mrc_qp *right)
{
	CHECK(mrc_to_init(left, NULL, 0), 0), CHECK(mrc_to_init(right, NULL, 0), 0);
	CHECK(mrc_to_rtr(left, right, NULL, 0), 0), CHECK(mrc_to_rtr(right, left, NULL, 0), 0);
	CHECK(mrc_to_rts(left, NULL, 0), 0), CHECK(mrc_to_rts(right, NULL, 0), 0);
}

static inline int mrc_write(struct mrc_qp *qp, uint64_t wr_id, uint32_t length, unsigned flags)
{
	struct ibv_sge piece = {(uintptr_t)memory, length, mr->lkey};
	struct ibv_send_wr *bad = NULL, wr = {.wr_id = wr_id, .sg_list = &piece, .num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE, .send_flags = flags, .wr.rdma = {(uintptr_t)memory + ROOM, mr->rkey}};

	return mrc_post_send(qp, &wr, &bad);
}

/* A write of one byte and an immediate. */
static inline int mrc_write_immediate(struct mrc_qp *qp, uint64_t wr_id, uint32_t number)
{
	struct ibv_sge piece = {(uintptr_t)memory, 1, mr->lkey};
	struct ibv_send_wr *bad = NULL, wr = {.wr_id = wr_id, .sg_list = &piece, .num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .imm_data = htonl(number), .send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {(uintptr_t)memory + ROOM, mr->rkey}};

	return mrc_post_send(qp, &wr, &bad);
}

static inline int mrc_receive(struct mrc_qp *qp, uint64_t wr_id)
{
	struct ibv_recv_wr *bad, wr = {.wr_id = wr_id};

	return mrc_post_recv(qp, &wr, &bad);
}

/* The next completion, within a minute. */
static inline struct ibv_wc mrc_next(struct mrc_cq *cq)
{
	struct ibv_wc wc = {0};
	time_t end = time(NULL) + 60;

	while (!mrc_poll_cq(cq, 1, &wc))
		if (time(NULL) > end) {
			printf("nothing completes\n");
			exit(1);
		}
	return wc;
}
