/* SPDX-License-Identifier: BSD-2-Clause */
/* What is refused, and with which errno. */
#include "pair.h"

static void arguments(void)
{
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC};
	union ibv_gid gid;
	struct ibv_port_attr port;

	CHECK(ibv_create_qp(pd, &attr) == NULL && errno == EINVAL, 1);
	CHECK(ibv_create_cq(context, 0, NULL, NULL, 0) == NULL && errno == EINVAL, 1);
	CHECK(ibv_reg_mr(pd, memory, 0, 1) == NULL && errno == EINVAL, 1);
	CHECK(ibv_reg_mr(pd, memory, 8, IBV_ACCESS_REMOTE_WRITE) == NULL && errno == EINVAL, 1);
	CHECK(ibv_query_gid(context, 2, 0, &gid), -1);
	CHECK(ibv_query_port(context, 2, &port), EINVAL);
	CHECK(ibv_query_port(NULL, 1, &port), EINVAL);
	CHECK(ibv_open_device(NULL) == NULL && errno == EINVAL, 1);
	CHECK(ibv_dealloc_pd(NULL), EINVAL), CHECK(ibv_dereg_mr(NULL), EINVAL), CHECK(ibv_destroy_qp(NULL), EINVAL);
	CHECK(ibv_dealloc_pd(pd), EBUSY), CHECK(ibv_close_device(context), EBUSY);
}

/* 5 states, and where each may go. */
static void states(struct ibv_cq *cq)
{
	static const enum ibv_qp_state all[] = {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPS_ERR};
	static const char allowed[5][6] = {"11--1", "111-1", "1--11", "1---1", "1---1"};

	for (int from = 0; from < 5; from++)
		for (int to = 0; to < 5; to++) {
			struct ibv_qp *qp = made(cq, 4), *other = made(cq, 4);
			struct ibv_qp_attr garbage;
			int found;

			memset(&garbage, 0xa5, sizeof garbage);
			garbage.qp_state = all[to];
			if (from >= 1)
				CHECK(to_init(qp), 0);
			if (from >= 2 && from < 4)
				CHECK(to_rtr(qp, other), 0);
			if (from == 3)
				CHECK(to_rts(qp), 0);
			if (from == 4) {
				struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};

				CHECK(ibv_modify_qp(qp, &error, IBV_QP_STATE), 0);
			}
			/* In ERR and RESET all but the state is garbage. */
			found = all[to] == IBV_QPS_INIT	  ? to_init(qp)
				: all[to] == IBV_QPS_RTR  ? to_rtr(qp, other)
				: all[to] == IBV_QPS_RTS  ? to_rts(qp)
							  : ibv_modify_qp(qp, &garbage, -1);
			if (!!found == (allowed[from][to] == '1')) {
				printf("%d to %d: %d\n", from, to, found);
				wrong = 1;
			}
			CHECK(ibv_destroy_qp(qp), 0), CHECK(ibv_destroy_qp(other), 0);
		}
}

static void masks(struct ibv_cq *cq)
{
	struct ibv_qp *qp = made(cq, 4);
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = 5};

	ibv_query_gid(context, 1, 0, &attr.ah_attr.grh.dgid);
	CHECK(to_init(qp), 0);
	for (int bit = 0; bit < 21; bit++)
		if (RTR_MASK & ~IBV_QP_STATE & 1 << bit)
			CHECK(ibv_modify_qp(qp, &attr, RTR_MASK & ~(1 << bit)), EINVAL);
	attr.path_mtu = 9;
	CHECK(ibv_modify_qp(qp, &attr, RTR_MASK), EINVAL);
	attr.path_mtu = IBV_MTU_1024;
	CHECK(ibv_modify_qp(qp, &attr, RTR_MASK), 0);
	attr.qp_state = IBV_QPS_RTS;
	CHECK(ibv_modify_qp(qp, &attr, IBV_QP_STATE), EINVAL);
	CHECK(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
	CHECK(ibv_destroy_qp(qp), 0);
}

