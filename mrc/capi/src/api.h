/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The functions of mrc.h. They are here, where libibverbs' objects are; lib_mrc.so only passes calls on, by a table that
 * it finds under the name mrc_libmrc. A struct mrc_qp is a struct qp, and likewise queues and channels.
 */
#ifndef MRC_API_H
#define MRC_API_H

#include "mrc.h"
#include "objects.h"

struct mrc_qp_hint {
	struct mrc_context *context;
	struct mrc_qp_hint_attr attr;
	unsigned users; /* QPs */
	struct mrc_qp_hint *next;
};

struct mrc_context {
	struct ibv_context *ibv;
	uint32_t version; /* of the interface, that the program declares; 0: none */
	struct mrc_qp_hint *hints;
};

/* Every function but mrc_query_version, in the table's order. */
#define MRC_API_FUNCTIONS(each)                                                                                        \
	each(mrc_query_device) each(mrc_query_device_ex) each(mrc_create_context)                                     \
	each(mrc_destroy_context) each(mrc_create_comp_channel) each(mrc_get_comp_channel_fd)                          \
	each(mrc_destroy_comp_channel) each(mrc_create_cq) each(mrc_poll_cq) each(mrc_destroy_cq)                      \
	each(mrc_req_notify_cq) each(mrc_get_cq_event) each(mrc_ack_cq_events) each(mrc_create_qp_hint)                \
	each(mrc_destroy_qp_hint) each(mrc_query_qp_hint) each(mrc_modify_qp_hint) each(mrc_create_qp)                 \
	each(mrc_destroy_qp) each(mrc_query_qp) each(mrc_modify_qp) each(mrc_get_qpn) each(mrc_post_recv)              \
	each(mrc_post_send) each(mrc_get_async_event) each(mrc_ack_async_event)

#define MRC_API_POINTER(name) __typeof__(name) *name;
struct mrc_api {
	MRC_API_FUNCTIONS(MRC_API_POINTER)
};

/* NULL where the caller's table has another size: the two libraries are not of one build. */
typedef const struct mrc_api *mrc_libmrc_function(size_t size);

/* An errno as the functions of mrc.h give it: returned and in errno, or -1 and in errno. */
static inline int mrc_error(int error) { return error ? errno = error : 0; }
static inline int mrc_minus_one(int error) { return error ? (errno = error, -1) : 0; }
/* An errno, told, for what is no context of mrc.h. */
#define mrc_check_context(context) mrc_check(context, MRC_CONTEXT)

#endif
