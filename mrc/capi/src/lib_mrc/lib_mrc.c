/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lib_mrc.so: the functions of mrc.h, passed on to the libibverbs.so.1 that lies beside this library. It is found by its
 * place: a program may have another libibverbs under that name, or a layer over it.
 */
#define _GNU_SOURCE
#include "../api.h"
#include "passing.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

/* The oldest version with these layouts and values. */
#define OLDEST MRC_API_VER(1, 0, 0)

static int beside(char *path, size_t size)
{
	char own[PATH_MAX], *slash;
	Dl_info info;

	if (!dladdr((void *)beside, &info) || !realpath(info.dli_fname, own) || !(slash = strrchr(own, '/')))
		return 0;
	*slash = 0;
	return snprintf(path, size, "%s/libibverbs.so.1", own) < (int)size;
}

const void *mrc_table(const char *name, size_t size)
{
	char path[PATH_MAX + 32] = "libibverbs.so.1";
	void *library = beside(path, sizeof path) ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
	mrc_table_function *function = library ? (mrc_table_function *)dlsym(library, name) : NULL;
	const void *table = function ? function(size) : NULL;

	if (!table)
		fprintf(stderr, "mrc: lib_mrc.so needs %s, and the one of its own build: %s\n", path,
			library ? "that is another" : "it cannot be loaded");
	return table;
}

FINDS(struct mrc_api, "mrc_libmrc")

EXPORT void mrc_query_version(uint32_t *current_version, uint32_t *last_supported_version, uint32_t *vendor_version,
	uint32_t *last_supported_vendor_version)
{
	put(current_version, MRC_API_CURRENT_VERSION);
	put(last_supported_version, OLDEST);
	put(vendor_version, MRC_VENDOR_API_CURRENT_VERSION);
	put(last_supported_vendor_version, MRC_VENDOR_API_LAST_SUPPORTED_VERSION);
}

PASSES_ON(int, mrc_query_device, (struct ibv_context *context, struct mrc_device_attr *attr, int *supported),
	(context, attr, supported), unsupported(supported))
PASSES_ON(int, mrc_query_device_ex,
	(struct ibv_context *context, struct mrc_context *mcontext, struct mrc_device_attr *attr, int *supported),
	(context, mcontext, attr, supported), unsupported(supported))
PASSES_ON(struct mrc_context *, mrc_create_context, (struct ibv_context *context, struct mrc_context_attr *attr),
	(context, attr), NULL)
PASSES_ON(int, mrc_destroy_context, (struct mrc_context *context), (context), -1)
PASSES_ON(int, mrc_create_comp_channel, (struct mrc_context *context, struct mrc_comp_channel **channel),
	(context, channel), ENOSYS)
PASSES_ON(int, mrc_get_comp_channel_fd, (struct mrc_comp_channel *channel, int *fd), (channel, fd), -1)
PASSES_ON(int, mrc_destroy_comp_channel, (struct mrc_comp_channel *channel), (channel), ENOSYS)
PASSES_ON(struct mrc_cq *, mrc_create_cq,
	(struct mrc_context *context, int cqe, void *cq_context, struct mrc_comp_channel *channel, int comp_vector),
	(context, cqe, cq_context, channel, comp_vector), NULL)
PASSES_ON(int, mrc_poll_cq, (struct mrc_cq *cq, int num_entries, struct ibv_wc *wc), (cq, num_entries, wc), -1)
PASSES_ON(int, mrc_destroy_cq, (struct mrc_cq *cq), (cq), ENOSYS)
PASSES_ON(int, mrc_req_notify_cq, (struct mrc_cq *cq, int solicited_only), (cq, solicited_only), ENOSYS)
PASSES_ON(int, mrc_get_cq_event, (struct mrc_comp_channel *channel, struct mrc_cq **cq, void **cq_context),
	(channel, cq, cq_context), -1)
PASSES_ON_ALONE(mrc_ack_cq_events, (struct mrc_cq *cq, unsigned int nevents), (cq, nevents))
PASSES_ON(struct mrc_qp_hint *, mrc_create_qp_hint, (struct mrc_context *context, struct mrc_qp_hint_init_attr *attr),
	(context, attr), NULL)
PASSES_ON(int, mrc_destroy_qp_hint, (struct mrc_qp_hint *hint), (hint), -1)
PASSES_ON(int, mrc_query_qp_hint, (struct mrc_qp_hint *hint, struct mrc_qp_hint_attr *attr, int mask),
	(hint, attr, mask), -1)
PASSES_ON(int, mrc_modify_qp_hint, (struct mrc_qp_hint *hint, struct mrc_qp_hint_attr *attr, int mask),
	(hint, attr, mask), -1)
PASSES_ON(struct mrc_qp *, mrc_create_qp, (struct mrc_context *context, struct mrc_qp_init_attr *attr), (context, attr),
	NULL)
PASSES_ON(int, mrc_destroy_qp, (struct mrc_qp *qp), (qp), ENOSYS)
PASSES_ON(int, mrc_query_qp,
	(struct mrc_qp *qp, struct ibv_qp_attr *vattr, int vmask, struct mrc_qp_attr *attr, int mask,
		struct mrc_qp_init_attr *init_attr),
	(qp, vattr, vmask, attr, mask, init_attr), ENOSYS)
PASSES_ON(int, mrc_modify_qp,
	(struct mrc_qp *qp, struct ibv_qp_attr *vattr, int vmask, struct mrc_qp_attr *attr, int mask),
	(qp, vattr, vmask, attr, mask), ENOSYS)
PASSES_ON(int, mrc_get_qpn, (struct mrc_qp *qp, uint32_t *qpn), (qp, qpn), -1)
PASSES_ON(int, mrc_post_recv, (struct mrc_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr),
	(qp, wr, bad_wr), -1)
PASSES_ON(int, mrc_post_send, (struct mrc_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr),
	(qp, wr, bad_wr), ENOSYS)
PASSES_ON(int, mrc_get_async_event, (struct mrc_context *context, struct mrc_async_event *event), (context, event), -1)
PASSES_ON_ALONE(mrc_ack_async_event, (struct mrc_async_event *event), (event))
