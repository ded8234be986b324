/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writes into the memory of another process, over every path there is, through MRC's own interface.
 *
 *   cc mrc_write.c $(mrc capi pkg-config) -o mrc_write
 *   eval "$(mrc capi env)"
 *   MRC_ADDRESSES=127.0.0.2 ./mrc_write 7001 &              waits to be written to
 *   MRC_ADDRESSES=127.0.0.3 ./mrc_write 7001 127.0.0.1      writes
 *
 * The device, its GID, the protection domain and the memory region are libibverbs'; write.c shows the same with libibverbs
 * alone. Attributes of MRC that both ends have to agree on, how far ahead the peer may send for one, are constants here.
 */
#include <arpa/inet.h>
#include <mrc.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define LENGTH (1 << 20)
#define NUMBER 0x1234 /* the immediate */
#define AHEAD 16 /* MPR: times 128 PSNs */
#define IMMEDIATES 4 /* writes with immediate in flight */

struct end {
	union ibv_gid gid;
	uint64_t addr;
	uint32_t qpn, psn, rkey, mtu;
};

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

static int meet(const char *port, const char *host)
{
	struct addrinfo *address, wanted = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
	int one = 1, link = socket(AF_INET, SOCK_STREAM, 0), error = getaddrinfo(host, port, &wanted, &address);

	if (error) {
		fprintf(stderr, "%s: %s\n", host ? host : port, gai_strerror(error));
		exit(1);
	}
	if (!host) {
		setsockopt(link, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
		check(!bind(link, address->ai_addr, address->ai_addrlen) && !listen(link, 1), "listen");
		link = accept(link, NULL, NULL);
	} else {
		while (connect(link, address->ai_addr, address->ai_addrlen)) {
			close(link);
			link = socket(AF_INET, SOCK_STREAM, 0);
			usleep(50000);
		}
	}
	freeaddrinfo(address);
	return link;
}

static void swap(int link, const void *ours, void *theirs, size_t length)
{
	check(write(link, ours, length) == (ssize_t)length, "write");
	ssize_t came = recv(link, theirs, length, MSG_WAITALL);

	check(came >= 0, "recv");
	expect(came == (ssize_t)length, "the peer ended");
}

static void bring_to_rts(struct mrc_qp *qp, struct mrc_qp_hint *hint, const struct end *ours, const struct end *theirs)
{
	/* On the way to INIT also MRC_QP_EV_PROFILE_ID and MRC_QP_CC_PROFILE_ID, for what a controller loaded. */
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT};
	struct mrc_qp_attr expects = {.qp_hint = hint};
	struct ibv_qp_attr rtr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = ours->mtu < theirs->mtu ? ours->mtu : theirs->mtu, /* the same at both ends */
		.dest_qp_num = theirs->qpn,
		.rq_psn = theirs->psn,
		.ah_attr = {.grh = {.dgid = theirs->gid}, .is_global = 1, .port_num = 1},
	};
	struct mrc_qp_attr grants = {.mpr = {.mpr_dest = AHEAD}, .wimm = {.max_wimm_dest = IMMEDIATES}};
	struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS, .sq_psn = ours->psn};
	struct mrc_qp_attr sends = {.mpr = {.mpr = AHEAD}, .wimm = {.max_wimm = IMMEDIATES}, .timeout = 14, .retry = {7, 7}};

	check(!mrc_modify_qp(qp, &init, IBV_QP_STATE, &expects, MRC_QP_HINT), "INIT");
	check(!mrc_modify_qp(qp, &rtr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN, &grants,
		MRC_QP_MPR_DEST | MRC_QP_MAX_WIMM_DEST), "RTR");
	check(!mrc_modify_qp(qp, &rts, IBV_QP_STATE | IBV_QP_SQ_PSN, &sends,
		MRC_QP_MPR | MRC_QP_MAX_WIMM | MRC_QP_TIMEOUT | MRC_QP_RETRY_CNT), "RTS");
}

static struct ibv_wc completion(struct mrc_cq *cq)
{
	struct ibv_wc done;
	int found;

