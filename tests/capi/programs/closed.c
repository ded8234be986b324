/* SPDX-License-Identifier: BSD-2-Clause */
/* Every function with nothing, with what is destroyed and with what is something else: an errno, and never a crash. */
#include "pair.h"

#include <fcntl.h>
#include <sys/mman.h>

/* A function that returns a pointer, or -1, and sets errno. */
#define REFUSED_NULL(call) CHECK((errno = 0, (call) == NULL) && errno == EINVAL, 1)
#define REFUSED_MINUS_ONE(call) CHECK((errno = 0, (call) == -1) && errno == EINVAL, 1)

struct ibv_ece;
int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece);
int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece);

/* No context: NULL, one that is closed, memory with anything in it. */
static void no_context(struct ibv_context *bad)
{
	struct ibv_device_attr device;
	struct ibv_port_attr port;
	struct ibv_async_event event;
	union ibv_gid gid;
	uint16_t pkey;

	REFUSED_NULL(ibv_alloc_pd(bad)), REFUSED_NULL(ibv_create_cq(bad, 4, NULL, NULL, 0));
	REFUSED_NULL(ibv_create_comp_channel(bad));
	CHECK(ibv_query_device(bad, &device), EINVAL), CHECK((ibv_query_port)(bad, 1, &port), EINVAL);
	REFUSED_MINUS_ONE(ibv_query_gid(bad, 1, 0, &gid)), REFUSED_MINUS_ONE(ibv_query_pkey(bad, 1, 0, &pkey));
	REFUSED_MINUS_ONE(ibv_get_async_event(bad, &event)), CHECK(ibv_close_device(bad), EINVAL);
}

static void no_channel(struct ibv_comp_channel *bad)
{
	struct ibv_cq *found;
	void *about;

	REFUSED_MINUS_ONE(ibv_get_cq_event(bad, &found, &about)), CHECK(ibv_destroy_comp_channel(bad), EINVAL);
	if (bad)
		REFUSED_NULL(ibv_create_cq(context, 4, NULL, bad, 0));
}

static void no_qp(struct ibv_qp *bad)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT};
	struct ibv_qp_init_attr init;
	uint32_t ece[3];

	CHECK(ibv_modify_qp(bad, &attr, IBV_QP_STATE), EINVAL), CHECK(ibv_query_qp(bad, &attr, IBV_QP_STATE, &init), EINVAL);
	CHECK(ibv_query_ece(bad, (void *)ece), EINVAL), CHECK(ibv_set_ece(bad, (void *)ece), EINVAL);
	CHECK(ibv_destroy_qp(bad), EINVAL);
}

static void no_cq(struct ibv_cq *bad, struct ibv_cq *good)
{
	struct ibv_qp_init_attr attr = {.send_cq = bad, .recv_cq = good, .qp_type = IBV_QPT_RC};

	REFUSED_NULL(ibv_create_qp(pd, &attr));
	attr.send_cq = good, attr.recv_cq = bad;
	REFUSED_NULL(ibv_create_qp(pd, &attr));
	CHECK(ibv_destroy_cq(bad), EINVAL);
	ibv_ack_cq_events(bad, 1);
}

static void no_pd(struct ibv_pd *bad, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr attr = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC};

	REFUSED_NULL(ibv_create_qp(bad, &attr)), REFUSED_NULL(ibv_reg_mr(bad, memory, 8, IBV_ACCESS_LOCAL_WRITE));
	CHECK(ibv_dealloc_pd(bad), EINVAL);
}

/* NULL where something is to be told or to be told of. */
static void nothing(struct ibv_qp *qp, struct ibv_comp_channel *channel)
{
	struct ibv_cq *found;
	void *about;

	REFUSED_NULL(ibv_create_qp(pd, NULL)), REFUSED_NULL(ibv_get_device_name(NULL)), REFUSED_NULL(ibv_open_device(NULL));
	CHECK(ibv_modify_qp(qp, NULL, IBV_QP_STATE), EINVAL), CHECK(ibv_query_qp(qp, NULL, 0, NULL), EINVAL);
	CHECK(ibv_query_device(context, NULL), EINVAL), CHECK((ibv_query_port)(context, 1, NULL), EINVAL);
	REFUSED_MINUS_ONE(ibv_query_gid(context, 1, 0, NULL)), REFUSED_MINUS_ONE(ibv_query_pkey(context, 1, 0, NULL));
	REFUSED_MINUS_ONE(ibv_get_async_event(context, NULL)), REFUSED_MINUS_ONE(ibv_get_cq_event(channel, NULL, &about));
	REFUSED_MINUS_ONE(ibv_get_cq_event(channel, &found, NULL));
	CHECK(ibv_query_ece(qp, NULL), EINVAL), CHECK(ibv_set_ece(qp, NULL), EINVAL);
	ibv_free_device_list(NULL), ibv_ack_async_event(NULL);
}

