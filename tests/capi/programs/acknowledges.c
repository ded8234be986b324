/* SPDX-License-Identifier: BSD-2-Clause */
/* What is destroyed waits until the events of it that were read are acknowledged, and not for those that nobody read. */
#include "pair.h"

#include <errno.h>
#include <pthread.h>

static int ended; /* the destruction that is under way */

static void *destroys_qp(void *qp)
{
	CHECK(ibv_destroy_qp(qp), 0), __atomic_store_n(&ended, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

static void *destroys_cq(void *cq)
{
	CHECK(ibv_destroy_cq(cq), 0), __atomic_store_n(&ended, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

/* Begins, and has not ended when it says that it waits. */
static pthread_t begun(void *(*destroys)(void *), void *what)
{
	pthread_t thread;

	ended = 0, CHECK(pthread_create(&thread, NULL, destroys, what), 0);
	usleep(1500000), CHECK(__atomic_load_n(&ended, __ATOMIC_SEQ_CST), 0);
	return thread;
}

static struct ibv_async_event next_event(enum ibv_event_type wanted)
{
	struct ibv_async_event event;

	CHECK(ibv_get_async_event(context, &event), 0), CHECK(event.event_type, wanted);
	return event;
}

int main(void)
{
	struct ibv_async_event event;
	struct ibv_cq *found;
	void *about;

	open_all();
	struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
	struct ibv_cq *cq = ibv_create_cq(context, 64, NULL, channel, 0), *small = ibv_create_cq(context, 2, NULL, NULL, 0);
	struct ibv_qp *left = made(small, 8), *right = made(cq, 8);

	connect_both(left, right);
	/* A QP that ended: the peer has no such rkey. */
	CHECK(post_write(left, 1, 8, IBV_SEND_SIGNALED, mr->rkey + 1), 0), CHECK(next_of(small).status, IBV_WC_REM_ACCESS_ERR);
	event = next_event(IBV_EVENT_QP_FATAL), CHECK(event.element.qp == left || event.element.qp == right, 1);
	struct ibv_qp *failed = event.element.qp, *other = failed == left ? right : left;
	pthread_t thread = begun(destroys_qp, failed);

	ibv_ack_async_event(&event), pthread_join(thread, NULL);
	/* The other's event, if there is one, nobody has read. */
	CHECK(ibv_destroy_qp(other), 0);
	left = made(small, 8), right = made(cq, 8), connect_both(left, right);
	/* A queue that overflowed. */
	for (int each = 0; each < 6; each++)
		CHECK(post_write(left, each, 8, IBV_SEND_SIGNALED, mr->rkey), 0);
	event = next_event(IBV_EVENT_CQ_ERR), CHECK(event.element.cq == small, 1);
	/* Two events of the channel, acknowledged one by one; a third one is not read. */
	for (int each = 0; each < 3; each++) {
		CHECK(ibv_req_notify_cq(cq, 0), 0), CHECK(post_write(right, each, 8, IBV_SEND_SIGNALED, mr->rkey), 0);
		CHECK(next_of(cq).wr_id, each);
		if (each < 2)
			CHECK(ibv_get_cq_event(channel, &found, &about), 0), CHECK(found == cq, 1);
	}
	CHECK(ibv_destroy_qp(left), 0), CHECK(ibv_destroy_qp(right), 0);
	thread = begun(destroys_cq, small), ibv_ack_async_event(&event), pthread_join(thread, NULL);
	thread = begun(destroys_cq, cq), ibv_ack_cq_events(cq, 1);
	usleep(50000), CHECK(__atomic_load_n(&ended, __ATOMIC_SEQ_CST), 0);
	ibv_ack_cq_events(cq, 1), pthread_join(thread, NULL);
	CHECK(ibv_destroy_comp_channel(channel), 0), CHECK(ibv_dereg_mr(mr), 0);
	CHECK(ibv_dealloc_pd(pd), 0), CHECK(ibv_close_device(context), 0);
	return wrong;
}
