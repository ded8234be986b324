/* SPDX-License-Identifier: BSD-2-Clause */
/* Two QPs of one process that are connected to each other, and checks that print what is wrong. */
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define ROOM (1 << 20)
#define RTR_MASK (IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN)

static int wrong;

#define CHECK(what, expected) check(__LINE__, #what, (long long)(what), (long long)(expected))

static void check(int line, const char *what, long long found, long long wanted)
{
	if (found == wanted)
		return;
	printf("line %d: %s is %lld, not %lld\n", line, what, found, wanted);
	wrong = 1;
}

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_mr *mr;
static unsigned char memory[2 * ROOM]; /* what is sent, then what is written to */

static void open_all(void)
{
	context = ibv_open_device(ibv_get_device_list(NULL)[0]);
	pd = ibv_alloc_pd(context);
	mr = ibv_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
	if (!context || !pd || !mr) {
		perror("open");
		exit(1);
	}
}

static inline struct ibv_qp *made(struct ibv_cq *cq, int depth)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .cap = {depth, depth, 1, 1, 64}};

	return ibv_create_qp(pd, &attr);
}

static inline int to_init(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};

	return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

static inline int to_rtr(struct ibv_qp *qp, struct ibv_qp *other)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_4096, .dest_qp_num = other->qp_num, .rq_psn = 7};

	ibv_query_gid(qp->context, 1, 3, &attr.ah_attr.grh.dgid);
	return ibv_modify_qp(qp, &attr, RTR_MASK);
}

static inline int to_rts(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS, .sq_psn = 7, .timeout = 1};

	return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT);
}

static inline void connect_both(struct ibv_qp *left, struct ibv_qp *right)
{
	CHECK(to_init(left), 0), CHECK(to_init(right), 0);
	CHECK(to_rtr(left, right), 0), CHECK(to_rtr(right, left), 0);
	CHECK(to_rts(left), 0), CHECK(to_rts(right), 0);
}

/* A write from the beginning of the memory to its second half. */
static inline int post_write(struct ibv_qp *qp, uint64_t wr_id, uint32_t length, unsigned flags, uint32_t rkey)
{
	struct ibv_sge piece = {(uintptr_t)memory, length, mr->lkey};
	struct ibv_send_wr *bad = NULL, wr = {.wr_id = wr_id, .sg_list = &piece, .num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE, .send_flags = flags, .wr.rdma = {(uintptr_t)memory + ROOM, rkey}};
	int error = ibv_post_send(qp, &wr, &bad);

	CHECK(!error || bad == &wr, 1);
	return error;
}

static inline int post_immediate_with(struct ibv_qp *qp, uint64_t wr_id, uint32_t number, unsigned flags)
{
	struct ibv_send_wr *bad, wr = {.wr_id = wr_id, .opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .imm_data = htonl(number),
		.send_flags = IBV_SEND_SIGNALED | flags};

	return ibv_post_send(qp, &wr, &bad);
}

static inline int post_immediate(struct ibv_qp *qp, uint64_t wr_id, uint32_t number)
{
	return post_immediate_with(qp, wr_id, number, 0);
}

static inline int post_receive(struct ibv_qp *qp, uint64_t wr_id)
{
	struct ibv_recv_wr *bad, wr = {.wr_id = wr_id};

	return ibv_post_recv(qp, &wr, &bad);
}

/* The next completion, within a minute. */
static inline struct ibv_wc next_of(struct ibv_cq *cq)
{
	struct ibv_wc wc = {0};
	time_t end = time(NULL) + 60;

	while (!ibv_poll_cq(cq, 1, &wc))
		if (time(NULL) > end) {
			printf("nothing completes\n");
			exit(1);
		}
	return wc;
}
