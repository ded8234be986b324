/* SPDX-License-Identifier: BSD-2-Clause */
/* mrc.h: the device's attributes, contexts. */
#include "api.h"

#include <stdlib.h>

/* Versions that differ in no more than the subminor number have the same functions. */
#define COMPATIBLE(version) ((version) >> MRC_API_VER_MINOR_OFFSET)
#define MOST_HINTS 0x7fffffffu /* memory ends before */

EXPORT mrc_libmrc_function mrc_libmrc;

static int query(const char *function, struct ibv_context *context, struct mrc_device_attr *attr, int *supported)
{
	word words[CALL_WORDS] = {0};
	int error;

	if (supported)
		*supported = 0;
	if ((error = mrc_check_place_of(function, context)) || (error = mrc_check_place_of(function, attr)) ||
	    (error = mrc_check_place_of(function, supported)))
		return error;
	memset(attr, 0, sizeof *attr);
	if ((error = mrc_is_no(context_of(context), CONTEXT)))
		/* Another library's: its device does not have MRC from here. */
		return error == EINVAL ? 0 : mrc_refuse(function, REFUSED_FORKED);
	words[0] = context_of(context)->handle;
	if ((error = mrc_call(CALL_QUERY_MRC, words)))
		return error;
	*attr = (struct mrc_device_attr){
		.mrc_protocol_version = (uint32_t)words[MRC_VERSION],
		.wimm_attr = {(uint16_t)words[MRC_MOST_WIMM], (uint16_t)words[MRC_MOST_WIMM_DEST]},
		.mpr_attr = {(uint8_t)words[MRC_MOST_MPR], (uint8_t)words[MRC_MPR_RESOLUTION]},
		.qp_attr = {MOST_HINTS},
		.cap = (uint32_t)words[MRC_CAPS],
	};
	*supported = 1;
	return 0;
}

int mrc_query_device(struct ibv_context *context, struct mrc_device_attr *attr, int *supported)
{
	return mrc_minus_one(query(__func__, context, attr, supported));
}

int mrc_query_device_ex(
	struct ibv_context *context, struct mrc_context *mcontext, struct mrc_device_attr *attr, int *supported)
{
	int error = mrc_check_context(mcontext);

	if (!error && mcontext->ibv != context)
		error = REFUSE(REFUSED_OTHER_CONTEXT, "context of mrc.h");
	if (error && supported)
		*supported = 0;
	return mrc_minus_one(error ? error : query(__func__, context, attr, supported));
}

struct mrc_context *mrc_create_context(struct ibv_context *vcontext, struct mrc_context_attr *context_attr)
{
	int error = mrc_check(context_of(vcontext), CONTEXT);
	/* The vendor's version is not read: programs for 1.0.0 have no such field. Programs that give a version of the
	 * protocol here, 1, are older than any of the interface, and are taken. */
	uint32_t version = context_attr ? context_attr->mrc_api_version_used : 0;

	if (error)
		return mrc_null(error);
	if (COMPATIBLE(version) > COMPATIBLE(MRC_API_CURRENT_VERSION))
		return mrc_null(REFUSE(REFUSED_API_VERSION, version >> MRC_API_VER_MAJOR_OFFSET,
			version >> MRC_API_VER_MINOR_OFFSET & 0xff));
	struct mrc_context *made = mrc_new(MRC_CONTEXT, sizeof *made);

	if (!made)
		return NULL;
	made->ibv = vcontext;
	made->version = version;
	pthread_mutex_lock(&mrc_lists);
	context_of(vcontext)->mrc_contexts++;
	pthread_mutex_unlock(&mrc_lists);
	return made;
}

/* Whether a QP or a queue of it is left. */
static int is_used(struct mrc_context *context)
{
	for (struct qp *qp = context_of(context->ibv)->qps; qp; qp = qp->next)
		if (qp->mrc == context)
			return 1;
	for (struct cq *cq = context_of(context->ibv)->cqs; cq; cq = cq->next_of_context)
		if (cq->mrc == context)
			return 1;
	return 0;
}

int mrc_destroy_context(struct mrc_context *context)
{
	int error = mrc_check_context(context);

	if (error)
		return mrc_minus_one(error);
	pthread_mutex_lock(&mrc_lists);
	if (is_used(context)) {
		pthread_mutex_unlock(&mrc_lists);
		return mrc_minus_one(REFUSE(REFUSED_MRC_IN_USE));
	}
	context_of(context->ibv)->mrc_contexts--;
	pthread_mutex_unlock(&mrc_lists);
	for (struct mrc_qp_hint *each = context->hints, *next; each; each = next) {
		next = each->next;
		mrc_delete(each);
	}
	mrc_delete(context);
	return 0;
}

#define PLACED(name) name,

const struct mrc_api *mrc_libmrc(size_t size)
{
	static const struct mrc_api api = {MRC_API_FUNCTIONS(PLACED)};

	return size == sizeof api ? &api : NULL;
}