/* Every bit of a mask on every way there is: taken, or refused and nothing has changed. */
static void foreign_masks(struct ibv_cq *cq)
{
	static const int any = IBV_QP_STATE | IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS, alternative = IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE,
			 sending = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MIN_RNR_TIMER,
			 init = IBV_QP_PKEY_INDEX | IBV_QP_PORT;
	static const struct {
		int from, to, needed, taken;
	} ways[] = {
		{IBV_QPS_RESET, IBV_QPS_INIT, 0, any | init},
		{IBV_QPS_INIT, IBV_QPS_INIT, 0, any | init},
		{IBV_QPS_INIT, IBV_QPS_RTR, RTR_MASK, any | init | alternative | sending | IBV_QP_MAX_DEST_RD_ATOMIC},
		{IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_SQ_PSN, any | alternative | sending | IBV_QP_MAX_QP_RD_ATOMIC},
		{IBV_QPS_RTS, IBV_QPS_RTS, 0, any | alternative | IBV_QP_MIN_RNR_TIMER},
	};

	for (int way = 0; way < 5; way++)
		for (int bit = 0; bit < 32; bit++) {
			struct ibv_qp *qp = made(cq, 4), *other = made(cq, 4);
			int from = ways[way].from, to = ways[way].to, mask = ways[way].needed | IBV_QP_STATE | (int)(1u << bit);
			int taken = (ways[way].needed | ways[way].taken) & mask, error = taken == mask ? 0 : EINVAL;
			struct ibv_qp_attr told, attr = {.qp_state = to, .cur_qp_state = from, .path_mtu = IBV_MTU_4096, .dest_qp_num = other->qp_num};

			ibv_query_gid(context, 1, 0, &attr.ah_attr.grh.dgid);
			if (from >= IBV_QPS_INIT)
				CHECK(to_init(qp), 0);
			if (from >= IBV_QPS_RTR)
				CHECK(to_rtr(qp, other), 0);
			if (from >= IBV_QPS_RTS)
				CHECK(to_rts(qp), 0);
			if (ibv_modify_qp(qp, &attr, mask) != error) {
				printf("%d to %d with bit %d: not %d\n", from, to, bit, error);
				wrong = 1;
			}
			CHECK(ibv_query_qp(qp, &told, -1, NULL), 0), CHECK(told.qp_state, error ? from : to);
			if (error && to == IBV_QPS_RTR)
				CHECK(told.dest_qp_num, 0);
			CHECK(ibv_destroy_qp(qp), 0), CHECK(ibv_destroy_qp(other), 0);
		}
	/* Another state than the QP's is claimed; a state that is none; a mask without a state. */
	struct ibv_qp *qp = made(cq, 4);
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .cur_qp_state = IBV_QPS_RTS};

	CHECK(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_CUR_STATE), EINVAL);
	for (int state = -1; state < 40; state++)
		if (state < 0 || (state > IBV_QPS_RTS && state != IBV_QPS_ERR)) {
			attr.qp_state = state;
			CHECK(ibv_modify_qp(qp, &attr, IBV_QP_STATE), EINVAL);
		}
	CHECK(to_init(qp), 0), CHECK(ibv_modify_qp(qp, &attr, IBV_QP_PORT), 0), CHECK(ibv_modify_qp(qp, &attr, IBV_QP_SQ_PSN), EINVAL);
	/* A GID that is no host's: refused in time, and the QP stays where it is. */
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = 1 << 24};
	memset(&attr.ah_attr, 0xa5, sizeof attr.ah_attr);
	CHECK(!ibv_modify_qp(qp, &attr, RTR_MASK), 0), CHECK(qp->state, IBV_QPS_INIT);
	CHECK(ibv_destroy_qp(qp), 0);
}

static void posting(struct ibv_cq *cq)
{
	struct ibv_qp *qp = made(cq, 4), *other = made(cq, 4);
	struct ibv_sge piece = {(uintptr_t)memory, 8, mr->lkey};
	struct ibv_send_wr *bad, read = {.opcode = IBV_WR_RDMA_READ, .sg_list = &piece, .num_sge = 1};

	CHECK(post_write(qp, 1, 8, 0, 0), EINVAL), CHECK(post_receive(qp, 1), EINVAL);
	CHECK(to_init(qp), 0);
	CHECK(post_write(qp, 1, 8, 0, 0), EINVAL), CHECK(post_receive(qp, 1), 0);
	CHECK(to_rtr(qp, other), 0);
	CHECK(post_write(qp, 1, 8, 0, 0), EINVAL);
	CHECK(to_rts(qp), 0);
	CHECK(ibv_post_send(qp, &read, &bad), EOPNOTSUPP);
	CHECK(post_write(qp, 1, 65, IBV_SEND_INLINE, 0), EINVAL);
	CHECK(post_write(qp, 1, sizeof memory + 1, 0, 0), EINVAL);
	/* A list ends at the first that is refused, which bad_wr names; without bad_wr it is no other. */
	struct ibv_send_wr third = {.opcode = IBV_WR_RDMA_WRITE, .sg_list = &piece, .num_sge = 2},
			   second = {.opcode = IBV_WR_RDMA_WRITE, .sg_list = NULL, .num_sge = 1, .next = &third},
			   first = {.opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED, .next = &second};
	CHECK(ibv_post_send(qp, &first, &bad), EINVAL), CHECK(bad == &second, 1);
	CHECK(ibv_post_send(qp, &third, NULL), EINVAL), CHECK(ibv_post_send(qp, NULL, NULL), 0);
	struct ibv_recv_wr *bad_receive, many = {.num_sge = 2};
	CHECK(ibv_post_recv(qp, &many, &bad_receive), EINVAL), CHECK(bad_receive == &many, 1);
	piece.lkey++;
	third.num_sge = 1;
	CHECK(ibv_post_send(qp, &third, &bad), EINVAL), CHECK(bad == &third, 1);
	piece.lkey--;
	third.wr.rdma.remote_addr = UINT64_MAX;
	CHECK(ibv_post_send(qp, &third, &bad), EINVAL);
	third.opcode = (enum ibv_wr_opcode)77;
	CHECK(ibv_post_send(qp, &third, &bad), EOPNOTSUPP);
	for (int each = 0; each < 3; each++)
		CHECK(post_receive(qp, each), 0);
	CHECK(post_receive(qp, 4), ENOMEM);
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
	CHECK(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
	CHECK(post_receive(qp, 1), EINVAL);
	CHECK(ibv_destroy_cq(cq), EBUSY);
	CHECK(ibv_destroy_qp(qp), 0), CHECK(ibv_destroy_qp(other), 0);
}

int main(void)
{
	open_all();
	struct ibv_cq *cq = ibv_create_cq(context, 64, NULL, NULL, 0);

	/* Each refusal says why on stderr, which is not looked at here. */
	arguments();
	states(cq);
	masks(cq);
	foreign_masks(cq);
	posting(cq);
	CHECK(ibv_destroy_cq(cq), 0), CHECK(ibv_dereg_mr(mr), 0), CHECK(ibv_dealloc_pd(pd), 0);
	CHECK(ibv_close_device(context), 0);
	return wrong;
}
