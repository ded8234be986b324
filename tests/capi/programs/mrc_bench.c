/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a benchmark over mrc.h does, between two processes: for each size a few writes one by one, then many with one
 * completion for each 64, then a write of one byte with an immediate elsewhere, and the bytes compared at the receiver.
 * A hint that stays to the end is given, an EV profile where it is named, and no other attribute of MRC.
 *
 *   mrc_bench PORT                                     receives
 *   mrc_bench PORT HOST LARGEST WRITES [EV_PROFILE]    writes, and prints a line for each size
 *
 * PAUSE_US in the environment: so long it rests after each completion.
 */
#include <arpa/inet.h>
#include <mrc.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define LARGEST (1u << 20)
#define SIGNALED_EVERY 64
#define DEPTH 128
#define ONE_BY_ONE 10
#define AT_ONCE 1000 /* polls, before others get the processor */
#define SIGNAL 0x4d

struct end {
	union ibv_gid gid;
	uint64_t addr;
	uint32_t qpn, psn, rkey, largest;
};

static struct mrc_cq *sends, *receives;
static struct mrc_qp *qp;
static struct ibv_mr *mr;
static struct end ours, theirs;
static unsigned char *memory; /* what is written or written to, then the byte that signals */

static void check(int good, const char *what)
{
	if (!good) {
		perror(what);
		exit(1);
	}
}

static int meet(int port, const char *host)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_ANY)}};
	int one = 1, link = socket(AF_INET, SOCK_STREAM, 0);

	if (!host) {
		setsockopt(link, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
		check(!bind(link, (void *)&address, sizeof address) && !listen(link, 1), "listen");
		return accept(link, NULL, NULL);
	}
	check(inet_aton(host, &address.sin_addr), "inet_aton");
	while (connect(link, (void *)&address, sizeof address)) {
		close(link);
		link = socket(AF_INET, SOCK_STREAM, 0);
		usleep(50000);
	}
	return link;
}

static void swap(int link, const void *mine, void *other, size_t length)
{
	check(write(link, mine, length) == (ssize_t)length, "write");
	check(recv(link, other, length, MSG_WAITALL) == (ssize_t)length, "the peer ended");
}

static void open_all(const char *profile)
{
	struct ibv_context *context = ibv_open_device(ibv_get_device_list(NULL)[0]);
	struct mrc_context_attr none = {0};
	struct mrc_device_attr device;
	int supported;

	check(context && !mrc_query_device(context, &device, &supported) && supported, "mrc_query_device");
	struct mrc_context *mrc = mrc_create_context(context, &none);
	struct ibv_pd *pd = ibv_alloc_pd(context);

	check(mrc && pd, "mrc_create_context");
	sends = mrc_create_cq(mrc, 2 * DEPTH, NULL, NULL, 0), receives = mrc_create_cq(mrc, 2 * DEPTH, NULL, NULL, 0);
	struct mrc_qp_init_attr attr = {.send_cq = sends, .recv_cq = receives, .pd = pd, .cap = {DEPTH, 1, 1, 1, 0}};

	qp = mrc_create_qp(mrc, &attr);
	memory = calloc(1, LARGEST + 1);
	mr = ibv_reg_mr(
		pd, memory, LARGEST + 1, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_RELAXED_ORDERING);
	check(qp && mr, "mrc_create_qp");
	struct mrc_qp_hint_init_attr hint = {.attr = {.num_qps_per_peer = 1, .num_send_peers = 1}};
	struct mrc_qp_attr with = {.qp_hint = mrc_create_qp_hint(mrc, &hint), .profile = {(uint64_t)atoi(profile ? profile : "0"), 0}};
	int mask = MRC_QP_HINT | (profile ? MRC_QP_EV_PROFILE_ID : 0);
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};

	check(!mrc_modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, &with, mask),
		"INIT");
	ours = (struct end){.addr = (uintptr_t)memory, .psn = 4711, .rkey = mr->rkey};
	check(!mrc_get_qpn(qp, &ours.qpn) && !ibv_query_gid(context, 1, 3, &ours.gid), "ibv_query_gid");
}

static void bring_to_rts(void)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_4096, .dest_qp_num = theirs.qpn, .rq_psn = theirs.psn};
	struct mrc_qp_attr none = {0};

	attr.ah_attr.is_global = attr.ah_attr.port_num = 1, attr.ah_attr.grh.sgid_index = 3;
	attr.ah_attr.grh.dgid = theirs.gid;
	check(!mrc_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_PATH_MTU, &none, 0), "RTR");
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .sq_psn = ours.psn, .timeout = 7, .retry_cnt = 14, .rnr_retry = 14};
	check(!mrc_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_TIMEOUT, &none, 0),
		"RTS");
}

