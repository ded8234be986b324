/* SPDX-License-Identifier: BSD-2-Clause */
/* Devices: there is one. Contexts, and what they tell of device and port. */
#include "objects.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

word *mrc_bells;
pthread_mutex_t mrc_lists = PTHREAD_MUTEX_INITIALIZER;

static struct ibv_device the_device = {
	.node_type = IBV_NODE_CA,
	.transport_type = IBV_TRANSPORT_IB,
	.name = "mrc0",
	.dev_name = "uverbs0",
	.dev_path = "/sys/class/infiniband_verbs/uverbs0",
	.ibdev_path = "/sys/class/infiniband/mrc0",
};

int mrc_refused(const char *what)
{
	static const char *told[128];

	/* Once for each: a program may ask for it with every message. */
	for (int each = 0; each < 128; each++) {
		const char *empty = NULL;

		if (__atomic_compare_exchange_n(&told[each], &empty, what, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
			break;
		if (empty == what)
			return errno = EOPNOTSUPP;
	}
	fprintf(stderr, "mrc: %s: MRC has no such thing, or this library does not have it\n", what);
	return errno = EOPNOTSUPP;
}

void *mrc_null(int error)
{
	errno = error;
	return NULL;
}

void *mrc_memory(size_t size)
{
	void *made = NULL;

	if (posix_memalign(&made, 64, size))
		return NULL;
	return memset(made, 0, size);
}

EXPORT struct ibv_device **ibv_get_device_list(int *num_devices)
{
	struct ibv_device **list = calloc(2, sizeof *list);

	if (!list)
		return NULL;
	list[0] = &the_device;
	if (num_devices)
		*num_devices = 1;
	return list;
}

EXPORT void ibv_free_device_list(struct ibv_device **list) { free(list); }
EXPORT const char *ibv_get_device_name(struct ibv_device *device) { return device ? device->name : mrc_null(EINVAL); }
EXPORT int ibv_get_device_index(struct ibv_device *device) { return device ? 0 : -1; }
EXPORT int ibv_fork_init(void) { return 0; }
EXPORT int ibv_is_fork_initialized(void) { return 0; }

EXPORT __be64 ibv_get_device_guid(struct ibv_device *device)
{
	/* Of this host: what a controller of a fabric tells apart are GIDs. */
	char name[256] = "";
	uint64_t guid = 0xcbf29ce484222325;

	(void)device;
	gethostname(name, sizeof name - 1);
	for (char *each = name; *each; each++)
		guid = (guid ^ (uint8_t)*each) * 0x100000001b3;
	return guid | 2;
}

static int query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr, size_t size)
{
	struct ibv_port_attr told = {0};
	word words[CALL_WORDS] = {((struct context *)((char *)context - offsetof(struct context, verbs.context)))->handle, port};
	int error = mrc_call(CALL_QUERY_PORT, words);

	if (error)
		return error;
	told.state = words[0];
	told.max_mtu = words[1];
	told.active_mtu = words[1];
	told.gid_tbl_len = 4;
	told.max_msg_sz = 0x7fffffff;
	told.pkey_tbl_len = 1;
	told.max_vl_num = 1;
	told.active_width = 2;
	told.active_speed = 32;
	told.phys_state = words[0] == IBV_PORT_ACTIVE ? 5 : 3;
	told.link_layer = IBV_LINK_LAYER_ETHERNET;
	memcpy(attr, &told, size < sizeof told ? size : sizeof told);
	return 0;
}

EXPORT int ibv_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr)
{
	/* Programs of old have a structure that ends before port_cap_flags2. */
	return context && attr ? query_port(context, port, attr, offsetof(struct ibv_port_attr, port_cap_flags2)) : EINVAL;
}

static void *create_qp_ex(void)
{
	mrc_refused("ibv_create_qp_ex");
	return NULL;
}

EXPORT struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	struct context *made;
	word words[CALL_WORDS] = {0};
	int error;

	if (!device)
		return mrc_null(EINVAL);
	if ((error = mrc_start()))
		return mrc_null(error);
	pthread_mutex_lock(&mrc_lists);
	if (!mrc_bells)
		mrc_bells = mrc_memory(BELL_WORDS * sizeof(word));
	pthread_mutex_unlock(&mrc_lists);
	made = mrc_memory(sizeof *made);
	if (!made || !mrc_bells) {
		free(made);
		return mrc_null(ENOMEM);
	}
	words[0] = (word)(uintptr_t)mrc_bells;
	if ((error = mrc_call(CALL_OPEN, words))) {
		free(made);
		return mrc_null(error);
	}
	made->handle = words[0];
	made->verbs.sz = sizeof(struct verbs_context);
	made->verbs.functions[QUERY_PORT] = (void *)query_port;
	made->verbs.functions[CREATE_QP_EX] = (void *)create_qp_ex;
	struct ibv_context *context = &made->verbs.context;

	context->device = device;
	context->ops.poll_cq = mrc_poll_cq;
	context->ops.req_notify_cq = mrc_req_notify_cq;
	context->ops.post_send = mrc_post_send;
	context->ops.post_recv = mrc_post_recv;
	context->cmd_fd = -1;
	context->async_fd = (int)words[1];
	context->num_comp_vectors = 1;
	pthread_mutex_init(&context->mutex, NULL);
	context->abi_compat = (void *)~(uintptr_t)0; /* there is a verbs_context around it */
	return context;
}

