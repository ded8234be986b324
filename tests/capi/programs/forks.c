/* SPDX-License-Identifier: BSD-2-Clause */
/* Children that are forked under traffic: what they do is refused, and none hangs. The parent goes on and exits openly. */
#include "pair.h"

#include <signal.h>
#include <sys/wait.h>

#define CHILDREN 60

int main(void)
{
	open_all();
	struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
	struct ibv_cq *cq = ibv_create_cq(context, 256, NULL, channel, 0);
	struct ibv_qp *left = made(cq, 64), *right = made(cq, 64);

	connect_both(left, right);
	for (int each = 0; each < CHILDREN; each++) {
		CHECK(ibv_req_notify_cq(cq, 0), 0), CHECK(post_write(left, each, ROOM, IBV_SEND_SIGNALED, mr->rkey), 0);
		pid_t child = fork();

		if (!child) {
			struct ibv_cq *found;
			struct ibv_wc wc;
			void *about;
			int good;

			alarm(20);
			good = post_write(left, 1, 8, 0, mr->rkey) == EIO && ibv_destroy_qp(left) == EIO;
			good = good && ibv_poll_cq(cq, 1, &wc) == -EIO && post_receive(left, 1) == EIO;
			good = good && !ibv_open_device(ibv_get_device_list(NULL)[0]) && errno == ENOSYS;
			/* Nor does it take what is its parent's. */
			good = good && ibv_req_notify_cq(cq, 0) == EIO && ibv_get_cq_event(channel, &found, &about) == -1 && errno == EIO;
			good = good && ibv_destroy_cq(cq) == EIO && ibv_dereg_mr(mr) == EIO && ibv_close_device(context) == EIO;
			good = good && !ibv_create_cq(context, 4, NULL, NULL, 0) && errno == EIO && to_init(left) == EIO;
			exit(!good);
		}
		int status;

		waitpid(child, &status, 0);
		CHECK(status, 0);
		struct ibv_cq *found;
		void *about;

		CHECK(ibv_get_cq_event(channel, &found, &about), 0), ibv_ack_cq_events(cq, 1);
		struct ibv_wc wc = next_of(cq);

		CHECK(wc.status, IBV_WC_SUCCESS), CHECK(wc.wr_id, each);
	}
	/* Nothing is closed: a program may just end. */
	return wrong;
}
