/* SPDX-License-Identifier: BSD-2-Clause */
/* Devices: there is one. What it and its port are. */
#include "objects.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define GIDS 4 /* places of the table, with the same in each */

static struct ibv_device the_device = {
	.node_type = IBV_NODE_CA,
	.transport_type = IBV_TRANSPORT_IB,
	.name = "mrc0",
	.dev_name = "uverbs0",
	.dev_path = "/sys/class/infiniband_verbs/uverbs0",
	.ibdev_path = "/sys/class/infiniband/mrc0",
};

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

int mrc_is_device(const struct ibv_device *device) { return device == &the_device; }

EXPORT struct ibv_device **ibv_get_device_list(int *num_devices)
{
	struct ibv_device **list = calloc(2, sizeof *list);

	if (!list)
		return mrc_null(REFUSE(REFUSED_NO_MEMORY));
	list[0] = &the_device;
	if (num_devices)
		*num_devices = 1;
	return list;
}

EXPORT void ibv_free_device_list(struct ibv_device **list) { free(list); }
EXPORT const char *ibv_get_device_name(struct ibv_device *device)
{
	return mrc_is_device(device) ? device->name : mrc_null(REFUSE(REFUSED_NO_DEVICE));
}

EXPORT int ibv_get_device_index(struct ibv_device *device) { return mrc_is_device(device) ? 0 : -1; }
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

int mrc_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr, size_t size)
{
	struct ibv_port_attr told = {0};
	int error = mrc_check_place(attr);

	if (!error)
		error = mrc_check(context_of(context), CONTEXT);

	if (error)
		return error;
	word words[CALL_WORDS] = {context_of(context)->handle, port};

	if ((error = mrc_call(CALL_QUERY_PORT, words)))
		return error;
	told.state = words[0];
	told.max_mtu = words[1];
	told.active_mtu = words[1];
	told.gid_tbl_len = GIDS;
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
	return mrc_query_port(context, port, attr, offsetof(struct ibv_port_attr, port_cap_flags2));
}

EXPORT int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	int error = mrc_check_place(attr);

	if (error || (error = mrc_check(context_of(context), CONTEXT)))
		return error;
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

static int check_port(const char *function, unsigned port)
{
	return port == 1 ? 0 : mrc_refuse(function, REFUSED_NO_PORT, port);
}

/* An errno. There is one GID: programs ask for that of RoCEv2 at the index where their NICs have it, each has the same. */
static int query_gid(struct ibv_context *context, unsigned port, unsigned index, union ibv_gid *gid)
{
	int error = mrc_check(context_of(context), CONTEXT);

	if (error || (error = mrc_check_place(gid)) || (error = check_port("query_gid", port)))
		return error;
	if (index >= GIDS)
		return REFUSE(REFUSED_NO_GID, index);
	word words[CALL_WORDS] = {context_of(context)->handle, index, (word)(uintptr_t)gid};

	return mrc_call(CALL_QUERY_GID, words);
}

static int minus_one(int error) { return error ? (errno = error, -1) : 0; }

EXPORT int ibv_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid)
{
	return minus_one(query_gid(context, port, (unsigned)index, gid));
}

EXPORT int _ibv_query_gid_ex(
	struct ibv_context *context, uint32_t port, uint32_t index, struct ibv_gid_entry *entry, uint32_t flags, size_t size)
{
	struct ibv_gid_entry told = {.gid_index = index, .port_num = port, .gid_type = IBV_GID_TYPE_ROCE_V2};

	int error = mrc_check_place(entry);

	if (error || flags)
		return error ? error : REFUSE(REFUSED_NO_FLAGS, flags);
	if (index >= GIDS)
		return ENODATA;
	error = query_gid(context, port, index, &told.gid);

	if (!error)
		memcpy(entry, &told, size < sizeof told ? size : sizeof told);
	return error;
}

EXPORT long _ibv_query_gid_table(
	struct ibv_context *context, struct ibv_gid_entry *entries, size_t most, uint32_t flags, size_t size)
{
	struct ibv_gid_entry told = {.port_num = 1, .gid_type = IBV_GID_TYPE_ROCE_V2};
	int error = mrc_check_place(entries);

	if (error || flags)
		return -(error ? error : REFUSE(REFUSED_NO_FLAGS, flags));
	if (!most || size < sizeof *entries)
		return -REFUSE(REFUSED_TABLE_SIZE, most, size, sizeof *entries);
	error = query_gid(context, 1, 0, &told.gid);

	if (!error)
		memcpy(entries, &told, sizeof told);
	return error ? -error : 1;
}

EXPORT int ibv_query_gid_type(struct ibv_context *context, uint8_t port, unsigned index, unsigned *type)
{
	int error = mrc_check_place(type);

	if (error || (error = check_port(__func__, port)) || (error = mrc_check(context_of(context), CONTEXT)))
		return error;
	*type = 1; /* RoCEv2, as sysfs counts them */
	return index < GIDS ? 0 : ENODATA;
}

EXPORT int ibv_query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *pkey)
{
	int error = mrc_check_place(pkey);

	if (!error && !(error = check_port(__func__, port)) && index)
		error = REFUSE(REFUSED_NO_PKEY, index);
	if (!error && !(error = mrc_check(context_of(context), CONTEXT)))
		*pkey = 0xffff;
	return minus_one(error);
}

EXPORT int ibv_get_pkey_index(struct ibv_context *context, uint8_t port, __be16 pkey)
{
	int error = check_port(__func__, port);

	if (!error && pkey != 0xffff)
		error = REFUSE(REFUSED_NO_PKEY, __builtin_bswap16(pkey));
	return minus_one(error ? error : mrc_check(context_of(context), CONTEXT));
}
