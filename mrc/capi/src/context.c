/* SPDX-License-Identifier: BSD-2-Clause */
/* Contexts: the device opened, its events, and closed. */
#include "objects.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

word *mrc_bells;
pthread_mutex_t mrc_lists = PTHREAD_MUTEX_INITIALIZER;

static void *create_qp_ex(void)
{
	mrc_refused("ibv_create_qp_ex");
	return NULL;
}

/* The words that all QPs ring at, made once. */
static word *bells(void)
{
	pthread_mutex_lock(&mrc_lists);
	if (!mrc_bells)
		mrc_bells = mrc_memory(BELL_WORDS * sizeof(word));
	pthread_mutex_unlock(&mrc_lists);
	return mrc_bells;
}

/* A descriptor that is readable with either, and that the program may make non-blocking: the endpoint's always is. -1
 * and errno without any. */
static int descriptor_over(int fd, int other)
{
	struct epoll_event readable = {.events = EPOLLIN};
	int made = epoll_create1(EPOLL_CLOEXEC);

	if (made >= 0 && (epoll_ctl(made, EPOLL_CTL_ADD, fd, &readable) || epoll_ctl(made, EPOLL_CTL_ADD, other, &readable))) {
		int error = errno;

		close(made);
		errno = error;
		return -1;
	}
	return made;
}

static void fill(struct context *made, struct ibv_device *device, int async_fd)
{
	struct ibv_context *context = &made->verbs.context;

	made->verbs.sz = sizeof(struct verbs_context);
	made->verbs.functions[QUERY_PORT] = (void *)mrc_query_port;
	made->verbs.functions[CREATE_QP_EX] = (void *)create_qp_ex;
	context->device = device;
	context->ops.poll_cq = mrc_ring_poll;
	context->ops.req_notify_cq = mrc_ring_notify;
	context->ops.post_send = mrc_ring_send;
	context->ops.post_recv = mrc_ring_receive;
	context->cmd_fd = -1;
	context->async_fd = async_fd;
	context->num_comp_vectors = 1;
	pthread_mutex_init(&context->mutex, NULL);
	context->abi_compat = (void *)~(uintptr_t)0; /* there is a verbs_context around it */
}

EXPORT struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	int error = mrc_is_device(device) ? mrc_start() : REFUSE(REFUSED_NO_DEVICE), fd;

	if (error)
		return mrc_null(error);
	struct context *made = mrc_new(CONTEXT, sizeof *made);
	word words[CALL_WORDS] = {(word)(uintptr_t)bells()};

	if (!made || !words[0]) {
		mrc_delete(made);
		return mrc_null(REFUSE(REFUSED_NO_MEMORY));
	}
	if ((error = mrc_call(CALL_OPEN, words))) {
		mrc_delete(made);
		return mrc_null(error);
	}
	made->handle = words[0];
	made->error_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if ((fd = made->error_fd < 0 ? -1 : descriptor_over((int)words[1], made->error_fd)) < 0) {
		error = REFUSE(REFUSED_NO_DESCRIPTOR, strerror(errno));
		if (made->error_fd >= 0)
			close(made->error_fd);
		mrc_call(CALL_CLOSE, words);
		mrc_delete(made);
		return mrc_null(error);
	}
	fill(made, device, fd);
	return &made->verbs.context;
}

EXPORT int ibv_close_device(struct ibv_context *context)
{
	int error = mrc_check(context_of(context), CONTEXT);

	if (error)
		return error;
	word words[CALL_WORDS] = {context_of(context)->handle};

	unsigned open = __atomic_load_n(&context_of(context)->mrc_contexts, __ATOMIC_RELAXED);

	if (open)
		return REFUSE(REFUSED_CONTEXT_IN_USE, open);
	if ((error = mrc_call(CALL_CLOSE, words)))
		return error;
	mrc_orphan_cqs(context_of(context));
	close(context->async_fd);
	close(context_of(context)->error_fd);
	pthread_mutex_destroy(&context->mutex);
	mrc_delete(context_of(context));
	return 0;
}

/* ------------------------------------------------------------------ events */

/* A QP by its number, whose event the program reads. */
static struct ibv_qp *told_of(struct ibv_context *context, uint32_t number)
{
	struct ibv_qp *found = NULL;

	pthread_mutex_lock(&mrc_lists);
	for (struct qp *qp = context_of(context)->qps; qp && !found; qp = qp->next)
		if (qp->ibv.qp_num == number)
			found = &qp->ibv, qp->events_told++;
	pthread_mutex_unlock(&mrc_lists);
	return found;
}

int mrc_next_event(struct ibv_context *context, struct ibv_async_event *event)
{
	do {
		struct pollfd ready = {context->async_fd, POLLIN, 0};
		struct cq *cq = mrc_overrun_cq(context_of(context));
		word words[CALL_WORDS] = {context_of(context)->handle};

		memset(event, 0, sizeof *event);
		if (cq) {
			event->event_type = IBV_EVENT_CQ_ERR;
			event->element.cq = &cq->ibv;
			return 0;
		}
		int error = mrc_call(CALL_ASYNC_EVENT, words);

		if (error == EAGAIN && !(fcntl(context->async_fd, F_GETFL) & O_NONBLOCK)) {
			if (poll(&ready, 1, -1) < 0)
				return errno;
			continue;
		}
		if (error)
			return error;
		event->event_type = words[0];
		if (event->event_type == IBV_EVENT_QP_FATAL)
			event->element.qp = told_of(context, (uint32_t)words[1]);
		else
			event->element.port_num = (int)words[1];
	} while (!event->element.qp); /* nothing yet, or that of a QP that is gone */
	return 0;
}

EXPORT int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	int error = mrc_check_place(event);

	if (!error && !(error = mrc_check(context_of(context), CONTEXT)))
		error = mrc_next_event(context, event);
	return error ? (errno = error, -1) : 0;
}

EXPORT void ibv_ack_async_event(struct ibv_async_event *event)
{
	struct ibv_qp *qp = event && event->event_type == IBV_EVENT_QP_FATAL ? event->element.qp : NULL;
	struct ibv_cq *cq = event && event->event_type == IBV_EVENT_CQ_ERR ? event->element.cq : NULL;

	if (qp && !mrc_check(qp, QP))
		mrc_acknowledge(&qp->mutex, &qp->cond, &qp->events_completed, 1);
	else if (cq && !mrc_check(cq, CQ))
		mrc_acknowledge(&cq->mutex, &cq->cond, &cq->async_events_completed, 1);
}
