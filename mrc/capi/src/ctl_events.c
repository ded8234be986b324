/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mrc_ctl.h: EV events and endpoint operations. A queue of EV events is a completion queue whose entries are events. One
 * thread of Python puts them there (mrc/capi/control_operations.py); a poll takes them without asking anybody.
 */
#include "ctl_api.h"

#include <unistd.h>

_Static_assert(sizeof(struct mrc_ctl_ev_event) <= DONE_WORDS * sizeof(word), "an event is an entry of a queue");

static struct mrc_ctl_ev_event *entry(struct cq *cq, word number)
{
	return (struct mrc_ctl_ev_event *)&cq->entries[(number & cq->words[CQ_MASK]) * DONE_WORDS];
}

/* Who asked for an event of the queue has it. */
static void tell(struct cq *cq)
{
	uint64_t one = 1;

	if (cq->words[EVENT_FD] < 0 || __atomic_exchange_n(&cq->words[ARMED], NOTHING, __ATOMIC_SEQ_CST) == NOTHING)
		return;
	while (write((int)cq->words[EVENT_FD], &one, sizeof one) < 0 && errno == EINTR)
		;
}

/* Called by Python. `drops` are those at the endpoint. */
static void put(void *queue, uint64_t profile, uint32_t ev, uint32_t port, uint32_t state, uint32_t drops)
{
	struct cq *cq = queue;

	pthread_spin_lock(&cq->lock);
	word came = cq->words[CAME];
	int room = came - read_word(cq->words, POLLED) < cq->words[CQ_ROOM];

	if (room) {
		struct mrc_ctl_ev_event *event = entry(cq, came);

		*event = (struct mrc_ctl_ev_event){.profile_id = profile, .ev = {.port = (uint8_t)port},
			.drop_count = cq->dropped + drops, .state = (enum mrc_ctl_ev_state)state};
		memcpy(event->ev.val, &ev, sizeof ev);
		cq->dropped = 0;
		write_word(cq->words, CAME, came + 1);
	} else {
		cq->dropped += drops + 1;
	}
	pthread_spin_unlock(&cq->lock);
	if (room)
		tell(cq);
}

/* Under the lock that `put` takes: Python's own, between its threads, a sanitizer does not see. */
static void is_of_events(struct cq *cq, word handle)
{
	pthread_spin_lock(&cq->lock);
	cq->ev_events = handle;
	pthread_spin_unlock(&cq->lock);
}

int mrc_end_events(struct cq *cq)
{
	word words[CALL_WORDS] = {cq->ev_events};
	int error = cq->ev_events ? mrc_call(CALL_END_EV_EVENTS, words) : 0;

	if (!error && cq->ev_events)
		is_of_events(cq, 0);
	return error;
}

struct mrc_cq *mrc_ctl_create_ev_event_cq(
	struct mrc_context *mrc_ctx, int cqe, void *cq_context, struct mrc_comp_channel *channel, int comp_vector)
{
	struct cq *made = (struct cq *)mrc_create_cq(mrc_ctx, cqe, cq_context, channel, comp_vector);

	if (!made)
		return NULL;
	word words[CALL_WORDS] = {[EVENTS_CONTEXT] = context_of(mrc_ctx->ibv)->handle,
		[EVENTS_QUEUE] = (word)(uintptr_t)made, [EVENTS_PUT] = (word)(uintptr_t)put};
	is_of_events(made, NOT_GIVEN);
	int error = mrc_call(CALL_EV_EVENTS, words);

	is_of_events(made, error ? 0 : words[0]);
	if (!error)
		return (struct mrc_cq *)made;
	mrc_destroy_cq((struct mrc_cq *)made);
	return mrc_null(error);
}

int mrc_ctl_poll_ev_event(struct mrc_cq *ev_cq, int num_entries, struct mrc_ctl_ev_event *ev_event)
{
	struct cq *cq = (struct cq *)ev_cq;
	int error = mrc_check(cq, CQ), count = 0;

	if (!error && !cq->ev_events)
		error = REFUSE(REFUSED_CQ_OF_COMPLETIONS);
	if (!error && num_entries < 0)
		error = REFUSE(REFUSED_COUNT, "num_entries", num_entries);
	if (!error && num_entries && !ev_event)
		error = REFUSE(REFUSED_NO_PLACE_POLLED, "ev_event");
	if (error)
		return -error;
	/* Events of version 1.0.0 end before the state. */
	int is_old = cq->mrc->version && cq->mrc->version < MRC_API_VER(1, 0, 1);
	size_t size = is_old ? offsetof(struct mrc_ctl_ev_event, state) : sizeof *ev_event;

	pthread_spin_lock(&cq->lock);
	word polled = cq->words[POLLED], came = read_word(cq->words, CAME);

	for (; count < num_entries && polled < came; polled++, count++)
		memcpy((char *)ev_event + count * size, entry(cq, polled), size);
	write_word(cq->words, POLLED, polled);
	pthread_spin_unlock(&cq->lock);
	return count;
}

int mrc_ctl_ep_batch_send_wait(struct mrc_context *mrc_ctx, uint8_t req_tc, enum mrc_ctl_ep_op_type op_type,
	struct mrc_ctl_ep_req *req, int num_req, uint32_t rsp_timeout, struct mrc_ctl_ep_rsp *rsp, int *num_rsp)
{
	int error = mrc_check_context(mrc_ctx);

	if (num_rsp)
		*num_rsp = 0;
	if (!error)
		error = mrc_check_place(num_rsp);
	if (!error && num_req < 0)
		error = REFUSE(REFUSED_COUNT, "num_req", num_req);
	if (!error && num_req && !(error = mrc_check_place(req)))
		error = mrc_check_place(rsp);
	if (error)
		return mrc_minus_one(error);
	word words[CALL_WORDS] = {[OPERATE_CONTEXT] = context_of(mrc_ctx->ibv)->handle, [OPERATE_KIND] = op_type,
		[OPERATE_REQUESTS] = (word)(uintptr_t)req, [OPERATE_COUNT] = num_req,
		[OPERATE_ANSWERS] = (word)(uintptr_t)rsp, [OPERATE_DSCP] = req_tc, [OPERATE_TIMEOUT] = rsp_timeout};

	error = mrc_call(CALL_OPERATE, words);
	*num_rsp = (int)words[OPERATE_COUNT];
	return mrc_minus_one(error);
}
