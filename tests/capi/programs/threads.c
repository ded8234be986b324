/* SPDX-License-Identifier: BSD-2-Clause */
/* 16 threads that post and poll, on QPs of their own and on one that they share, under a timer's signals; then the device
 * opened and closed over and over. */
#include "pair.h"

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>

#define THREADS 16
#ifdef SANITIZED /* which sees an access that nothing orders, however seldom they meet, and looks at no pages */
#define WRITES 100
#define OPENS 200
#else
#define WRITES 400
#define OPENS 2000
#endif

static struct ibv_qp *shared;
static struct ibv_cq *shared_cq;
static pthread_t first;
static volatile int signals, elsewhere;

static void on_alarm(int number)
{
	(void)number;
	signals++;
	if (!pthread_equal(pthread_self(), first))
		elsewhere++;
}

static void *work(void *argument)
{
	struct ibv_cq *cq = ibv_create_cq(context, 64, NULL, NULL, 0);
	struct ibv_qp *left = made(cq, 16), *right = made(cq, 16);
	long number = (long)argument;

	connect_both(left, right);
	for (int each = 0; each < WRITES; each++) {
		CHECK(post_write(left, each, 256, IBV_SEND_SIGNALED, mr->rkey), 0);
		struct ibv_wc wc = next_of(cq);

		CHECK(wc.wr_id, each), CHECK(wc.status, IBV_WC_SUCCESS);
		while (post_write(shared, number, 64, IBV_SEND_SIGNALED, mr->rkey) == ENOMEM)
			sched_yield();
		/* Whoever's it was: as many come as were posted. */
		CHECK(next_of(shared_cq).status, IBV_WC_SUCCESS);
	}
	CHECK(ibv_destroy_qp(left), 0), CHECK(ibv_destroy_qp(right), 0), CHECK(ibv_destroy_cq(cq), 0);
	return NULL;
}

/* Threads of the library that would take a signal of the program's. */
static int open_to_signals(void)
{
	DIR *directory = opendir("/proc/self/task");
	char path[300], line[200];
	int count = 0;

	for (struct dirent *each; (each = readdir(directory));) {
		unsigned long long blocked;

		snprintf(path, sizeof path, "/proc/self/task/%s/status", each->d_name);
		int number = atoi(each->d_name);
		FILE *file = !number || number == getpid() ? NULL : fopen(path, "r");

		while (file && fgets(line, sizeof line, file))
			if (sscanf(line, "SigBlk: %llx", &blocked) == 1)
				count += !(blocked >> (SIGALRM - 1) & 1);
		if (file)
			fclose(file);
	}
	closedir(directory);
	return count;
}

/* Pages of the process that are in memory. */
static long pages(void)
{
	FILE *file = fopen("/proc/self/statm", "r");
	long all = 0, resident = 0;

	CHECK(fscanf(file, "%ld %ld", &all, &resident), 2);
	fclose(file);
	return resident;
}

static int descriptors(void)
{
	DIR *directory = opendir("/proc/self/fd");
	int count = 0;

	while (readdir(directory))
		count++;
	closedir(directory);
	return count;
}

int main(void)
{
	struct itimerval often = {{0, 2000}, {0, 2000}}, never = {{0, 0}, {0, 0}};
	pthread_t threads[THREADS];
	sigset_t alarms;

	open_all();
	CHECK(open_to_signals(), 0);
	shared_cq = ibv_create_cq(context, 4096, NULL, NULL, 0);
	shared = made(shared_cq, 64);
	struct ibv_qp *other = made(shared_cq, 64);

	connect_both(shared, other);
	/* Only this thread takes them: those of the endpoint must not. */
	first = pthread_self();
	signal(SIGALRM, on_alarm);
	sigemptyset(&alarms);
	sigaddset(&alarms, SIGALRM);
	pthread_sigmask(SIG_BLOCK, &alarms, NULL);
	for (long each = 0; each < THREADS; each++)
		pthread_create(&threads[each], NULL, work, (void *)each);
	pthread_sigmask(SIG_UNBLOCK, &alarms, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	for (int each = 0; each < THREADS; each++)
		pthread_join(threads[each], NULL);
	setitimer(ITIMER_REAL, &never, NULL);
	CHECK(signals > 10, 1), CHECK(elsewhere, 0);
	CHECK(ibv_destroy_qp(shared), 0), CHECK(ibv_destroy_qp(other), 0), CHECK(ibv_destroy_cq(shared_cq), 0);
	/* Python collects what it no longer needs now and then: some 250 pages, of which the C library may or may not give
	 * back those at the end. The most that there were is the same before and after. */
	long before = 0, after = 0, descriptors_before = 0;

	for (int each = 0; each < OPENS; each++) {
		/* What is allocated once, or kept to be used again, is there by then, also where Python had to compile its modules. */
		long *most = each < OPENS / 2 ? &before : &after, now = each < OPENS / 4 || each % 10 ? 0 : pages();

		if (now > *most)
			*most = now;
		if (each == OPENS / 2)
			descriptors_before = descriptors();
		struct ibv_context *again = ibv_open_device(ibv_get_device_list(NULL)[0]);
		struct ibv_comp_channel *channel = ibv_create_comp_channel(again);
		struct ibv_pd *domain = ibv_alloc_pd(again);
		struct ibv_mr *region = ibv_reg_mr(domain, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
		struct ibv_cq *cq = ibv_create_cq(again, 64, NULL, channel, 0);
		struct ibv_qp_init_attr attr = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .cap = {16, 16, 1, 1, 64}};
		struct ibv_qp *qp = ibv_create_qp(domain, &attr);

		CHECK(to_init(qp), 0), CHECK(to_rtr(qp, qp), 0), CHECK(ibv_destroy_qp(qp), 0), CHECK(ibv_destroy_cq(cq), 0);
		CHECK(ibv_dereg_mr(region), 0);
		CHECK(ibv_destroy_comp_channel(channel), 0), CHECK(ibv_dealloc_pd(domain), 0), CHECK(ibv_close_device(again), 0);
	}
	CHECK(descriptors(), descriptors_before), CHECK(before > 0, 1);
#ifndef SANITIZED /* whose own memory grows */
	if (after > before + 128) {
		printf("%ld pages more\n", after - before);
		wrong = 1;
	}
#endif
	return wrong;
}
