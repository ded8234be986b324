/* SPDX-License-Identifier: BSD-2-Clause */
/* In the manner of a collectives library's net plug-in: a receiver announces groups of buffers by writing slots into the
 * sender's memory, the sender watches the slots there, writes each buffer in pieces over 8 QPs, and tells the sizes by a
 * write and an immediate. Both ends in one process, a thread each. */
#include "pair.h"

#include <pthread.h>

#define QPS 8
#define GROUP 4
#define SLOTS 16
#define ROUNDS 100
#define MOST (64 << 10) /* bytes of a buffer */

struct buffer {
	uint64_t addr;
	uint32_t size, rkey;
};

struct slot {
	struct buffer buffers[GROUP];
	uint64_t sizes, number; /* where the sizes go; the last word, which is watched */
};

static struct slot told[SLOTS], announced[SLOTS]; /* the sender's, and what the receiver writes there */
static uint32_t arrived[SLOTS][GROUP], sent[SLOTS][GROUP];
static unsigned char out[GROUP][MOST], in[SLOTS][GROUP][MOST];
static struct ibv_mr *of_told, *of_announced, *of_arrived, *of_sent, *of_out, *of_in;
static struct ibv_cq *sender_cq, *receiver_cq;
static struct ibv_qp *left[QPS], *right[QPS];

static uint32_t size_of(unsigned round, unsigned each) { return 1 + (round * 7919 + each * 104729) % MOST; }
static unsigned char byte(unsigned round, unsigned each, unsigned at) { return (unsigned char)(round * 3 + each * 5 + at * 7); }

static void write_to(struct ibv_qp *qp, struct ibv_mr *mr, void *from, uint32_t length, uint64_t to, uint32_t rkey, int last, uint32_t number)
{
	struct ibv_sge piece = {(uintptr_t)from, length, mr->lkey};
	struct ibv_send_wr *bad, wr = {.wr_id = number, .sg_list = &piece, .num_sge = length ? 1 : 0,
		.opcode = last ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE, .imm_data = htonl(number),
		.send_flags = last ? IBV_SEND_SIGNALED : 0, .wr.rdma = {to, rkey}};
	int error;

	while ((error = ibv_post_send(qp, &wr, &bad)) == ENOMEM)
		;
	CHECK(error, 0);
}

static void *receive(void *argument)
{
	(void)argument;
	for (unsigned round = 0; round < ROUNDS; round++) {
		struct slot *slot = &announced[round % SLOTS];

		for (unsigned each = 0; each < GROUP; each++)
			slot->buffers[each] = (struct buffer){(uintptr_t)in[round % SLOTS][each], size_of(round, each), of_in->rkey};
		slot->sizes = (uintptr_t)arrived[round % SLOTS];
		slot->number = round + 1;
		for (int qp = 0; qp < QPS; qp++)
			CHECK(post_receive(right[qp], round), 0);
		write_to(right[0], of_announced, slot, sizeof *slot, (uintptr_t)&told[round % SLOTS], of_told->rkey, 0, round);
		/* One immediate on each QP: all its pieces have come before it. */
		for (int qp = 0; qp < QPS; qp++) {
			struct ibv_wc wc = next_of(receiver_cq);

			CHECK(wc.status, IBV_WC_SUCCESS), CHECK(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
			CHECK(ntohl(wc.imm_data), round);
		}
		for (unsigned each = 0; each < GROUP; each++) {
			unsigned bad = 0;

			CHECK(arrived[round % SLOTS][each], size_of(round, each));
			for (unsigned at = 0; at < size_of(round, each); at++)
				bad += in[round % SLOTS][each][at] != byte(round, each, at);
			CHECK(bad, 0);
		}
		memset(in[round % SLOTS], 0, sizeof in[0]);
	}
	return NULL;
}

static void send_round(unsigned round)
{
	struct slot *slot = &told[round % SLOTS];
	time_t end = time(NULL) + 60;

	while (__atomic_load_n(&slot->number, __ATOMIC_ACQUIRE) != round + 1) {
		if (time(NULL) > end) {
			printf("no slot of round %u\n", round);
			exit(1);
		}
		sched_yield();
	}
	for (unsigned each = 0; each < GROUP; each++) {
		uint32_t size = slot->buffers[each].size, chunk = (size + QPS - 1) / QPS;

		CHECK(size, size_of(round, each));
		sent[round % SLOTS][each] = size;
		for (unsigned at = 0; at < size; at++)
			out[each][at] = byte(round, each, at);
		for (uint32_t qp = 0, at = 0; qp < QPS && at < size; qp++, at += chunk)
			write_to(left[qp], of_out, &out[each][at], size - at < chunk ? size - at : chunk, slot->buffers[each].addr + at,
				 slot->buffers[each].rkey, 0, round);
	}
	for (int qp = 0; qp < QPS; qp++)
		write_to(left[qp], of_sent, sent[round % SLOTS], qp ? 0 : sizeof sent[0], slot->sizes, of_arrived->rkey, 1, round);
	for (int qp = 0; qp < QPS; qp++)
		CHECK(next_of(sender_cq).status, IBV_WC_SUCCESS);
}

static struct ibv_mr *open_to_all(void *memory, size_t length)
{
	return ibv_reg_mr(pd, memory, length,
			  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
				  IBV_ACCESS_RELAXED_ORDERING);
}

int main(void)
{
	pthread_t receiver;

	open_all();
	of_told = open_to_all(told, sizeof told), of_announced = open_to_all(announced, sizeof announced);
	of_arrived = open_to_all(arrived, sizeof arrived), of_sent = open_to_all(sent, sizeof sent);
	of_out = open_to_all(out, sizeof out), of_in = open_to_all(in, sizeof in);
	sender_cq = ibv_create_cq(context, 1024, NULL, NULL, 0), receiver_cq = ibv_create_cq(context, 1024, NULL, NULL, 0);
	for (int qp = 0; qp < QPS; qp++) {
		left[qp] = made(sender_cq, 256), right[qp] = made(receiver_cq, 256);
		connect_both(left[qp], right[qp]);
	}
	pthread_create(&receiver, NULL, receive, NULL);
	for (unsigned round = 0; round < ROUNDS; round++)
		send_round(round);
	pthread_join(receiver, NULL);
	for (int qp = 0; qp < QPS; qp++)
		CHECK(ibv_destroy_qp(left[qp]), 0), CHECK(ibv_destroy_qp(right[qp]), 0);
	return wrong;
}
