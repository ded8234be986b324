/* SPDX-License-Identifier: BSD-2-Clause */
/* Protection domains and memory regions. A post finds its region here, without asking the endpoint. */
#include "objects.h"

#include <stdlib.h>

#define CHAINS 4096
#define READABLE_AND_WRITABLE (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

static struct mr *chains[CHAINS];
static pthread_rwlock_t regions = PTHREAD_RWLOCK_INITIALIZER;

static struct mr **chain_of(uint32_t lkey) { return &chains[(lkey ^ lkey >> 12 ^ lkey >> 24) % CHAINS]; }

EXPORT struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	struct pd *pd = context ? calloc(1, sizeof *pd) : mrc_null(EINVAL);

	if (!pd)
		return NULL;
	word words[CALL_WORDS] = {((struct context *)((char *)context - offsetof(struct context, verbs.context)))->handle};
	int error = mrc_call(CALL_ALLOC_PD, words);

	if (error) {
		free(pd);
		return mrc_null(error);
	}
	pd->ibv = (struct ibv_pd){context, (uint32_t)words[0]};
	pd->handle = words[0];
	return &pd->ibv;
}

EXPORT int ibv_dealloc_pd(struct ibv_pd *ibv)
{
	if (!ibv)
		return EINVAL;
	word words[CALL_WORDS] = {((struct pd *)ibv)->handle};
	int error = mrc_call(CALL_DEALLOC_PD, words);

	if (!error)
		free(ibv);
	return error;
}

EXPORT struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access)
{
	struct mr *mr = pd && length ? calloc(1, sizeof *mr) : mrc_null(EINVAL);

	if (!mr)
		return NULL;
	/* Reads and atomics are asked for by habit; nothing of MRC uses them. */
	word words[CALL_WORDS] = {
		((struct pd *)pd)->handle, (word)(uintptr_t)addr, (word)length, (word)iova, access & READABLE_AND_WRITABLE};
	int error = mrc_call(CALL_REG_MR, words);

	if (error) {
		free(mr);
		return mrc_null(error);
	}
	mr->ibv = (struct ibv_mr){pd->context, pd, addr, length, (uint32_t)words[0], (uint32_t)words[1], (uint32_t)words[1]};
	mr->iova = iova;
	mr->handle = words[0];
	pthread_rwlock_wrlock(&regions);
	mr->next = *chain_of(mr->ibv.lkey);
	*chain_of(mr->ibv.lkey) = mr;
	pthread_rwlock_unlock(&regions);
	return &mr->ibv;
}

EXPORT struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access)
{
	return ibv_reg_mr_iova2(pd, addr, length, iova, (unsigned)access);
}

EXPORT struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	return ibv_reg_mr_iova2(pd, addr, length, (uintptr_t)addr, (unsigned)access);
}

word mrc_local_address(struct ibv_pd *pd, uint32_t lkey, uint64_t addr, uint32_t length)
{
	word found = 0;

	pthread_rwlock_rdlock(&regions);
	for (struct mr *mr = *chain_of(lkey); mr; mr = mr->next)
		if (mr->ibv.lkey == lkey && mr->ibv.pd == pd && addr >= mr->iova && addr - mr->iova <= mr->ibv.length &&
		    length <= mr->ibv.length - (addr - mr->iova))
			found = (word)((uintptr_t)mr->ibv.addr + (addr - mr->iova));
	pthread_rwlock_unlock(&regions);
	return found;
}

/* Whether a send that has not ended reads from a region. */
static int is_read(struct context *context, uint32_t lkey)
{
	int found = 0;

	pthread_mutex_lock(&mrc_lists);
	for (struct qp *qp = context->qps; qp && !found; qp = qp->next)
		for (word each = read_word(qp->words, SENDS_ENDED); each < read_word(qp->words, SENDS_POSTED); each++)
			if (qp->sends[(each & qp->words[SEND_MASK]) * SEND_WORDS + LKEY] == lkey)
				found = 1;
	pthread_mutex_unlock(&mrc_lists);
	return found;
}

EXPORT int ibv_dereg_mr(struct ibv_mr *ibv)
{
	struct mr *mr = (struct mr *)ibv, **each;

	if (!mr)
		return EINVAL;
	word words[CALL_WORDS] = {mr->handle};

	if (is_read((struct context *)((char *)ibv->context - offsetof(struct context, verbs.context)), ibv->lkey))
		return EBUSY;
	int error = mrc_call(CALL_DEREG_MR, words);

	if (error)
		return error;
	pthread_rwlock_wrlock(&regions);
	for (each = chain_of(ibv->lkey); *each && *each != mr; each = &(*each)->next)
		;
	if (*each)
		*each = mr->next;
	pthread_rwlock_unlock(&regions);
	free(mr);
	return 0;
}