/* Ports, indices and numbers that are not there; memory that may not be read or written; nothing to wait for. */
static void out_of_range(void)
{
	long page = sysconf(_SC_PAGESIZE);
	union ibv_gid gid;
	struct ibv_port_attr port;
	struct ibv_async_event event;
	uint16_t pkey;
	unsigned char *hole = mmap(NULL, 4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	REFUSED_MINUS_ONE(ibv_query_gid(context, 1, 4, &gid)), REFUSED_MINUS_ONE(ibv_query_gid(context, 1, -1, &gid));
	REFUSED_MINUS_ONE(ibv_query_gid(context, 0, 0, &gid)), CHECK((ibv_query_port)(context, 0, &port), EINVAL);
	REFUSED_MINUS_ONE(ibv_query_pkey(context, 1, 1, &pkey));
	REFUSED_NULL(ibv_create_cq(context, 1 << 23, NULL, NULL, 0)), REFUSED_NULL(ibv_create_cq(context, 4, NULL, NULL, 1));
	REFUSED_NULL(ibv_reg_mr(pd, memory, (size_t)1 << 63, 1)), REFUSED_NULL(ibv_reg_mr(pd, memory, SIZE_MAX, 1));
	CHECK(ibv_reg_mr(pd, NULL, 8, 1) == NULL && errno == EFAULT, 1);
	mprotect(hole + 2 * page, page, PROT_READ);
	CHECK(ibv_reg_mr(pd, hole, 4 * page, 1) == NULL && errno == EFAULT, 1);
	struct ibv_mr *read_only = ibv_reg_mr(pd, hole, 4 * page, 0);

	CHECK(read_only != NULL, 1), CHECK(ibv_dereg_mr(read_only), 0);
	munmap(hole + 2 * page, page);
	CHECK(ibv_reg_mr(pd, hole, 4 * page, 0) == NULL && errno == EFAULT, 1);
	fcntl(context->async_fd, F_SETFL, fcntl(context->async_fd, F_GETFL) | O_NONBLOCK);
	CHECK(ibv_get_async_event(context, &event) == -1 && errno == EAGAIN, 1);
}

int main(void)
{
	static unsigned char anything[1024];

	memset(anything, 0xa5, sizeof anything);
	open_all();
	struct ibv_context *second = ibv_open_device(ibv_get_device_list(NULL)[0]);
	struct ibv_comp_channel *channel = ibv_create_comp_channel(context), *foreign = ibv_create_comp_channel(second);
	struct ibv_cq *cq = ibv_create_cq(context, 4, NULL, channel, 0), *other = ibv_create_cq(second, 4, NULL, NULL, 0);
	struct ibv_cq *gone_cq = ibv_create_cq(context, 4, NULL, NULL, 0);
	struct ibv_comp_channel *gone_channel = ibv_create_comp_channel(context);
	struct ibv_pd *gone_pd = ibv_alloc_pd(context);
	struct ibv_qp *qp = made(cq, 4), *gone_qp = made(cq, 4);
	struct ibv_mr *gone_mr = ibv_reg_mr(pd, memory, 8, 0);

	CHECK(ibv_destroy_qp(gone_qp), 0), CHECK(ibv_destroy_cq(gone_cq), 0), CHECK(ibv_destroy_comp_channel(gone_channel), 0);
	CHECK(ibv_dealloc_pd(gone_pd), 0), CHECK(ibv_dereg_mr(gone_mr), 0);
	REFUSED_NULL(ibv_open_device((void *)anything));
	no_qp(NULL), no_qp(gone_qp), no_qp((void *)anything), no_qp((void *)cq);
	no_cq(NULL, cq), no_cq(gone_cq, cq), no_cq((void *)anything, cq), no_cq((void *)qp, cq), no_cq(NULL, NULL);
	no_pd(NULL, cq), no_pd(gone_pd, cq), no_pd((void *)anything, cq), no_pd((void *)mr, cq);
	no_channel(NULL), no_channel(gone_channel), no_channel((void *)anything), no_channel((void *)cq);
	no_context(NULL), no_context((void *)anything), no_context((void *)qp);
	CHECK(ibv_dereg_mr(NULL), EINVAL), CHECK(ibv_dereg_mr(gone_mr), EINVAL), CHECK(ibv_dereg_mr((void *)pd), EINVAL);
	nothing(qp, channel);
	out_of_range();
	/* Of another context. */
	REFUSED_NULL(ibv_create_cq(context, 4, NULL, foreign, 0));
	struct ibv_qp_init_attr attr = {.send_cq = cq, .recv_cq = other, .qp_type = IBV_QPT_RC};

	REFUSED_NULL(ibv_create_qp(pd, &attr));
	/* In use. */
	CHECK(ibv_destroy_cq(cq), EBUSY), CHECK(ibv_destroy_comp_channel(channel), EBUSY), CHECK(ibv_dealloc_pd(pd), EBUSY);
	CHECK(ibv_close_device(context), EBUSY);
	CHECK(ibv_destroy_cq(other), 0), CHECK(ibv_destroy_comp_channel(foreign), 0), CHECK(ibv_close_device(second), 0);
	no_context(second);
	CHECK(ibv_destroy_qp(qp), 0), CHECK(ibv_destroy_cq(cq), 0), CHECK(ibv_destroy_comp_channel(channel), 0);
	CHECK(ibv_dereg_mr(mr), 0), CHECK(ibv_dealloc_pd(pd), 0), CHECK(ibv_close_device(context), 0);
	return wrong;
}
