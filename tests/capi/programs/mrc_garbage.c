/* SPDX-License-Identifier: BSD-2-Clause */
/* The calls of a verbs shim over mrc.h, with every structure full of garbage but for what its mask names, and on the way
 * to ERR and RESET the masks and pointers too: no crash, no wrong state. */
#include "mrc_pair.h"

static struct ibv_qp_attr poisoned(int byte, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr;

	memset(&attr, byte, sizeof attr);
	attr.qp_state = state;
	return attr;
}

/* As a shim queries: with a structure for MRC's attributes that nothing is asked of. */
static enum ibv_qp_state state_of(struct mrc_qp *qp, struct mrc_cq *cq)
{
	struct ibv_qp_attr attr = poisoned(0xa5, IBV_QPS_ERR);
	struct mrc_qp_init_attr init;
	struct mrc_qp_attr mrc_attr, same;

	memset(&init, 0xa5, sizeof init), memset(&mrc_attr, 0xa5, sizeof mrc_attr), same = mrc_attr;
	CHECK(mrc_query_qp(qp, &attr, -1, &mrc_attr, 0, &init), 0), CHECK(memcmp(&mrc_attr, &same, sizeof same), 0);
	CHECK(init.send_cq == cq && init.recv_cq == cq && init.pd == pd && init.cap.max_send_wr == 16, 1);
	CHECK(attr.qp_state, attr.cur_qp_state);
	return attr.qp_state;
}

static void connect_poisoned(int byte, struct mrc_qp *qp, struct mrc_qp *other, struct mrc_cq *cq, struct mrc_qp_hint *hint)
{
	struct ibv_qp_attr attr = poisoned(byte, IBV_QPS_INIT);
	struct mrc_qp_attr mrc_attr;

	memset(&mrc_attr, byte, sizeof mrc_attr);
	mrc_attr.qp_hint = hint;
	CHECK(mrc_modify_qp(qp, &attr, 0x39, &mrc_attr, MRC_QP_HINT), 0), CHECK(state_of(qp, cq), IBV_QPS_INIT);
	memset(&mrc_attr, byte, sizeof mrc_attr);
	attr = poisoned(byte, IBV_QPS_RTR);
	attr.path_mtu = IBV_MTU_4096, attr.dest_qp_num = number_of(other), attr.rq_psn = 7;
	ibv_query_gid(context, 1, 3, &attr.ah_attr.grh.dgid);
	attr.ah_attr.grh.traffic_class = 0;
	CHECK(mrc_modify_qp(qp, &attr, 0x129181, &mrc_attr, 0), 0), CHECK(state_of(qp, cq), IBV_QPS_RTR);
	attr = poisoned(byte, IBV_QPS_RTS);
	attr.sq_psn = 7;
	CHECK(mrc_modify_qp(qp, &attr, 0x12e01, &mrc_attr, 0), 0), CHECK(state_of(qp, cq), IBV_QPS_RTS);
}

static void write_poisoned(int byte, struct mrc_qp *left, struct mrc_qp *right, struct mrc_cq *cq)
{
	struct ibv_sge piece = {(uintptr_t)memory, 4096, mr->lkey};
	struct ibv_send_wr wr, *bad;
	struct ibv_recv_wr receive;
	struct ibv_wc done[4];

	memset(&receive, byte, sizeof receive);
	receive.next = NULL, receive.num_sge = 0;
	CHECK(mrc_post_recv(right, &receive, NULL), 0);
	memset(&wr, byte, sizeof wr);
	wr.next = NULL, wr.sg_list = &piece, wr.num_sge = 1, wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
	wr.send_flags = IBV_SEND_SIGNALED, wr.wr.rdma.remote_addr = (uintptr_t)memory + ROOM, wr.wr.rdma.rkey = mr->rkey;
	memset(memory, byte ^ 1, 4096), memset(memory + ROOM, 0, 4096);
	CHECK(mrc_post_send(left, &wr, &bad), 0);
	for (int each = 0; each < 2; each++) {
		struct ibv_wc wc = mrc_next(cq);

		CHECK(wc.status, IBV_WC_SUCCESS), CHECK(wc.wr_id, wr.wr_id);
		if (wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM)
			CHECK(wc.imm_data, wr.imm_data), CHECK(wc.byte_len, 4096), CHECK(wc.wc_flags, IBV_WC_WITH_IMM);
	}
	CHECK(memcmp(memory, memory + ROOM, 4096), 0), CHECK(mrc_poll_cq(cq, 4, done), 0);
}

/* To ERR and to RESET: MRC's mask is garbage, and its structure too, or is no memory at all. */
static void end_poisoned(int byte, struct mrc_qp *qp, struct mrc_cq *cq, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = poisoned(byte, state);
	struct mrc_qp_attr mrc_attr;
	void *no_memory;
	int mask;

	memset(&mrc_attr, byte, sizeof mrc_attr), memset(&no_memory, byte, sizeof no_memory), memset(&mask, byte, sizeof mask);
	CHECK(mrc_modify_qp(qp, &attr, -1, &mrc_attr, mask), 0), CHECK(state_of(qp, cq), state);
	CHECK(mrc_modify_qp(qp, &attr, byte | IBV_QP_STATE, no_memory, mask), 0), CHECK(state_of(qp, cq), state);
	CHECK(mrc_modify_qp(qp, &attr, IBV_QP_STATE, NULL, -1), 0), CHECK(state_of(qp, cq), state);
}

int main(void)
{
	static const int bytes[] = {0x00, 0xff, 0xa5, 0x5a, 0x7f};
	struct mrc_qp_hint_init_attr hint_attr = {.attr = {.num_qps_per_peer = 1, .num_send_peers = 1}};

	open_mrc();
	struct mrc_cq *cq = mrc_create_cq(mrc, 64, NULL, NULL, 0);

	for (int each = 0; each < 5; each++) {
		int byte = bytes[each], supported;
		struct mrc_qp_init_attr init;
		struct mrc_device_attr device;
		struct mrc_qp_hint *hint = mrc_create_qp_hint(mrc, &hint_attr);

		memset(&init, byte, sizeof init), memset(&device, byte, sizeof device), memset(&supported, byte, sizeof supported);
		CHECK(mrc_query_device(context, &device, &supported), 0), CHECK(supported, 1), CHECK(device.mrc_protocol_version, 1);
		init.send_cq = init.recv_cq = cq, init.pd = pd, init.sq_sig_all = 0, init.send_ops_flags = 0;
		init.protocol_version = 0, init.cap = (struct ibv_qp_cap){16, 16, 1, 1, 64};
		struct mrc_qp *left = mrc_create_qp(mrc, &init), *right = mrc_create_qp(mrc, &init);

		/* Twice: what RESET and ERR leave behind is no garbage. The second has no hint. */
		for (int again = 0; again < 2; again++) {
			connect_poisoned(byte, left, right, cq, again ? NULL : hint), connect_poisoned(byte, right, left, cq, NULL);
			write_poisoned(byte, left, right, cq);
			end_poisoned(byte, left, cq, IBV_QPS_ERR), end_poisoned(byte, right, cq, IBV_QPS_ERR);
			end_poisoned(byte, left, cq, IBV_QPS_RESET), end_poisoned(byte, right, cq, IBV_QPS_RESET);
		}
		CHECK(mrc_destroy_qp(left), 0), CHECK(mrc_destroy_qp(right), 0);
		/* As shims do, one hint stays to the end, and another is destroyed. */
		if (each)
			CHECK(mrc_destroy_qp_hint(hint), 0);
	}
	CHECK(mrc_destroy_cq(cq), 0);
	close_mrc();
	return wrong;
}
