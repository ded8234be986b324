/* SPDX-License-Identifier: BSD-2-Clause */
/* The calls of a verbs shim with every structure full of garbage but for what its mask names: no crash, no wrong state. */
#include "pair.h"

static struct ibv_qp_attr poisoned(int byte, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr;

	memset(&attr, byte, sizeof attr);
	attr.qp_state = state;
	return attr;
}

static enum ibv_qp_state state_of(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = poisoned(0xa5, IBV_QPS_ERR);
	struct ibv_qp_init_attr init;

	memset(&init, 0xa5, sizeof init);
	CHECK(ibv_query_qp(qp, &attr, -1, &init), 0);
	CHECK(init.send_cq == qp->send_cq && init.recv_cq == qp->recv_cq && !init.srq && init.qp_type == IBV_QPT_RC, 1);
	CHECK(attr.qp_state == attr.cur_qp_state && attr.qp_state == qp->state, 1);
	return attr.qp_state;
}

/* With the masks that such a program gives. */
static void connect_poisoned(int byte, struct ibv_qp *qp, struct ibv_qp *other)
{
	struct ibv_qp_attr attr = poisoned(byte, IBV_QPS_INIT);

	CHECK(ibv_modify_qp(qp, &attr, 0x39), 0), CHECK(state_of(qp), IBV_QPS_INIT);
	attr = poisoned(byte, IBV_QPS_RTR);
	attr.path_mtu = IBV_MTU_4096, attr.dest_qp_num = other->qp_num, attr.rq_psn = 7;
	ibv_query_gid(context, 1, 3, &attr.ah_attr.grh.dgid);
	attr.ah_attr.grh.traffic_class = 0;
	CHECK(ibv_modify_qp(qp, &attr, 0x129181), 0), CHECK(state_of(qp), IBV_QPS_RTR);
	attr = poisoned(byte, IBV_QPS_RTS);
	attr.sq_psn = 7;
	CHECK(ibv_modify_qp(qp, &attr, 0x12e01), 0), CHECK(state_of(qp), IBV_QPS_RTS);
}

static void write_poisoned(int byte, struct ibv_qp *left, struct ibv_qp *right, struct ibv_cq *cq)
{
	struct ibv_sge piece = {(uintptr_t)memory, 4096, mr->lkey};
	struct ibv_send_wr wr, *bad;
	struct ibv_recv_wr receive;
	struct ibv_wc done[4];

	memset(&receive, byte, sizeof receive);
	receive.next = NULL, receive.num_sge = 0;
	CHECK(ibv_post_recv(right, &receive, NULL), 0);
	memset(&wr, byte, sizeof wr);
	wr.next = NULL, wr.sg_list = &piece, wr.num_sge = 1, wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
	wr.send_flags = IBV_SEND_SIGNALED, wr.wr.rdma.remote_addr = (uintptr_t)memory + ROOM, wr.wr.rdma.rkey = mr->rkey;
	memset(memory, byte ^ 1, 4096), memset(memory + ROOM, 0, 4096);
	CHECK(ibv_post_send(left, &wr, &bad), 0);
	memset(done, 0xa5, sizeof done);
	for (int each = 0; each < 2; each++) {
		done[0] = next_of(cq);
		CHECK(done[0].status, IBV_WC_SUCCESS), CHECK(done[0].wr_id, wr.wr_id);
		if (done[0].opcode == IBV_WC_RECV_RDMA_WITH_IMM)
			CHECK(done[0].imm_data, wr.imm_data), CHECK(done[0].byte_len, 4096), CHECK(done[0].wc_flags, IBV_WC_WITH_IMM);
	}
	CHECK(memcmp(memory, memory + ROOM, 4096), 0);
	CHECK(ibv_poll_cq(cq, 4, done), 0), CHECK(ibv_poll_cq(cq, 0, NULL), 0), CHECK(ibv_poll_cq(cq, -1, NULL), 0);
}

int main(void)
{
	static const int bytes[] = {0x00, 0xff, 0xa5, 0x5a, 0x7f};

	open_all();
	struct ibv_cq *cq = ibv_create_cq(context, 64, NULL, NULL, 0);

	for (int each = 0; each < 5; each++) {
		int byte = bytes[each];
		struct ibv_qp_init_attr init;
		struct ibv_port_attr port;
		struct ibv_device_attr device;

		memset(&init, byte, sizeof init);
		init.send_cq = init.recv_cq = cq, init.srq = NULL, init.qp_type = IBV_QPT_RC, init.sq_sig_all = 0;
		init.cap = (struct ibv_qp_cap){16, 16, 1, 1, 64};
		struct ibv_qp *left = ibv_create_qp(pd, &init), *right = ibv_create_qp(pd, &init);

		CHECK(left->qp_context == init.qp_context, 1);
		/* Twice: what RESET and ERR leave behind is no garbage. */
		for (int again = 0; again < 2; again++) {
			connect_poisoned(byte, left, right), connect_poisoned(byte, right, left);
			write_poisoned(byte, left, right, cq);
			struct ibv_qp_attr attr = poisoned(byte, IBV_QPS_ERR);

			CHECK(ibv_modify_qp(left, &attr, -1), 0), CHECK(state_of(left), IBV_QPS_ERR);
			CHECK(ibv_modify_qp(right, &attr, byte | IBV_QP_STATE), 0), CHECK(state_of(right), IBV_QPS_ERR);
			attr = poisoned(byte, IBV_QPS_RESET);
			CHECK(ibv_modify_qp(left, &attr, -1), 0), CHECK(state_of(left), IBV_QPS_RESET);
			CHECK(ibv_modify_qp(right, &attr, byte | IBV_QP_STATE), 0), CHECK(state_of(right), IBV_QPS_RESET);
			CHECK(ibv_query_qp(left, &attr, -1, NULL), 0), CHECK(attr.dest_qp_num, 0), CHECK(attr.rq_psn, 0);
		}
		memset(&port, byte, sizeof port), memset(&device, byte, sizeof device);
		CHECK((ibv_query_port)(context, 1, &port), 0), CHECK(port.state, IBV_PORT_ACTIVE), CHECK(port.lid, 0);
		CHECK(ibv_query_device(context, &device), 0), CHECK(device.phys_port_cnt, 1);
		CHECK(ibv_destroy_qp(left), 0), CHECK(ibv_destroy_qp(right), 0);
	}
	CHECK(ibv_destroy_cq(cq), 0), CHECK(ibv_dereg_mr(mr), 0), CHECK(ibv_dealloc_pd(pd), 0);
	CHECK(ibv_close_device(context), 0);
	return wrong;
}