static struct context *context_of(struct ibv_context *context)
{
	return (struct context *)((char *)context - offsetof(struct context, verbs.context));
}

EXPORT int ibv_close_device(struct ibv_context *context)
{
	if (!context)
		return EINVAL;
	word words[CALL_WORDS] = {context_of(context)->handle};
	int error = mrc_call(CALL_CLOSE, words);

	if (error)
		return error;
	pthread_mutex_destroy(&context->mutex);
	free(context_of(context));
	return 0;
}

EXPORT int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	if (!context || !attr)
		return EINVAL;
	*attr = (struct ibv_device_attr){
		.fw_ver = "1.0",
		.node_guid = ibv_get_device_guid(context->device),
		.sys_image_guid = ibv_get_device_guid(context->device),
		.max_mr_size = UINT64_MAX >> 2,
		.page_size_cap = ~(uint64_t)0xfff,
		.max_qp = MOST_QPS,
		.max_qp_wr = 1 << 20,
		.max_sge = 1,
		.max_sge_rd = 1,
		.max_cq = 1 << 16,
		.max_cqe = 1 << 22,
		.max_mr = 1 << 24,
		.max_pd = 1 << 16,
		.max_pkeys = 1,
		.local_ca_ack_delay = 15,
		.phys_port_cnt = 1,
	};
	return 0;
}

EXPORT int ibv_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid)
{
	if (!context || !gid || port != 1 || index < 0)
		return errno = EINVAL, -1;
	/* There is one GID. Programs ask for that of RoCEv2 at the index where their NICs have it: each has the same. */
	word words[CALL_WORDS] = {context_of(context)->handle, index, (word)(uintptr_t)gid};
	int error = mrc_call(CALL_QUERY_GID, words);

	return error ? (errno = error, -1) : 0;
}

EXPORT int _ibv_query_gid_ex(
	struct ibv_context *context, uint32_t port, uint32_t index, struct ibv_gid_entry *entry, uint32_t flags, size_t size)
{
	struct ibv_gid_entry told = {.gid_index = index, .port_num = port, .gid_type = IBV_GID_TYPE_ROCE_V2};

	if (!context || !entry || flags)
		return EINVAL;
	if (index > 3)
		return ENODATA;
	if (ibv_query_gid(context, (uint8_t)port, (int)index, &told.gid))
		return errno;
	memcpy(entry, &told, size < sizeof told ? size : sizeof told);
	return 0;
}

EXPORT int ibv_query_gid_type(struct ibv_context *context, uint8_t port, unsigned index, unsigned *type)
{
	if (!context || port != 1 || !type)
		return EINVAL;
	*type = 1; /* RoCEv2, as sysfs counts them */
	return index > 3 ? ENODATA : 0;
}

EXPORT int ibv_query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *pkey)
{
	if (!context || !pkey || port != 1 || index)
		return errno = EINVAL, -1;
	*pkey = 0xffff;
	return 0;
}

EXPORT int ibv_get_pkey_index(struct ibv_context *context, uint8_t port, __be16 pkey)
{
	(void)context, (void)port;
	return pkey == 0xffff ? 0 : (errno = EINVAL, -1);
}

EXPORT int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	if (!context || !event)
		return errno = EINVAL, -1;
	word words[CALL_WORDS] = {context_of(context)->handle};
	int error = mrc_call(CALL_ASYNC_EVENT, words);

	if (error)
		return errno = error, -1;
	memset(event, 0, sizeof *event);
	event->event_type = words[0];
	if (event->event_type == IBV_EVENT_PORT_ACTIVE || event->event_type == IBV_EVENT_PORT_ERR)
		event->element.port_num = (int)words[1];
	pthread_mutex_lock(&mrc_lists);
	for (struct qp *qp = context_of(context)->qps; qp && event->event_type == IBV_EVENT_QP_FATAL; qp = qp->next)
		if (qp->ibv.qp_num == (uint32_t)words[1])
			event->element.qp = &qp->ibv;
	pthread_mutex_unlock(&mrc_lists);
	return 0;
}

EXPORT void ibv_ack_async_event(struct ibv_async_event *event) { (void)event; }
