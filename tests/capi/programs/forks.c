/* SPDX-License-Identifier: BSD-2-Clause */
/* Children that are forked under traffic: what they do is refused, and none hangs. The parent goes on and exits openly. */
#include "pair.h"

#include <signal.h>
#include <sys/wait.h>

#define CHILDREN 50

int main(void)
{
	open_all();
	struct ibv_cq *cq = ibv_create_cq(context, 256, NULL, NULL, 0);
	struct ibv_qp *left = made(cq, 64), *right = made(cq, 64);

	connect_both(left, right);
	for (int each = 0; each < CHILDREN; each++) {
		CHECK(post_write(left, each, ROOM, IBV_SEND_SIGNALED, mr->rkey), 0);
		pid_t child = fork();

		if (!child) {
			struct ibv_wc wc;
			int good;

			alarm(20);
			good = post_write(left, 1, 8, 0, mr->rkey) == EIO && ibv_destroy_qp(left) == EIO;
			good = good && ibv_poll_cq(cq, 1, &wc) == -EIO && post_receive(left, 1) == EIO;
			good = good && !ibv_open_device(ibv_get_device_list(NULL)[0]) && errno == ENOSYS;
			exit(!good);
		}
		int status;

		waitpid(child, &status, 0);
		CHECK(status, 0);
		struct ibv_wc wc = next_of(cq);

		CHECK(wc.status, IBV_WC_SUCCESS), CHECK(wc.wr_id, each);
	}
	/* Nothing is closed: a program may just end. */
	return wrong;
}
