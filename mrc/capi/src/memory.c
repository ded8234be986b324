/* SPDX-License-Identifier: BSD-2-Clause */
/* Protection domains and memory regions. A post finds its region here, without asking the endpoint. */
#include "objects.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define CHAINS 4096
#define READABLE_AND_WRITABLE (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

static struct mr *chains[CHAINS];
static pthread_rwlock_t regions = PTHREAD_RWLOCK_INITIALIZER;

static struct mr **chain_of(uint32_t lkey) { return &chains[(lkey ^ lkey >> 12 ^ lkey >> 24) % CHAINS]; }

EXPORT struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	int error = mrc_check(context_of(context), CONTEXT);
	struct pd *pd = error ? mrc_null(error) : mrc_new(PD, sizeof *pd);

	if (!pd)
		return NULL;
	word words[CALL_WORDS] = {context_of(context)->handle};

	if ((error = mrc_call(CALL_ALLOC_PD, words))) {
		mrc_delete(pd);
		return mrc_null(error);
	}
	pd->ibv = (struct ibv_pd){context, (uint32_t)words[0]};
	pd->handle = words[0];
	return &pd->ibv;
}

EXPORT int ibv_dealloc_pd(struct ibv_pd *ibv)
{
	int error = mrc_check(ibv, PD);

	if (error)
		return error;
	word words[CALL_WORDS] = {((struct pd *)ibv)->handle};

	if (!(error = mrc_call(CALL_DEALLOC_PD, words)))
		mrc_delete(ibv);
	return error;
}

/*
 * EINVAL for no bytes and for more than there are addresses; EFAULT where not all of it is memory that may be read, or
 * written: the endpoint would end the program with a signal in the middle of a transfer. A NIC refuses the same.
 */
static int check_memory(const void *addr, size_t length, unsigned access)
{
	uintptr_t at = (uintptr_t)addr, end = at + length, first, next;
	char line[512], rights[5] = "";
	FILE *maps;

	if (!length || end < at || length > PTRDIFF_MAX)
		return mrc_refuse("reg_mr", REFUSED_MR_LENGTH, length, addr);
	if (!(maps = fopen("/proc/self/maps", "re")))
		return 0; /* it cannot be told */
	while (at < end && fgets(line, sizeof line, maps))
		/* A line that is longer goes on in what is no range. */
		if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s", &first, &next, rights) == 3 && next > at) {
			if (first > at || rights[0] != 'r' || (access && rights[1] != 'w'))
				break;
			at = next;
		}
	fclose(maps);
	return at < end ? mrc_refuse("reg_mr", REFUSED_MR_MEMORY, length, addr, access ? "write" : "read") : 0;
}

EXPORT struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access)
{
	int error = mrc_checked("reg_mr", pd, PD);

	if (!error)
		error = check_memory(addr, length, access & READABLE_AND_WRITABLE);
	struct mr *mr = error ? mrc_null(error) : mrc_new(MR, sizeof *mr);

	if (!mr)
		return NULL;
	/* Reads and atomics are asked for by habit; nothing of MRC uses them. */
	word words[CALL_WORDS] = {
		((struct pd *)pd)->handle, (word)(uintptr_t)addr, (word)length, (word)iova, access & READABLE_AND_WRITABLE};

	if ((error = mrc_call(CALL_REG_MR, words))) {
		mrc_delete(mr);
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
	int error = mrc_check(mr, MR);

	if (error)
		return error;
	word words[CALL_WORDS] = {mr->handle};

	if (is_read(context_of(ibv->context), ibv->lkey))
		return REFUSE(REFUSED_MR_IN_USE);
	if ((error = mrc_call(CALL_DEREG_MR, words)))
		return error;
	pthread_rwlock_wrlock(&regions);
	for (each = chain_of(ibv->lkey); *each && *each != mr; each = &(*each)->next)
		;
	if (*each)
		*each = mr->next;
	pthread_rwlock_unlock(&regions);
	mrc_delete(mr);
	return 0;
}