	while (!(found = mrc_poll_cq(cq, 1, &done)))
		;
	check(found == 1, "mrc_poll_cq");
	printf("wr_id %llu: %s\n", (unsigned long long)done.wr_id, ibv_wc_status_str(done.status));
	return done;
}

int main(int count, char **arguments)
{
	static unsigned char memory[LENGTH];
	const char *host = count > 2 ? arguments[2] : NULL;
	struct mrc_device_attr device;
	int supported, wrong = 0;

	expect(count > 1, "usage: mrc_write PORT [HOST]");
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = ibv_open_device(list[0]);
	check(context != NULL, "ibv_open_device");
	check(!mrc_query_device(context, &device, &supported) && supported, "a device with MRC");
	struct mrc_context_attr version = {.mrc_api_version_used = MRC_API_VER_USED};
	struct mrc_context *mrc = mrc_create_context(context, &version);
	check(mrc != NULL, "mrc_create_context");

	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, LENGTH, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	struct mrc_cq *cq = mrc_create_cq(mrc, 16, NULL, NULL, 0);
	struct mrc_qp_init_attr attr = {.send_cq = cq, .recv_cq = cq, .pd = pd, .sq_sig_all = 1, .cap = {16, 16, 1, 1, 0}};
	struct mrc_qp *qp = mrc_create_qp(mrc, &attr);
	struct mrc_qp_hint_init_attr one_peer = {.attr = {.num_qps_per_peer = 1, .num_send_peers = 1}};
	struct mrc_qp_hint *hint = mrc_create_qp_hint(mrc, &one_peer);
	check(pd && mr && cq && qp && hint, "mrc_create_qp");

	struct ibv_port_attr port;
	check(!(errno = ibv_query_port(context, 1, &port)), "ibv_query_port");
	struct end theirs, ours = {.addr = (uintptr_t)memory, .psn = 1, .rkey = mr->rkey, .mtu = port.active_mtu};
	char ready;
	check(!mrc_get_qpn(qp, &ours.qpn) && !ibv_query_gid(context, 1, 0, &ours.gid), "ibv_query_gid");
	int link = meet(arguments[1], host);
	swap(link, &ours, &theirs, sizeof ours);
	bring_to_rts(qp, hint, &ours, &theirs);
	if (host) {
		swap(link, "r", &ready, 1);
		for (int each = 0; each < LENGTH; each++)
			memory[each] = (unsigned char)(each * 7);
		struct ibv_sge piece = {(uintptr_t)memory, LENGTH, mr->lkey};
		struct ibv_send_wr *bad, wr = {.wr_id = 1, .sg_list = &piece, .num_sge = 1,
			.opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .imm_data = htonl(NUMBER), .wr.rdma = {theirs.addr, theirs.rkey}};
		check(!mrc_post_send(qp, &wr, &bad), "mrc_post_send");
		wrong = completion(cq).status != IBV_WC_SUCCESS;
	} else {
		struct ibv_recv_wr *bad, wr = {.wr_id = 2};
		check(!mrc_post_recv(qp, &wr, &bad), "mrc_post_recv");
		swap(link, "r", &ready, 1);
		struct ibv_wc done = completion(cq);
		for (int each = 0; each < LENGTH; each++)
			wrong += memory[each] != (unsigned char)(each * 7);
		wrong += done.status != IBV_WC_SUCCESS || ntohl(done.imm_data) != NUMBER;
		printf("%u bytes, immediate %#x, %d wrong\n", done.byte_len, ntohl(done.imm_data), wrong);
	}
	check(!mrc_destroy_qp(qp) && !mrc_destroy_cq(cq) && !mrc_destroy_qp_hint(hint), "mrc_destroy_qp");
	check(!(errno = ibv_dereg_mr(mr)) && !(errno = ibv_dealloc_pd(pd)), "ibv_dealloc_pd");
	check(!mrc_destroy_context(mrc) && !(errno = ibv_close_device(context)), "ibv_close_device");
	ibv_free_device_list(list);
	return wrong != 0;
}
