/* SPDX-License-Identifier: BSD-2-Clause */
/* mrc.h: completion channels, completion queues, and events. They are libibverbs'. */
#include "api.h"

#define CHANNEL_OF(channel) ((struct ibv_comp_channel *)(channel))
#define CQ_OF(cq) ((struct ibv_cq *)(cq))

int mrc_create_comp_channel(struct mrc_context *context, struct mrc_comp_channel **channel)
{
	int error = mrc_check_place(channel);

	if (error || (error = mrc_check_context(context)))
		return mrc_error(error);
	*channel = (struct mrc_comp_channel *)ibv_create_comp_channel(context->ibv);
	return *channel ? 0 : errno;
}

int mrc_get_comp_channel_fd(struct mrc_comp_channel *channel, int *fd)
{
	int error = mrc_check_place(fd);

	if (!error && !(error = mrc_check(channel, CHANNEL)))
		*fd = CHANNEL_OF(channel)->fd;
	return mrc_minus_one(error);
}

int mrc_destroy_comp_channel(struct mrc_comp_channel *channel)
{
	return mrc_error(ibv_destroy_comp_channel(CHANNEL_OF(channel)));
}

struct mrc_cq *mrc_create_cq(
	struct mrc_context *context, int cqe, void *cq_context, struct mrc_comp_channel *channel, int comp_vector)
{
	int error = mrc_check_context(context);
	struct ibv_cq *made =
		error ? mrc_null(error) : ibv_create_cq(context->ibv, cqe, cq_context, CHANNEL_OF(channel), comp_vector);

	if (made)
		((struct cq *)made)->mrc = context;
	return (struct mrc_cq *)made;
}

int mrc_poll_cq(struct mrc_cq *cq, int num_entries, struct ibv_wc *wc)
{
	int found;

	if (!cq)
		found = -REFUSE(REFUSED_NO_SUCH_POSTED, "CQ");
	else if (!wc && num_entries > 0)
		found = -REFUSE(REFUSED_NO_PLACE_POLLED, "wc");
	else if (((struct cq *)cq)->ev_events)
		found = -REFUSE(REFUSED_CQ_OF_EVENTS_POLLED);
	else
		found = mrc_ring_poll(CQ_OF(cq), num_entries, wc);
	return found < 0 ? mrc_minus_one(-found) : found;
}

int mrc_destroy_cq(struct mrc_cq *cq) { return mrc_error(ibv_destroy_cq(CQ_OF(cq))); }

int mrc_req_notify_cq(struct mrc_cq *cq, int solicited_only)
{
	return mrc_error(cq ? mrc_ring_notify(CQ_OF(cq), solicited_only) : REFUSE(REFUSED_NO_SUCH_POSTED, "CQ"));
}

int mrc_get_cq_event(struct mrc_comp_channel *channel, struct mrc_cq **cq, void **cq_context)
{
	struct ibv_cq *found;

	int error = mrc_check_place(cq);

	if (error)
		return mrc_minus_one(error);
	if (ibv_get_cq_event(CHANNEL_OF(channel), &found, cq_context))
		return -1;
	*cq = (struct mrc_cq *)found;
	return 0;
}

void mrc_ack_cq_events(struct mrc_cq *cq, unsigned int nevents) { ibv_ack_cq_events(CQ_OF(cq), nevents); }

int mrc_get_async_event(struct mrc_context *context, struct mrc_async_event *event)
{
	struct ibv_async_event found;
	int error = mrc_check_place(event);

	if (!error && !(error = mrc_check_context(context)))
		error = mrc_next_event(context->ibv, &found);
	if (error)
		return mrc_minus_one(error);
	event->event_type = found.event_type;
	if (found.event_type == IBV_EVENT_CQ_ERR)
		event->element.cq = (struct mrc_cq *)found.element.cq;
	else if (found.event_type == IBV_EVENT_QP_FATAL)
		event->element.qp = (struct mrc_qp *)found.element.qp;
	else
		event->element.port_num = found.element.port_num;
	return 0;
}

void mrc_ack_async_event(struct mrc_async_event *event)
{
	struct ibv_async_event same = {0};

	if (!event)
		return;
	same.event_type = event->event_type;
	if (event->event_type == IBV_EVENT_CQ_ERR)
		same.element.cq = CQ_OF(event->element.cq);
	else if (event->event_type == IBV_EVENT_QP_FATAL)
		same.element.qp = (struct ibv_qp *)event->element.qp;
	ibv_ack_async_event(&same);
}