static unsigned char byte(uint32_t size, uint32_t at) { return (unsigned char)(at * 31 + at / 251 + size * 17 + 1); }

static struct ibv_wc completion(struct mrc_cq *cq)
{
	struct ibv_wc done;
	int found;

	for (unsigned polls = 0; !(found = mrc_poll_cq(cq, 1, &done)); polls++)
		if (polls > AT_ONCE)
			usleep(100);
	check(found == 1, "mrc_poll_cq");
	if (done.status != IBV_WC_SUCCESS) {
		fprintf(stderr, "wr_id %llu: %s\n", (unsigned long long)done.wr_id, ibv_wc_status_str(done.status));
		exit(1);
	}
	return done;
}

static void post(uint64_t wr_id, uint32_t from, uint32_t length, int signaled, uint32_t immediate)
{
	struct ibv_sge piece = {(uintptr_t)memory + from, length, mr->lkey};
	struct ibv_send_wr *bad, wr = {.wr_id = wr_id, .sg_list = &piece, .num_sge = 1, .imm_data = htonl(immediate),
		.opcode = immediate ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE, .send_flags = signaled ? IBV_SEND_SIGNALED : 0,
		.wr.rdma = {theirs.addr + from, theirs.rkey}};

	check(!mrc_post_send(qp, &wr, &bad), "mrc_post_send");
}

static void send_size(uint32_t size, unsigned writes)
{
	unsigned completions = 0, pause = getenv("PAUSE_US") ? (unsigned)atoi(getenv("PAUSE_US")) : 0;

	for (uint32_t at = 0; at < size; at++)
		memory[at] = byte(size, at);
	memory[LARGEST] = SIGNAL;
	for (unsigned each = 0; each < ONE_BY_ONE; each++)
		post(each, 0, size, 1, 0), check(completion(sends).wr_id == each, "wr_id");
	for (uint64_t posted = 0, ended = 0; ended < writes;) {
		for (; posted < writes && posted < ended + DEPTH; posted++)
			post(posted, 0, size, posted % SIGNALED_EVERY == SIGNALED_EVERY - 1 || posted == writes - 1, 0);
		/* What was signaled last tells of all before it. */
		ended = completion(sends).wr_id + 1;
		completions++;
		if (pause)
			usleep(pause);
	}
	post(~(uint64_t)0, LARGEST, 1, 1, size), check(completion(sends).wr_id == ~(uint64_t)0, "wr_id of the signal");
	printf("%u bytes, %u writes, %u completions\n", size, writes, completions);
}

static unsigned receive_size(uint32_t size)
{
	struct ibv_wc done = completion(receives);
	unsigned wrong = done.byte_len != 1 || ntohl(done.imm_data) != size || done.opcode != IBV_WC_RECV_RDMA_WITH_IMM;

	for (uint32_t at = 0; at < LARGEST; at++)
		wrong += memory[at] != (at < size ? byte(size, at) : 0);
	return wrong + (memory[LARGEST] != SIGNAL);
}

int main(int count, char **arguments)
{
	const char *host = count > 4 ? arguments[2] : NULL;
	unsigned wrong = 0, told;

	check(count > 1, "mrc_bench PORT [HOST LARGEST WRITES]");
	open_all(count > 5 ? arguments[5] : NULL);
	ours.largest = host ? (uint32_t)atoi(arguments[3]) : 0;
	int link = meet(atoi(arguments[1]), host);

	swap(link, &ours, &theirs, sizeof ours);
	bring_to_rts();
	for (uint32_t size = 1; size <= (host ? ours.largest : theirs.largest); size *= 2) {
		struct ibv_recv_wr *bad, wr = {.wr_id = size};

		if (!host)
			check(!mrc_post_recv(qp, &wr, &bad), "mrc_post_recv");
		swap(link, &wrong, &told, sizeof wrong); /* both are ready, and the receiver has looked at what was before */
		if (host)
			send_size(size, (unsigned)atoi(arguments[4]));
		else
			wrong += receive_size(size);
	}
	swap(link, &wrong, &told, sizeof wrong);
	printf("%u bytes wrong\n", host ? told : wrong);
	check(!mrc_destroy_qp(qp) && !mrc_destroy_cq(sends) && !mrc_destroy_cq(receives), "mrc_destroy_qp");
	return (host ? told : wrong) != 0;
}
