/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion queues: a ring that the endpoint fills, and that a poll empties without asking anybody. */
#include "objects.h"

#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* Who polls in vain that often lets others have the processor: the endpoint, or the peer. */
#define EMPTY_POLLS 64
#define MOST_CQE (1 << 22)

EXPORT struct ibv_cq *ibv_create_cq(
	struct ibv_context *context, int cqe, void *cq_context, struct ibv_comp_channel *channel, int comp_vector)
{
	struct cq *cq;
	word room = 1;

	int error = mrc_check(context_of(context), CONTEXT);

	if (!error && channel)
		error = mrc_check(channel, CHANNEL);
	if (error)
		return mrc_null(error);
	if (cqe < 1 || cqe > MOST_CQE)
		error = REFUSE(REFUSED_CQ_SIZE, cqe, MOST_CQE);
	else if (comp_vector)
		error = REFUSE(REFUSED_CQ_VECTOR, comp_vector);
	else if (channel && channel->context != context)
		error = REFUSE(REFUSED_OTHER_CONTEXT, "completion channel");
	if (error)
		return mrc_null(error);
	while (room < cqe)
		room *= 2;
	cq = mrc_new(CQ, sizeof *cq);
	if (!cq)
		return NULL;
	cq->words = mrc_memory(CQ_WORDS * sizeof(word));
	cq->entries = mrc_memory((size_t)room * DONE_WORDS * sizeof(word));
	if (!cq->words || !cq->entries) {
		free(cq->words);
		free(cq->entries);
		mrc_delete(cq);
		return mrc_null(REFUSE(REFUSED_NO_MEMORY));
	}
	cq->words[CQ_MASK] = room - 1;
	cq->words[CQ_ROOM] = cqe;
	cq->words[ENTRIES] = (word)(uintptr_t)cq->entries;
	cq->words[EVENT_FD] = channel ? channel->fd : mrc_pollers_bell();
	cq->words[ASYNC_FD] = context_of(context)->error_fd;
	pthread_spin_init(&cq->lock, PTHREAD_PROCESS_PRIVATE);
	cq->ibv.context = context;
	cq->ibv.channel = channel;
	cq->ibv.cq_context = cq_context;
	cq->ibv.cqe = cqe;
	pthread_mutex_init(&cq->ibv.mutex, NULL);
	pthread_cond_init(&cq->ibv.cond, NULL);
	pthread_mutex_lock(&mrc_lists);
	cq->next_of_context = context_of(context)->cqs;
	context_of(context)->cqs = cq;
	if (channel) {
		cq->next = ((struct channel *)channel)->cqs;
		((struct channel *)channel)->cqs = cq;
		channel->refcnt++;
	}
	pthread_mutex_unlock(&mrc_lists);
	return &cq->ibv;
}

EXPORT int ibv_destroy_cq(struct ibv_cq *ibv)
{
	struct cq *cq = (struct cq *)ibv, **each;
	int error = mrc_check(cq, CQ);

	if (error)
		return error;
	if ((error = mrc_end_events(cq)))
		return error;
	pthread_mutex_lock(&mrc_lists);
	if (cq->users) {
		pthread_mutex_unlock(&mrc_lists);
		return REFUSE(REFUSED_CQ_IN_USE);
	}
	if (ibv->context) { /* else it is closed */
		struct cq **own = &context_of(ibv->context)->cqs;

		while (*own && *own != cq)
			own = &(*own)->next_of_context;
		if (*own)
			*own = cq->next_of_context;
	}
	if (ibv->channel) {
		for (each = &((struct channel *)ibv->channel)->cqs; *each && *each != cq; each = &(*each)->next)
			;
		if (*each)
			*each = cq->next;
		ibv->channel->refcnt--;
	}
	pthread_mutex_unlock(&mrc_lists);
	mrc_await(__func__, &ibv->mutex, &ibv->cond, &ibv->comp_events_completed, cq->events_told, "ibv_ack_cq_events");
	mrc_await(
		__func__, &ibv->mutex, &ibv->cond, &ibv->async_events_completed, cq->errors_told, "ibv_ack_async_event");
	free(cq->words);
	free(cq->entries);
	mrc_delete(cq);
	return 0;
}

static void tell(struct ibv_wc *wc, const word *done)
{
	memset(wc, 0, sizeof *wc);
	wc->wr_id = (uint64_t)done[DONE_WR_ID];
	wc->status = done[DONE_STATUS];
	wc->opcode = done[DONE_KIND];
	wc->byte_len = (uint32_t)done[DONE_LENGTH];
	wc->qp_num = (uint32_t)done[DONE_QPN];
	if (done[DONE_IMMEDIATE] != NO_IMMEDIATE) {
		wc->imm_data = __builtin_bswap32((uint32_t)done[DONE_IMMEDIATE]);
		wc->wc_flags = IBV_WC_WITH_IMM;
	}
}

/* Apart from what finds nothing, which need not save its registers. */
__attribute__((noinline)) static int take(struct cq *cq, int num_entries, struct ibv_wc *wc)
{
	word *words = cq->words;
	int count = 0;

	mrc_polled_anew();
	pthread_spin_lock(&cq->lock);
	word polled = words[POLLED], came = read_word(words, CAME);

	for (; count < num_entries && polled < came; polled++) {
		const word *done = &cq->entries[(polled & words[CQ_MASK]) * DONE_WORDS];

		if (done[DONE_KIND] >= 0) /* else its QP is gone */
			tell(&wc[count++], done);
	}
	write_word(words, POLLED, polled);
	pthread_spin_unlock(&cq->lock);
	return count;
}

