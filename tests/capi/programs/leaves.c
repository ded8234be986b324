/* SPDX-License-Identifier: BSD-2-Clause */
/* The program ends while threads post and poll, in every way a program may end. The argument says how. */
#include "pair.h"

#include <pthread.h>

#define THREADS 4

static void *work(void *argument)
{
	struct ibv_cq *cq = ibv_create_cq(context, 256, NULL, NULL, 0);
	struct ibv_qp *left = made(cq, 64), *right = made(cq, 64);
	struct ibv_wc wc[16];

	connect_both(left, right);
	while (context) {
		post_write(left, 1, 70000, IBV_SEND_SIGNALED, mr->rkey);
		ibv_poll_cq(cq, 16, wc);
	}
	return argument;
}

int main(int count, char **arguments)
{
	pthread_t threads[THREADS];

	open_all();
	for (int each = 0; each < THREADS; each++)
		pthread_create(&threads[each], NULL, work, NULL);
	usleep(100000);
	switch (count > 1 ? arguments[1][0] : 0) {
	case 'e': exit(wrong);
	case '_': _exit(wrong);
	case 'q': quick_exit(wrong);
	default: return wrong;
	}
}
