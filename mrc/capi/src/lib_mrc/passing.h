/* SPDX-License-Identifier: BSD-2-Clause */
/* Functions that are passed on to the libibverbs.so.1 that lies beside this library, by a table of its. */
#ifndef MRC_PASSING_H
#define MRC_PASSING_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>

/* Of the other library: NULL where the caller's table has another size, and the two are not of one build. */
typedef const void *mrc_table_function(size_t size);
/* The table that a function of this name gives. NULL after a line on stderr. */
const void *mrc_table(const char *name, size_t size);

/* Makes api(): the functions, or NULL and ENOSYS. Threads that come at once find the same. */
#define FINDS(type, table)                                                                                             \
	static const type *api(void)                                                                                   \
	{                                                                                                              \
		static const type *found;                                                                              \
		const type *known = __atomic_load_n(&found, __ATOMIC_ACQUIRE);                                         \
                                                                                                                       \
		if (!known && (known = mrc_table(table, sizeof *known)))                                               \
			__atomic_store_n(&found, known, __ATOMIC_RELEASE);                                             \
		if (!known)                                                                                            \
			errno = ENOSYS;                                                                                \
		return known;                                                                                          \
	}

#define PASSES_ON(type, name, parameters, arguments, failed)                                                           \
	EXPORT type name parameters                                                                                    \
	{                                                                                                              \
		__typeof__(api()) to = api();                                                                          \
                                                                                                                       \
		return to ? to->name arguments : (failed);                                                             \
	}
#define PASSES_ON_ALONE(name, parameters, arguments)                                                                   \
	EXPORT void name parameters                                                                                    \
	{                                                                                                              \
		__typeof__(api()) to = api();                                                                          \
                                                                                                                       \
		if (to)                                                                                                \
			to->name arguments;                                                                            \
	}

/* `supported` is set whatever fails. */
static inline int unsupported(int *supported)
{
	if (supported)
		*supported = 0;
	return -1;
}

static inline void put(uint32_t *place, uint32_t version)
{
	if (place)
		*place = version;
}

#endif