int mrc_ring_poll(struct ibv_cq *ibv, int num_entries, struct ibv_wc *wc)
{
	struct cq *cq = (struct cq *)ibv;
	word *words = cq->words;

	if (mrc_is_forked())
		return -mrc_refuse("poll_cq", REFUSED_FORKED);
	mrc_end_burst(cq);
	if (read_word(words, CAME) != __atomic_load_n(&words[POLLED], __ATOMIC_RELAXED))
		return take(cq, num_entries, wc);
	if (read_word(words, OVERRUN))
		return -mrc_refuse("poll_cq", REFUSED_CQ_OVERRUN);
	unsigned empty = __atomic_load_n(&cq->empty, __ATOMIC_RELAXED) + 1;

	__atomic_store_n(&cq->empty, empty, __ATOMIC_RELAXED);
	if (empty % EMPTY_POLLS == 0)
		mrc_polled_in_vain(cq);
	return 0;
}

void mrc_forget(struct ibv_cq *ibv, uint32_t qp_num)
{
	struct cq *cq = (struct cq *)ibv;

	pthread_spin_lock(&cq->lock);
	for (word each = cq->words[POLLED]; each < read_word(cq->words, CAME); each++) {
		word *done = &cq->entries[(each & cq->words[CQ_MASK]) * DONE_WORDS];

		if (done[DONE_QPN] == qp_num)
			done[DONE_KIND] = -1;
	}
	pthread_spin_unlock(&cq->lock);
}

/* ------------------------------------------------------------------ events */

EXPORT struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	int refused = mrc_check(context_of(context), CONTEXT);
	struct channel *channel = refused ? mrc_null(refused) : mrc_new(CHANNEL, sizeof *channel);

	if (!channel)
		return NULL;
	channel->ibv.context = context;
	channel->ibv.fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
	if (channel->ibv.fd < 0) {
		int error = REFUSE(REFUSED_NO_DESCRIPTOR, strerror(errno));

		mrc_delete(channel);
		return mrc_null(error);
	}
	return &channel->ibv;
}

EXPORT int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	int error = mrc_check(channel, CHANNEL);

	if (error || channel->refcnt)
		return error ? error : REFUSE(REFUSED_CHANNEL_IN_USE, channel->refcnt);
	close(channel->fd);
	mrc_delete(channel);
	return 0;
}

static int has_fired(struct cq *cq) { return cq->armed && read_word(cq->words, ARMED) == NOTHING; }

struct cq *mrc_overrun_cq(struct context *context)
{
	struct cq *found = NULL;
	uint64_t count;
	int more = 0;

	pthread_mutex_lock(&mrc_lists);
	/* Before looking: what comes meanwhile makes it readable again. */
	while (read(context->error_fd, &count, sizeof count) < 0 && errno == EINTR)
		;
	for (struct cq *cq = context->cqs; cq; cq = cq->next_of_context) {
		if (cq->error_told || !read_word(cq->words, OVERRUN))
			continue;
		if (found)
			more = 1;
		else
			found = cq;
	}
	if (found)
		found->error_told = 1, found->errors_told++;
	count = 1;
	if (more && write(context->error_fd, &count, sizeof count) < 0)
		more = 0; /* full: it is readable */
	pthread_mutex_unlock(&mrc_lists);
	return found;
}

void mrc_orphan_cqs(struct context *context)
{
	pthread_mutex_lock(&mrc_lists);
	for (struct cq *cq = context->cqs; cq; cq = cq->next_of_context) {
		write_word(cq->words, ASYNC_FD, -1);
		cq->ibv.context = NULL;
	}
	context->cqs = NULL;
	pthread_mutex_unlock(&mrc_lists);
}

int mrc_ring_notify(struct ibv_cq *ibv, int solicited_only)
{
	struct cq *cq = (struct cq *)ibv;
	word wanted = solicited_only ? SOLICITED_ONLY : ANYTHING;

	if (mrc_is_forked())
		return mrc_refuse("req_notify_cq", REFUSED_FORKED);
	if (!ibv->channel)
		return mrc_refuse("req_notify_cq", REFUSED_CQ_SILENT);
	mrc_end_burst(cq);
	pthread_mutex_lock(&mrc_lists);
	if (has_fired(cq))
		cq->events++;
	else if (cq->armed && read_word(cq->words, ARMED) == ANYTHING)
		wanted = ANYTHING;
	cq->armed = 1;
	__atomic_store_n(&cq->words[ARMED], wanted, __ATOMIC_SEQ_CST);
	pthread_mutex_unlock(&mrc_lists);
	return 0;
}

static struct cq *next_event(struct channel *channel)
{
	struct cq *found = NULL;

	pthread_mutex_lock(&mrc_lists);
	for (struct cq *cq = channel->cqs; cq && !found; cq = cq->next) {
		if (cq->events)
			cq->events--;
		else if (has_fired(cq))
			cq->armed = 0;
		else
			continue;
		found = cq;
		cq->events_told++;
	}
	pthread_mutex_unlock(&mrc_lists);
	return found;
}

EXPORT int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **ibv, void **cq_context)
{
	uint64_t count;

	int error = ibv ? mrc_check_place(cq_context) : REFUSE(REFUSED_NO_PLACE, "cq");

	if (!error)
		error = mrc_check(channel, CHANNEL);
	if (error) /* a child would take its parent's events */
		return errno = error, -1;
	for (;;) {
		if (read(channel->fd, &count, sizeof count) < 0)
			return -1;
		struct cq *cq = next_event((struct channel *)channel);

		if (!cq) /* that of a queue that is gone */
			continue;
		*ibv = &cq->ibv;
		*cq_context = cq->ibv.cq_context;
		return 0;
	}
}

EXPORT void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int count)
{
	if (!mrc_check(cq, CQ))
		mrc_acknowledge(&cq->mutex, &cq->cond, &cq->comp_events_completed, count);
}
