/* SPDX-License-Identifier: BSD-2-Clause */
/* When posting wakes the endpoint: the library's own source, with this program in the place of all else. */
#include "post.c"

#include <stdio.h>

#define DEPTH 16

word *mrc_bells;
static word bells[BELL_WORDS], words[QP_WORDS] = {[SEND_MASK] = DEPTH - 1, [RECEIVE_MASK] = DEPTH - 1, [STATE] = IBV_QPS_RTS};
static word sends[DEPTH * SEND_WORDS], receives[DEPTH];
static int wrong, woken;

int mrc_is_forked(void) { return 0; }
void mrc_polled_anew(void) {}
void mrc_posted_here(void) {}
int mrc_refused(const char *what) { return printf("%s\n", what), EOPNOTSUPP; }
int mrc_refuse(const char *function, enum refusal refusal, ...) { return printf("%s: %d\n", function, refusal), EINVAL; }
const char *mrc_state_name(word state) { return (void)state, ""; }
word mrc_local_address(struct ibv_pd *pd, uint32_t lkey, uint64_t addr, uint32_t length)
{
	return (void)pd, (void)lkey, (void)length, (word)addr;
}

ssize_t write(int fd, const void *from, size_t size)
{
	woken += fd == 7;
	return (void)from, (ssize_t)size;
}

static void check(int line, int found, int wanted)
{
	if (found != wanted)
		printf("line %d: woken %d times, not %d\n", line, found, wanted), wrong = 1;
}

/* The endpoint does this, and a program that posts so many sends, or receives. How often was it woken? */
static int posts(word asleep, int count, struct qp *qp, int as_receives)
{
	struct ibv_send_wr send = {.opcode = IBV_WR_RDMA_WRITE}, *bad_send;
	struct ibv_recv_wr receive = {0}, *bad_receive;

	woken = 0;
	for (; count; count--) {
		bells[ASLEEP] = asleep;
		if (as_receives ? mrc_ring_receive(&qp->ibv, &receive, &bad_receive) : mrc_ring_send(&qp->ibv, &send, &bad_send))
			wrong = 1;
		/* It takes all that there is. */
		words[SENDS_ENDED] = words[SENDS_POSTED], words[RECEIVES_ENDED] = words[RECEIVES_POSTED];
	}
	return woken;
}

static int polls(word asleep, word rung, struct cq *cq)
{
	woken = 0;
	bells[ASLEEP] = asleep, bells[RUNG] = rung;
	mrc_end_burst(cq);
	return woken;
}

int main(void)
{
	struct cq cq = {0}, other = {0};
	struct qp qp = {.ibv = {.send_cq = &cq.ibv, .recv_cq = &other.ibv}, .words = words, .sends = sends,
		.receives = receives, .cap = {DEPTH, DEPTH, 1, 1, 0}, .may_post = 1};

	mrc_bells = bells;
	bells[BELL] = 7;
	pthread_spin_init(&qp.send_lock, PTHREAD_PROCESS_PRIVATE), pthread_spin_init(&qp.receive_lock, PTHREAD_PROCESS_PRIVATE);
	/* Awake it is never woken, asleep always. */
	check(__LINE__, posts(AWAKE, 10, &qp, 0), 0);
	check(__LINE__, posts(SLEEPS, 10, &qp, 0), 10);
	check(__LINE__, bells[ASLEEP], AWAKE), check(__LINE__, bells[RUNG], IN_BURST), check(__LINE__, bells[BITS], 1);
	/* It dozes: the burst goes on, until the program looks for completions. */
	check(__LINE__, posts(DOZES, 10, &qp, 0), 0);
	check(__LINE__, polls(DOZES, IN_BURST, &cq), 1), check(__LINE__, bells[ASLEEP], AWAKE);
	/* Nothing was posted since. */
	check(__LINE__, polls(DOZES, IN_BURST, &cq), 0);
	/* The first ones after that wake it. A list is one. */
	check(__LINE__, posts(DOZES, 1, &qp, 0), 1), check(__LINE__, bells[RUNG], SINGLY);
	check(__LINE__, posts(DOZES, 1, &qp, 0), 1), check(__LINE__, bells[RUNG], SINGLY);
	check(__LINE__, posts(DOZES, 8, &qp, 0), 0), check(__LINE__, bells[RUNG], IN_BURST);
	/* What it has taken already, or sees by itself, needs no waking. */
	check(__LINE__, polls(DOZES, SILENT, &cq), 0);
	check(__LINE__, posts(DOZES, 3, &qp, 0), 2), check(__LINE__, polls(AWAKE, IN_BURST, &cq), 0);
	/* Receives are counted where their completions come. */
	check(__LINE__, posts(DOZES, 4, &qp, 1), 2), check(__LINE__, posts(DOZES, 4, &qp, 0), 2);
	check(__LINE__, polls(DOZES, IN_BURST, &other), 1), check(__LINE__, posts(DOZES, 3, &qp, 1), 2);
	return wrong;
}
