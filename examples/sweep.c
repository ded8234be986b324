/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A benchmark over libibverbs: writes of 1 byte to 64 MiB, one completion for each 64 writes, a write with immediate at
 * the end of each size, and every byte compared at the receiver.
 *
 *   cc -O2 sweep.c $(mrc capi pkg-config) -o sweep
 *   mrc lab exec h1 -- ./sweep 7001                    receives
 *   mrc lab exec h0 -- ./sweep 7001 h1 [LARGEST [WRITES]]
 *                                                      writes, and prints a line for each size; at most WRITES of each
 */
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define LARGEST (64u << 20)
#define SIGNALED_EVERY 64
#define DEPTH 128
#define MOST_WRITES 1024
#define MOST_BYTES (256ull << 20) /* of one size */

struct end {
	union ibv_gid gid;
	uint64_t addr;
	uint32_t qpn, rkey, largest;
};

static struct ibv_cq *cq;
static unsigned char *memory;
static unsigned most_writes = MOST_WRITES;

static void check(int good, const char *what)
{
	if (!good) {
		perror(what);
		exit(1);
	}
}

/* The same for what errno says nothing of. */
static void expect(int good, const char *what)
{
	if (!good) {
		fprintf(stderr, "%s\n", what);
		exit(1);
	}
}

static void must(int error, const char *what)
{
	errno = error;
	check(!error, what);
}

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static int meet(const char *port, const char *host)
{
	struct addrinfo *found, hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = host ? 0 : AI_PASSIVE};
	int one = 1, link, error;

	if (!host)
		hints.ai_family = AF_INET6; /* IPv4 comes to it as well */
	if ((error = getaddrinfo(host, port, &hints, &found))) {
		/* Its errors are numbers of their own, not of errno. */
		fprintf(stderr, "%s: %s\n", host ? host : port, gai_strerror(error));
		exit(1);
	}
	link = socket(found->ai_family, SOCK_STREAM, 0);
	if (!host) {
		setsockopt(link, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
		check(!bind(link, found->ai_addr, found->ai_addrlen) && !listen(link, 1), "listen");
		return accept(link, NULL, NULL);
	}
	while (connect(link, found->ai_addr, found->ai_addrlen)) {
		close(link);
		usleep(50000);
		link = socket(found->ai_family, SOCK_STREAM, 0);
	}
	return link;
}

static void swap(int link, const void *ours, void *theirs, size_t length)
{
	check(write(link, ours, length) == (ssize_t)length, "write");
	ssize_t came = recv(link, theirs, length, MSG_WAITALL);

	check(came >= 0, "recv");
	expect(came == (ssize_t)length, "the peer ended");
}

static void bring_to_rts(struct ibv_qp *qp, const struct end *theirs)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};

	must(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), "INIT");
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_4096, .dest_qp_num = theirs->qpn};
	attr.ah_attr.grh.dgid = theirs->gid;
	must(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN), "RTR");
	attr.qp_state = IBV_QPS_RTS;
	must(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), "RTS");
}

/* Byte `at` of size `size`: other bytes in each size, so that what is left of the one before is seen. */
static unsigned char byte(uint32_t size, uint32_t at) { return (unsigned char)(at * 31 + at / 251 + size * 17 + 1); }

static struct ibv_wc completion(void)
{
	struct ibv_wc done;
	int found;

	while (!(found = ibv_poll_cq(cq, 1, &done)))
		;
	errno = -found; /* of a negative number */
	check(found == 1, "ibv_poll_cq");
	if (done.status != IBV_WC_SUCCESS) {
		fprintf(stderr, "wr_id %llu: %s\n", (unsigned long long)done.wr_id, ibv_wc_status_str(done.status));
		exit(1);
	}
	return done;
}

static unsigned writes_of(uint32_t size)
{
	unsigned long long fitting = MOST_BYTES / size;

	return fitting > most_writes ? most_writes : (unsigned)fitting;
}

static void send_size(struct ibv_qp *qp, const struct ibv_mr *mr, const struct end *theirs, uint32_t size)
{
	struct ibv_sge piece = {(uintptr_t)memory, size, mr->lkey};
	struct ibv_send_wr *bad, wr = {.sg_list = &piece, .num_sge = 1, .wr.rdma = {theirs->addr, theirs->rkey}};
	unsigned count = writes_of(size), ended = 0;

	for (uint32_t at = 0; at < size; at++)
		memory[at] = byte(size, at);
	double began = seconds();

	for (unsigned each = 1; each <= count; each++) {
		int last = each == count;

		/* What was signaled last tells of all before it. */
		while (each - ended > DEPTH)
			ended = (unsigned)completion().wr_id;
		wr.wr_id = each;
		wr.opcode = last ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
		wr.imm_data = htonl(size);
		wr.send_flags = last || each % SIGNALED_EVERY == 0 ? IBV_SEND_SIGNALED : 0;
		must(ibv_post_send(qp, &wr, &bad), "ibv_post_send");
	}
	while (ended < count)
		ended = (unsigned)completion().wr_id;
	double took = seconds() - began;

	printf("%10u bytes %6u writes %10.3f Gbit/s %9.3f Kmsg/s\n", size, count, size * 8e-9 * count / took, count / took / 1e3);
	fflush(stdout);
}

static unsigned receive_size(uint32_t size)
{
	struct ibv_wc done = completion();
	unsigned wrong = done.byte_len != size || ntohl(done.imm_data) != size;

	for (uint32_t at = 0; at < size; at++)
		wrong += memory[at] != byte(size, at);
	return wrong;
}

int main(int count, char **arguments)
{
	const char *host = count > 2 ? arguments[2] : NULL;
	struct end theirs, ours = {.largest = count > 3 ? (uint32_t)atoi(arguments[3]) : LARGEST};
	unsigned wrong = 0, told;

	expect(count > 1, "usage: sweep PORT [HOST [LARGEST [WRITES]]]");
	if (count > 4)
		most_writes = (unsigned)atoi(arguments[4]);
	expect(most_writes > 0, "WRITES is 1 or more");
	struct ibv_context *context = ibv_open_device(ibv_get_device_list(NULL)[0]);

	check(context != NULL, "ibv_open_device");
	memory = calloc(1, LARGEST);
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, LARGEST, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);

	cq = ibv_create_cq(context, 2 * DEPTH, NULL, NULL, 0);
	struct ibv_qp_init_attr attr = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .cap = {DEPTH, DEPTH, 1, 1, 0}};
	struct ibv_qp *qp = ibv_create_qp(pd, &attr);

	check(mr && qp, "ibv_create_qp");
	ours.addr = (uintptr_t)memory, ours.qpn = qp->qp_num, ours.rkey = mr->rkey;
	ibv_query_gid(context, 1, 0, &ours.gid);
	int link = meet(arguments[1], host);

	swap(link, &ours, &theirs, sizeof ours);
	bring_to_rts(qp, &theirs);
	uint32_t largest = host ? ours.largest : theirs.largest;

	for (uint32_t size = 1; size && size <= largest; size *= 2) {
		struct ibv_recv_wr *bad, wr = {.wr_id = size};

		if (!host)
			must(ibv_post_recv(qp, &wr, &bad), "ibv_post_recv");
		swap(link, &wrong, &told, sizeof wrong); /* both are ready, and the receiver has looked at what was before */
		if (host)
			send_size(qp, mr, &theirs, size);
		else
			wrong += receive_size(size);
	}
	swap(link, &wrong, &told, sizeof wrong);
	if (host)
		printf("%u bytes wrong\n", told);
	ibv_destroy_qp(qp);
	return (host ? told : wrong) != 0;
}
