/* SPDX-License-Identifier: BSD-2-Clause */
/* Writes of 1 byte to 1 MiB through mrc.h, an immediate after each, and every byte looked at. */
#include "mrc_pair.h"

static void write_one(struct mrc_qp *left, struct mrc_qp *right, struct mrc_cq *cq, uint32_t length)
{
	unsigned bad = 0, sent = 0, received = 0;

	for (uint32_t each = 0; each < length; each++)
		memory[each] = (unsigned char)(each * 7 + length);
	memset(memory + ROOM, 0, ROOM);
	CHECK(mrc_receive(right, 9), 0);
	CHECK(mrc_write(left, length, length, 0), 0);
	CHECK(mrc_write_immediate(left, 8, length), 0);
	while (sent + received < 2) {
		struct ibv_wc wc = mrc_next(cq);

		CHECK(wc.status, IBV_WC_SUCCESS);
		if (wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
			CHECK(wc.wr_id, 9), CHECK(ntohl(wc.imm_data), length), CHECK(wc.qp_num, number_of(right));
			received++;
		} else {
			CHECK(wc.wr_id, 8), CHECK(wc.qp_num, number_of(left));
			sent++;
		}
	}
	for (uint32_t each = 0; each < ROOM; each++)
		bad += memory[ROOM + each] != (each < length ? memory[each] : 0);
	CHECK(bad, 0);
}

int main(void)
{
	struct mrc_device_attr device;
	int supported = -1;

	open_mrc();
	CHECK(mrc_query_device(context, &device, &supported), 0), CHECK(!!supported, 1);
	struct mrc_cq *cq = mrc_create_cq(mrc, 64, NULL, NULL, 0);
	struct mrc_qp *left = mrc_made(cq, 16), *right = mrc_made(cq, 16);

	mrc_connect(left, right);
	for (uint32_t length = 1; length <= ROOM; length *= 4)
		write_one(left, right, cq, length);
	write_one(left, right, cq, 4097), write_one(left, right, cq, ROOM - 1);
	CHECK(mrc_destroy_qp(left), 0), CHECK(mrc_destroy_qp(right), 0), CHECK(mrc_destroy_cq(cq), 0);
	close_mrc();
	return wrong;
}
