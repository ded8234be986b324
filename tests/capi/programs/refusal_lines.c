/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Each refusal of the library's own table (refusals.h) is provoked, with structures that are garbage but for what is
 * looked at: the errno is the table's. Before each, stderr has a line "-- NAME", and before the same again "-- again".
 * `table` as an argument prints the table.
 */
#include "mrc_pair.h"
#include "refusals.h"

#include <errno.h>
#include <mrc_ctl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

/* What rdma-core's headers have and ours has not. */
int _ibv_query_gid_ex(
	struct ibv_context *context, uint32_t port, uint32_t index, struct ibv_gid_entry *entry, uint32_t flags, size_t size);
long _ibv_query_gid_table(
	struct ibv_context *context, struct ibv_gid_entry *entries, size_t most, uint32_t flags, size_t size);
int ibv_query_gid_type(struct ibv_context *context, uint8_t port, unsigned index, unsigned *type);

#define ROW(name, number, told, format) {#name, number, told, format},
static const struct {
	const char *name;
	int number;
	enum told told;
	const char *format;
} table[] = {MRC_REFUSALS(ROW)};

/* A call that fails: what it returns, and the errno that it returns or sets. `number` is the table's. */
#define REFUSED_BY(name, wanted, call)                                                                                 \
	({                                                                                                             \
		int number = table[REFUSED_##name].number, once = table[REFUSED_##name].told == ONCE;                  \
		fprintf(stderr, "-- %s\n", #name), errno = 0;                                                          \
		long long got_ = (long long)(call);                                                                   \
		check(__LINE__, #name, got_, (wanted));                                                               \
		CHECK(got_ == number || got_ == -number || errno == number, 1);                                      \
		fprintf(stderr, "-- again\n");                                                                         \
		for (int each = 0; once && each < 3; each++)                                                           \
			(void)(call);                                                                                  \
	})
#define RETURNS_IT(name, call) REFUSED_BY(name, number, call)
#define RETURNS_NEGATIVE(name, call) REFUSED_BY(name, -number, call)
#define MINUS_ONE(name, call) REFUSED_BY(name, -1, call)
#define NOTHING(name, call) REFUSED_BY(name, 0, (uintptr_t)(call))

static unsigned char anything[2048];

#define POISONED(type, name)                                                                                           \
	type name;                                                                                                     \
	memset(&name, 0xa5, sizeof name)

static void of_devices(struct ibv_context *other)
{
	POISONED(union ibv_gid, gid);
	POISONED(struct ibv_gid_entry, entry);
	POISONED(struct ibv_device_attr, device);
	POISONED(struct ibv_port_attr, port);
	POISONED(struct ibv_async_event, event);
	struct mrc_context *over = mrc_create_context(other, NULL);
	uint16_t pkey;
	unsigned type;

	NOTHING(NO_DEVICE, ibv_open_device((void *)anything)), NOTHING(NO_DEVICE, ibv_get_device_name((void *)anything));
	RETURNS_IT(NO_SUCH, ibv_query_device((void *)(anything + 1024), &device));
	RETURNS_IT(NO_PLACE, ibv_query_device(context, NULL)), RETURNS_IT(NO_PLACE, (ibv_query_port)(context, 1, NULL));
	MINUS_ONE(NO_PLACE, ibv_query_gid(context, 1, 0, NULL)), MINUS_ONE(NO_PLACE, ibv_get_async_event(context, NULL));
	RETURNS_IT(NO_SUCH, (ibv_query_port)((void *)(anything + 1024), 1, &port));
	MINUS_ONE(NO_SUCH, ibv_get_async_event((void *)(anything + 1024), &event));
	MINUS_ONE(NO_PORT, ibv_query_gid(context, 2, 0, &gid)), MINUS_ONE(NO_PORT, ibv_query_pkey(context, 0, 0, &pkey));
	RETURNS_IT(NO_PORT, ibv_query_gid_type(context, 2, 0, &type));
	MINUS_ONE(NO_GID, ibv_query_gid(context, 1, 4, &gid)), MINUS_ONE(NO_PKEY, ibv_query_pkey(context, 1, 1, &pkey));
	RETURNS_IT(NO_FLAGS, _ibv_query_gid_ex(context, 1, 0, &entry, 8, sizeof entry));
	RETURNS_NEGATIVE(TABLE_SIZE, _ibv_query_gid_table(context, &entry, 0, 0, sizeof entry));
	RETURNS_IT(CONTEXT_IN_USE, ibv_close_device(other)), CHECK(mrc_destroy_context(over), 0);
}

static void of_regions_and_queues(struct ibv_context *other)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(context), *foreign = ibv_create_comp_channel(other);
	struct ibv_cq *quiet = ibv_create_cq(context, 4, NULL, NULL, 0), *cq = ibv_create_cq(context, 4, NULL, channel, 0);
	struct ibv_cq *found;
	void *about;

	NOTHING(MR_LENGTH, ibv_reg_mr(pd, memory, 0, 1)), NOTHING(MR_MEMORY, ibv_reg_mr(pd, NULL, 8, 1));
	NOTHING(CQ_SIZE, ibv_create_cq(context, 0, NULL, NULL, 0)), NOTHING(CQ_VECTOR, ibv_create_cq(context, 4, NULL, NULL, 1));
	NOTHING(OTHER_CONTEXT, ibv_create_cq(context, 4, NULL, foreign, 0));
	NOTHING(NO_SUCH, ibv_create_cq(context, 4, NULL, (void *)anything, 0));
	RETURNS_IT(CHANNEL_IN_USE, ibv_destroy_comp_channel(channel)), RETURNS_IT(CQ_SILENT, ibv_req_notify_cq(quiet, 0));
	MINUS_ONE(NO_PLACE, ibv_get_cq_event(channel, NULL, &about)), MINUS_ONE(NO_PLACE, ibv_get_cq_event(channel, &found, NULL));
	MINUS_ONE(NO_SUCH_POSTED, mrc_poll_cq(NULL, 1, (void *)anything));
	MINUS_ONE(NO_PLACE_POLLED, mrc_poll_cq((struct mrc_cq *)cq, 1, NULL));
	CHECK(ibv_destroy_cq(quiet), 0), CHECK(ibv_destroy_cq(cq), 0), RETURNS_IT(NO_SUCH, ibv_destroy_cq(cq));
	CHECK(ibv_destroy_comp_channel(channel), 0), CHECK(ibv_destroy_comp_channel(foreign), 0);
	RETURNS_IT(NO_SUCH, ibv_dereg_mr((void *)pd)), RETURNS_IT(NO_SUCH, ibv_dealloc_pd((void *)mr));
}

/* What a QP is made of. */
static void of_new_qps(struct ibv_context *other, struct mrc_cq *cq, struct mrc_cq *events)
{
	POISONED(struct ibv_qp_init_attr, init);
	POISONED(struct mrc_qp_init_attr, mrc_init);
	struct ibv_pd *foreign = ibv_alloc_pd(other);
	struct ibv_qp_cap good = {4, 4, 1, 1, 0};

	NOTHING(NO_PLACE, ibv_create_qp(pd, NULL)), NOTHING(NO_PLACE, mrc_create_qp(mrc, NULL));
	init.send_cq = init.recv_cq = (struct ibv_cq *)cq, init.qp_type = IBV_QPT_RC, init.srq = NULL, init.cap = good;
	NOTHING(OTHER_CONTEXT, ibv_create_qp(foreign, &init));
	init.cap.max_send_wr = (1u << 20) + 1;
	NOTHING(QP_ROOM, ibv_create_qp(pd, &init));
	init.cap = good, init.cap.max_inline_data = 4097;
	NOTHING(QP_INLINE, ibv_create_qp(pd, &init));
	init.cap = good, init.cap.max_recv_sge = 2;
	NOTHING(QP_SGES, ibv_create_qp(pd, &init));
	init.cap = good, init.recv_cq = (struct ibv_cq *)events;
	NOTHING(CQ_OF_EVENTS, ibv_create_qp(pd, &init));
	init.recv_cq = (void *)anything;
	NOTHING(NO_SUCH, ibv_create_qp(pd, &init));
	mrc_init.pd = foreign;
	NOTHING(OTHER_CONTEXT, mrc_create_qp(mrc, &mrc_init));
	CHECK(ibv_dealloc_pd(foreign), 0);
}

/* States and masks. Nothing is read but what the mask names. */
static void of_states(struct mrc_qp *qp, struct mrc_context *of_hint)
{
	POISONED(struct ibv_qp_attr, attr);
	POISONED(struct mrc_qp_attr, mrc_attr);
	struct ibv_qp *ibv = (struct ibv_qp *)qp;
	struct mrc_qp_hint_init_attr none = {0};
	struct mrc_qp_hint *foreign = mrc_create_qp_hint(of_hint, &none);

	RETURNS_IT(NO_PLACE, ibv_modify_qp(ibv, NULL, IBV_QP_STATE)), RETURNS_IT(NO_SUCH, ibv_modify_qp((void *)pd, &attr, IBV_QP_STATE));
	attr.qp_state = IBV_QPS_SQD;
	RETURNS_IT(NO_STATE, ibv_modify_qp(ibv, &attr, IBV_QP_STATE));
	attr.qp_state = IBV_QPS_INIT;
	RETURNS_IT(MASK_FOREIGN, ibv_modify_qp(ibv, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_QKEY));
	attr.cur_qp_state = IBV_QPS_RTS;
	RETURNS_IT(OTHER_STATE, ibv_modify_qp(ibv, &attr, IBV_QP_STATE | IBV_QP_CUR_STATE));
	RETURNS_IT(MRC_MASK_FOREIGN, mrc_modify_qp(qp, &attr, IBV_QP_STATE, &mrc_attr, 1 << 20));
	RETURNS_IT(NO_PLACE, mrc_modify_qp(qp, &attr, IBV_QP_STATE, NULL, MRC_QP_HINT));
	RETURNS_IT(VENDOR_CFG, mrc_modify_qp(qp, &attr, IBV_QP_STATE, &mrc_attr, MRC_QP_VENDOR_CFG));
	RETURNS_IT(QP_CAP, mrc_modify_qp(qp, &attr, IBV_QP_STATE, &mrc_attr, MRC_QP_CAP));
	RETURNS_IT(PROFILE_NUMBER, mrc_modify_qp(qp, &attr, IBV_QP_STATE, &mrc_attr, MRC_QP_EV_PROFILE_ID));
	mrc_attr.qp_hint = foreign;
	RETURNS_IT(OTHER_CONTEXT, mrc_modify_qp(qp, &attr, IBV_QP_STATE, &mrc_attr, MRC_QP_HINT));
	RETURNS_IT(NO_PLACE, mrc_query_qp(qp, NULL, 1, &mrc_attr, 0, NULL));
	RETURNS_IT(MRC_MASK_FOREIGN, mrc_query_qp(qp, &attr, 1, &mrc_attr, 1 << 20, NULL));
	CHECK(mrc_destroy_qp_hint(foreign), 0), CHECK(mrc_to_init(qp, NULL, 0), 0);
	attr.qp_state = IBV_QPS_RTR;
	RETURNS_IT(MASK_MISSING, ibv_modify_qp(ibv, &attr, IBV_QP_STATE | IBV_QP_AV));
}

static int send_one(struct mrc_qp *qp, int pieces, struct ibv_sge *piece, unsigned flags, uint64_t remote)
{
	POISONED(struct ibv_send_wr, wr);
	struct ibv_send_wr *bad = NULL;
	int error;

	wr.next = NULL, wr.opcode = IBV_WR_RDMA_WRITE, wr.num_sge = pieces, wr.sg_list = piece, wr.send_flags = flags;
	wr.wr.rdma.remote_addr = remote;
	error = mrc_post_send(qp, &wr, &bad);
	CHECK(bad == &wr, 1);
	return error;
}

/* In RTS; what is refused is posted nowhere. */
static void of_posting(struct mrc_qp *qp, struct mrc_qp *fresh)
{
	struct ibv_sge piece = {(uintptr_t)memory, 8, mr->lkey}, none = {(uintptr_t)memory, 8, mr->lkey + 1};
	struct ibv_sge huge = {(uintptr_t)memory, 0x80000000u, mr->lkey}, much = {(uintptr_t)memory, 65, mr->lkey};
	struct mrc_qp_attr mrc_attr = {0};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS};

	RETURNS_IT(MRC_IN_RTS, mrc_modify_qp(qp, &attr, IBV_QP_STATE, &mrc_attr, MRC_QP_MPR));
	RETURNS_IT(POST_STATE, send_one(fresh, 1, &piece, 0, 0)), RETURNS_IT(POST_SGES, send_one(qp, 2, &piece, 0, 0));
	RETURNS_IT(POST_NO_LIST, send_one(qp, 1, NULL, 0, 0)), RETURNS_IT(POST_LENGTH, send_one(qp, 1, &huge, 0, 0));
	RETURNS_IT(POST_ADDRESS, send_one(qp, 1, &piece, 0, (uint64_t)1 << 62));
	RETURNS_IT(POST_INLINE, send_one(qp, 1, &much, IBV_SEND_INLINE, 0)), RETURNS_IT(POST_REGION, send_one(qp, 1, &none, 0, 0));
	CHECK(mrc_post_recv(fresh, &(struct ibv_recv_wr){.num_sge = 2}, NULL), -1);
}

/* What is in use, and a queue that is too small. */
static void of_use(struct mrc_qp *left, struct mrc_qp *right, struct mrc_cq *cq, struct mrc_cq *small)
{
	struct ibv_sge piece = {(uintptr_t)memory, 64, mr->lkey};
	struct ibv_send_wr *bad, waits = {.opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .sg_list = &piece, .num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED, .wr.rdma = {(uintptr_t)memory + ROOM, mr->rkey}};
	struct ibv_wc wc;
	struct ibv_async_event event;

	CHECK(mrc_post_send(left, &waits, &bad), 0), RETURNS_IT(MR_IN_USE, ibv_dereg_mr(mr)), CHECK(mrc_receive(right, 5), 0);
	CHECK(mrc_next(cq).status, IBV_WC_SUCCESS);
	RETURNS_IT(CQ_IN_USE, mrc_destroy_cq(cq)), MINUS_ONE(MRC_IN_USE, mrc_destroy_context(mrc));
	CHECK(mrc_next(small).status, IBV_WC_SUCCESS);
	for (int each = 0; each < 3; each++)
		CHECK(mrc_write(left, each, 8, IBV_SEND_SIGNALED), 0);
	CHECK(ibv_get_async_event(context, &event), 0), CHECK(event.event_type, IBV_EVENT_CQ_ERR), ibv_ack_async_event(&event);
	CHECK(mrc_next(small).status, IBV_WC_SUCCESS), CHECK(mrc_next(small).status, IBV_WC_SUCCESS);
	MINUS_ONE(CQ_OVERRUN, mrc_poll_cq(small, 1, &wc));
}

static void of_hints_and_contexts(struct mrc_qp *qp)
{
	POISONED(struct mrc_qp_hint_attr, attr);
	POISONED(struct mrc_device_attr, device);
	struct mrc_qp_hint_init_attr none = {0}, negative = {.attr = {.num_send_peers = -1}};
	struct mrc_qp_hint *hint = mrc_create_qp_hint(mrc, &none);
	struct mrc_qp_attr with = {.qp_hint = hint};
	struct mrc_context_attr newer = {.mrc_api_version_used = MRC_API_VER(1, 1, 0)};
	int supported = 5;

	NOTHING(NO_PLACE, mrc_create_qp_hint(mrc, NULL)), NOTHING(HINT_COUNTS, mrc_create_qp_hint(mrc, &negative));
	attr.num_send_peers = -1;
	MINUS_ONE(HINT_COUNTS, mrc_modify_qp_hint(hint, &attr, MRC_QP_HINT_NUM_SEND_PEERS));
	MINUS_ONE(HINT_MASK, mrc_query_qp_hint(hint, &attr, 1 << 20)), MINUS_ONE(NO_SUCH, mrc_query_qp_hint((void *)qp, &attr, 1));
	CHECK(mrc_to_init(qp, &with, MRC_QP_HINT), 0), MINUS_ONE(HINT_IN_USE, mrc_destroy_qp_hint(hint));
	NOTHING(API_VERSION, mrc_create_context(context, &newer)), NOTHING(NO_SUCH, mrc_create_context((void *)(anything + 1024), NULL));
	MINUS_ONE(NO_PLACE, mrc_query_device(context, NULL, &supported)), CHECK(supported, 0);
	MINUS_ONE(OTHER_CONTEXT, mrc_query_device_ex((void *)(anything + 1024), mrc, &device, &supported));
}

static void of_events(struct mrc_cq *cq, struct mrc_cq *events)
{
	POISONED(struct mrc_ctl_ev_event, event);
	POISONED(struct mrc_ctl_port_attr, port);
	struct ibv_wc wc;
	int answered = 7;

	MINUS_ONE(CQ_OF_EVENTS_POLLED, mrc_poll_cq(events, 1, &wc));
	RETURNS_NEGATIVE(CQ_OF_COMPLETIONS, mrc_ctl_poll_ev_event(cq, 1, &event));
	RETURNS_NEGATIVE(COUNT, mrc_ctl_poll_ev_event(events, -1, &event));
	MINUS_ONE(NO_SUCH, mrc_ctl_query_port((void *)cq, 1, &port, 1)), MINUS_ONE(NO_PLACE, mrc_ctl_query_port(mrc, 1, NULL, 1));
	MINUS_ONE(NO_PLACE, mrc_ctl_ep_batch_send_wait(mrc, 0, MRC_CTL_EP_OP_EV_PROBE, NULL, 1, 0, (void *)anything, &answered));
	CHECK(answered, 0);
}

/* What the system does not give: no memory, no descriptor, a child without threads. */
static void of_the_system(struct mrc_qp *qp)
{
	struct rlimit most, none;
	int status;

	getrlimit(RLIMIT_AS, &most), none = most, none.rlim_cur = 1 << 20;
	setrlimit(RLIMIT_AS, &none);
	NOTHING(NO_MEMORY, ibv_create_cq(context, 1 << 22, NULL, NULL, 0));
	setrlimit(RLIMIT_AS, &most), getrlimit(RLIMIT_NOFILE, &most), none = most, none.rlim_cur = 0;
	setrlimit(RLIMIT_NOFILE, &none);
	fprintf(stderr, "-- NO_DESCRIPTOR\n"), CHECK(ibv_create_comp_channel(context) == NULL && errno == EMFILE, 1);
	setrlimit(RLIMIT_NOFILE, &most);
	fflush(stdout);
	if (!fork()) {
		RETURNS_IT(FORKED, ibv_dereg_mr(mr)), CHECK(mrc_receive(qp, 1) == -1 && errno == EIO, 1);
		exit(wrong);
	}
	CHECK(wait(&status) > 0 && !status, 1);
}

/* As many QPs as there may be, and one more. */
static void of_many(struct mrc_cq *cq)
{
	static struct mrc_qp *many[4096];
	int count = 0;

	fprintf(stderr, "-- many\n");
	while (count < 4096 && (many[count] = mrc_made(cq, 1)))
		count++;
	CHECK(count > 4000, 1), CHECK(errno, ENOMEM), NOTHING(QP_TOO_MANY, mrc_made(cq, 1));
	while (count)
		CHECK(mrc_destroy_qp(many[--count]), 0);
}

int main(int count, char **arguments)
{
	if (count > 1) {
		for (int each = 0; each < REFUSALS; each++)
			printf("%s\t%d\t%s\n", table[each].name, table[each].told, table[each].format);
		return 0;
	}
	setbuf(stderr, NULL), memset(anything, 0xa5, sizeof anything);
	open_mrc();
	struct ibv_context *other = ibv_open_device(ibv_get_device_list(NULL)[0]);
	struct mrc_context *second = mrc_create_context(context, NULL);
	struct mrc_cq *cq = mrc_create_cq(mrc, 64, NULL, NULL, 0), *small = mrc_create_cq(mrc, 2, NULL, NULL, 0);
	struct mrc_cq *events = mrc_ctl_create_ev_event_cq(mrc, 4, NULL, NULL, 0);
	struct mrc_qp *fresh = mrc_made(cq, 4), *left = mrc_made(small, 8), *right = mrc_made(cq, 8), *hinted = mrc_made(cq, 4);

	of_devices(other), of_regions_and_queues(other), of_new_qps(other, cq, events), of_states(fresh, second);
	mrc_connect(left, right);
	of_posting(left, fresh), of_hints_and_contexts(hinted), of_events(cq, events), of_use(left, right, cq, small);
	of_the_system(right), of_many(cq);
	fprintf(stderr, "-- end\n");
	CHECK(mrc_destroy_qp(fresh), 0), CHECK(mrc_destroy_qp(hinted), 0), CHECK(mrc_destroy_qp(left), 0), CHECK(mrc_destroy_qp(right), 0);
	CHECK(mrc_destroy_cq(cq), 0), CHECK(mrc_destroy_cq(small), 0), CHECK(mrc_destroy_cq(events), 0);
	CHECK(mrc_destroy_context(second), 0), CHECK(ibv_close_device(other), 0);
	close_mrc();
	return wrong;
}
