/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Events that a program has read and has to acknowledge. What they are of is destroyed when all are: another thread may
 * have the pointer still. libibverbs waits as long.
 */
#include "objects.h"

#include <time.h>

#define SOON_S 1

void mrc_acknowledge(pthread_mutex_t *mutex, pthread_cond_t *cond, uint32_t *counted, uint32_t count)
{
	pthread_mutex_lock(mutex);
	*counted += count;
	pthread_cond_broadcast(cond);
	pthread_mutex_unlock(mutex);
}

void mrc_await(const char *function, pthread_mutex_t *mutex, pthread_cond_t *cond, const uint32_t *counted, uint32_t told,
	const char *awaited)
{
	struct timespec soon;

	clock_gettime(CLOCK_REALTIME, &soon);
	soon.tv_sec += SOON_S;
	pthread_mutex_lock(mutex);
	/* More than there were are no fewer: programs may count them their own way. */
	while ((int32_t)(told - *counted) > 0 && !pthread_cond_timedwait(cond, mutex, &soon))
		;
	if ((int32_t)(told - *counted) > 0)
		mrc_refuse(function, REFUSED_UNACKNOWLEDGED, told - *counted, awaited);
	while ((int32_t)(told - *counted) > 0)
		pthread_cond_wait(cond, mutex);
	pthread_mutex_unlock(mutex);
}
