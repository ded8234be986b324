/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The pointers that this library has given and that are not closed. What is destroyed, or another library's, is refused
 * before anything is read there. Posting and polling do not ask here: the header has read from the pointer already.
 */
#include "objects.h"

#include <stdlib.h>

#define FIRST_PLACES 1024
#define GONE ((const void *)1) /* there was one: others may lie behind it */

struct live {
	const void *object;
	enum kind kind;
};

static struct live *places;
static size_t room, used; /* `used` counts what is gone too */
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;

static size_t first_place(const void *object) { return ((uintptr_t)object >> 4) * 0x9e3779b97f4a7c15u >> 20 & (room - 1); }

static struct live *place_of(const void *object)
{
	for (size_t at = room ? first_place(object) : 0; room && places[at].object; at = (at + 1) & (room - 1))
		if (places[at].object == object)
			return &places[at];
	return NULL;
}

static void put(const void *object, enum kind kind)
{
	size_t at = first_place(object);

	while (places[at].object)
		at = (at + 1) & (room - 1);
	places[at] = (struct live){object, kind};
	used++;
}

/* Room for one more, without what is gone. */
static int make_room(void)
{
	struct live *before = places;
	size_t count = room, living = 0;

	if (room && used + 1 <= room / 2)
		return 0;
	for (size_t at = 0; at < count; at++)
		living += before[at].object && before[at].object != GONE;
	size_t wanted = FIRST_PLACES;

	while (wanted < 4 * (living + 1))
		wanted *= 2;
	struct live *made = calloc(wanted, sizeof *made);

	if (!made)
		return ENOMEM;
	places = made;
	room = wanted;
	used = 0;
	for (size_t at = 0; at < count; at++)
		if (before[at].object && before[at].object != GONE)
			put(before[at].object, before[at].kind);
	free(before);
	return 0;
}

void *mrc_new(enum kind kind, size_t size)
{
	void *object = calloc(1, size);

	if (!object)
		return mrc_null(REFUSE(REFUSED_NO_MEMORY));
	pthread_rwlock_wrlock(&lock);
	int error = make_room();

	if (!error)
		put(object, kind);
	pthread_rwlock_unlock(&lock);
	if (!error)
		return object;
	free(object);
	return mrc_null(REFUSE(REFUSED_NO_MEMORY));
}

void mrc_delete(void *object)
{
	pthread_rwlock_wrlock(&lock);
	struct live *found = place_of(object);

	if (found)
		found->object = GONE;
	pthread_rwlock_unlock(&lock);
	free(object);
}

int mrc_is_no(const void *object, enum kind kind)
{
	if (!object)
		return EINVAL;
	if (mrc_is_forked()) /* the lock may be held for ever */
		return EIO;
	pthread_rwlock_rdlock(&lock);
	const struct live *found = place_of(object);
	int error = found && found->kind == kind ? 0 : EINVAL;

	pthread_rwlock_unlock(&lock);
	return error;
}

int mrc_checked(const char *function, const void *object, enum kind kind)
{
	static const char *const names[] = {[CONTEXT] = "context", [PD] = "PD", [MR] = "MR", [CQ] = "CQ",
		[CHANNEL] = "completion channel", [QP] = "QP", [MRC_CONTEXT] = "context of mrc.h", [HINT] = "hint"};
	int error = mrc_is_no(object, kind);

	if (error == EIO)
		return mrc_refuse(function, REFUSED_FORKED);
	return error ? mrc_refuse(function, REFUSED_NO_SUCH, names[kind]) : 0;
}
