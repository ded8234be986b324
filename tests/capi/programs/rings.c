/* SPDX-License-Identifier: BSD-2-Clause */
/* Work through the rings: order, signals, inline data, full queues, flushes, errors of the peer, deregistration. */
#include "pair.h"

static struct ibv_cq *cq, *small;

static void writes(void)
{
	struct ibv_qp *left = made(cq, 16), *right = made(cq, 16);

	connect_both(left, right);
	for (int each = 0; each < ROOM; each++)
		memory[each] = (unsigned char)(each * 11);
	for (int each = 15; each; each--)
		CHECK(post_write(left, each, ROOM, each == 1 ? IBV_SEND_SIGNALED : 0, mr->rkey), 0);
	struct ibv_wc wc = next_of(cq);

	CHECK(wc.wr_id, 1), CHECK(wc.status, IBV_WC_SUCCESS), CHECK(wc.opcode, IBV_WC_RDMA_WRITE);
	CHECK(wc.qp_num, left->qp_num), CHECK(wc.byte_len, ROOM);
	CHECK(memcmp(memory, memory + ROOM, ROOM), 0);
	/* What waits for a receive of the peer's reads from the region still. */
	struct ibv_sge piece = {(uintptr_t)memory, 64, mr->lkey};
	struct ibv_send_wr *bad, waits = {.wr_id = 5, .opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .send_flags = IBV_SEND_SIGNALED,
		.sg_list = &piece, .num_sge = 1, .wr.rdma = {(uintptr_t)memory + ROOM, mr->rkey}};
	CHECK(ibv_post_send(left, &waits, &bad), 0), CHECK(ibv_dereg_mr(mr), EBUSY), CHECK(post_receive(right, 5), 0);
	for (int each = 0; each < 2; each++) {
		wc = next_of(cq);
		CHECK(wc.wr_id, 5), CHECK(wc.status, IBV_WC_SUCCESS);
	}
	/* Unsignaled, inline, 0 bytes, 64 in a row over a queue of 16. */
	for (int each = 0; each < 64; each++) {
		int error;

		memset(memory, each, 64);
		while ((error = post_write(left, each, each ? 64 : 0, IBV_SEND_INLINE | (each == 63 ? IBV_SEND_SIGNALED : 0), mr->rkey)) ==
		       ENOMEM)
			;
		CHECK(error, 0);
		memset(memory, 0xff, 64);
	}
	CHECK(next_of(cq).wr_id, 63);
	CHECK(memory[ROOM], 63), CHECK(memory[ROOM + 63], 63);
	CHECK(ibv_poll_cq(cq, 1, &wc), 0);
	/* Immediates in order, in network byte order. */
	for (int each = 0; each < 8; each++)
		CHECK(post_receive(right, 100 + each), 0);
	for (int each = 0; each < 8; each++)
		CHECK(post_immediate(left, each, 0x01020304 + each), 0);
	for (int sent = 0, received = 0; sent + received < 16;) {
		wc = next_of(cq);
		CHECK(wc.status, IBV_WC_SUCCESS);
		if (wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
			CHECK(wc.wr_id, 100 + received), CHECK(wc.wc_flags, IBV_WC_WITH_IMM);
			CHECK(ntohl(wc.imm_data), 0x01020304 + received++), CHECK(wc.qp_num, right->qp_num);
		} else {
			CHECK(wc.wr_id, sent++);
		}
	}
	CHECK(ibv_destroy_qp(left), 0), CHECK(ibv_destroy_qp(right), 0);
}

static void errors(void)
{
	struct ibv_qp *left = made(cq, 16), *right = made(cq, 16);
	struct ibv_qp_attr attr;

	connect_both(left, right);
	CHECK(post_receive(left, 50), 0);
	CHECK(post_write(left, 1, 64, 0, mr->rkey + 1), 0);
	CHECK(post_write(left, 2, 64, 0, mr->rkey), 0);
	struct ibv_wc wc = next_of(cq);

	CHECK(wc.wr_id, 1), CHECK(wc.status, IBV_WC_REM_ACCESS_ERR);
	/* The other send and the receive, in either order. */
	for (int each = 0, sum = 0; each < 2; each++) {
		wc = next_of(cq);
		sum += (int)wc.wr_id;
		CHECK(wc.status, IBV_WC_WR_FLUSH_ERR), CHECK(each == 0 || sum == 52, 1);
	}
	CHECK(ibv_query_qp(left, &attr, IBV_QP_STATE, NULL), 0), CHECK(attr.qp_state, IBV_QPS_ERR);
	/* In ERR what is posted completes flushed. */
	CHECK(post_write(left, 3, 64, 0, mr->rkey), 0), CHECK(post_receive(left, 51), 0);
	for (int each = 0; each < 2; each++)
		CHECK(next_of(cq).status, IBV_WC_WR_FLUSH_ERR);
	struct ibv_async_event event;
	CHECK(ibv_get_async_event(context, &event), 0), CHECK(event.event_type, IBV_EVENT_QP_FATAL);
	ibv_ack_async_event(&event);
	/* And anew. */
	attr.qp_state = IBV_QPS_RESET;
	CHECK(ibv_modify_qp(left, &attr, IBV_QP_STATE), 0), CHECK(ibv_modify_qp(right, &attr, IBV_QP_STATE), 0);
	connect_both(left, right);
	CHECK(post_write(left, 4, 64, IBV_SEND_SIGNALED, mr->rkey), 0);
	wc = next_of(cq);
	CHECK(wc.wr_id, 4), CHECK(wc.status, IBV_WC_SUCCESS);
	CHECK(ibv_destroy_qp(left), 0), CHECK(ibv_destroy_qp(right), 0);
}

static void overruns(void)
{
	struct ibv_qp *left = made(small, 16), *right = made(cq, 16);
	struct ibv_wc wc;

	connect_both(left, right);
	for (int each = 0; each < 8; each++)
		CHECK(post_write(left, each, 8, IBV_SEND_SIGNALED, mr->rkey), 0);
	sleep(1);
	for (int each = 0; each < 4; each++)
		CHECK(next_of(small).wr_id, each);
	CHECK(ibv_poll_cq(small, 1, &wc), -EIO);
	CHECK(ibv_destroy_qp(left), 0), CHECK(ibv_destroy_qp(right), 0);
}

int main(void)
{
	open_all();
	cq = ibv_create_cq(context, 256, NULL, NULL, 0);
	small = ibv_create_cq(context, 4, NULL, NULL, 0);
	writes();
	errors();
	overruns();
	CHECK(ibv_destroy_cq(cq), 0), CHECK(ibv_destroy_cq(small), 0), CHECK(ibv_dereg_mr(mr), 0);
	CHECK(ibv_dealloc_pd(pd), 0), CHECK(ibv_close_device(context), 0);
	return wrong;
}
