/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a post and an empty poll cost the program that makes them, in processor time: two QPs of one process over ordinary
 * UDP, as many writes outstanding as the queue has room for, one completion for each 64.
 *
 *   posts SIZE WRITES      prints nanoseconds of a post, of an empty poll, and writes a second
 */
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define DEPTH 128
#define SIGNALED_EVERY 64
#define MOST (1u << 20)
#define EMPTY_POLLS 10000000

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;

static double ns_of(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void must(int good, const char *what)
{
	if (!good) {
		perror(what);
		exit(1);
	}
}

static struct ibv_qp *made(void)
{
	struct ibv_qp_init_attr attr = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .cap = {DEPTH, 1, 1, 1, 0}};

	return ibv_create_qp(pd, &attr);
}

static void bring_to_rts(struct ibv_qp *qp, struct ibv_qp *other)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT};

	must(!ibv_modify_qp(qp, &attr, IBV_QP_STATE), "INIT");
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_4096, .dest_qp_num = other->qp_num};
	ibv_query_gid(context, 1, 0, &attr.ah_attr.grh.dgid);
	must(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN), "RTR");
	attr.qp_state = IBV_QPS_RTS;
	must(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), "RTS");
}

/* What is spent on the posts of one burst. */
static double post(struct ibv_qp *qp, struct ibv_send_wr *wr, long from, long to, long last)
{
	double began = ns_of(CLOCK_THREAD_CPUTIME_ID);
	struct ibv_send_wr *bad;

	for (long each = from; each < to; each++) {
		wr->wr_id = (uint64_t)each;
		wr->send_flags = each % SIGNALED_EVERY == SIGNALED_EVERY - 1 || each == last ? IBV_SEND_SIGNALED : 0;
		must(!(errno = ibv_post_send(qp, wr, &bad)), "ibv_post_send");
	}
	return ns_of(CLOCK_THREAD_CPUTIME_ID) - began;
}

int main(int count, char **arguments)
{
	static unsigned char memory[2 * MOST];
	unsigned size = count > 1 ? (unsigned)atoi(arguments[1]) : 64;
	long writes = count > 2 ? atol(arguments[2]) : 100000, posted = 0, ended = 0;
	double spent = 0, clock = 0;
	struct ibv_wc wc;

	must(size <= MOST && (context = ibv_open_device(ibv_get_device_list(NULL)[0])), "ibv_open_device");
	pd = ibv_alloc_pd(context), cq = ibv_create_cq(context, 2 * DEPTH, NULL, NULL, 0);
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	struct ibv_qp *left = made(), *right = made();

	must(mr && left && right, "ibv_create_qp");
	bring_to_rts(left, right), bring_to_rts(right, left);
	struct ibv_sge piece = {(uintptr_t)memory, size, mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &piece, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
		.wr.rdma = {(uintptr_t)memory + MOST, mr->rkey}};

	/* What looking at the clock costs is none of a post's. */
	for (int each = 0; each < 1000; each++)
		clock += post(left, &wr, 0, 0, 0) / 1000;
	double began = ns_of(CLOCK_MONOTONIC);

	while (ended < writes) {
		long room = ended + DEPTH < writes ? ended + DEPTH : writes;

		if (posted < room)
			spent += post(left, &wr, posted, room, writes - 1) - clock, posted = room;
		int found = ibv_poll_cq(cq, 1, &wc);

		must(found >= 0 && (!found || wc.status == IBV_WC_SUCCESS), "ibv_poll_cq");
		if (found)
			ended = (long)wc.wr_id + 1;
	}
	double took = ns_of(CLOCK_MONOTONIC) - began;

	began = ns_of(CLOCK_THREAD_CPUTIME_ID);
	for (int each = 0; each < EMPTY_POLLS; each++)
		ibv_poll_cq(cq, 1, &wc);
	printf("%.1f %.1f %.0f\n", spent / (double)writes, (ns_of(CLOCK_THREAD_CPUTIME_ID) - began) / EMPTY_POLLS,
		(double)writes / took * 1e9);
	return 0;
}
