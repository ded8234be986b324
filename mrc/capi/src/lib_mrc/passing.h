/* SPDX-License-Identifier: BSD-2-Clause */
/* Functions that are passed on to the libibverbs.so.1 that lies beside this library, by a table of its. */
#ifndef MRC_PASSING_H
#define MRC_PASSING_H

#include <stddef.h>
#include <stdint.h>

/* Of the other library: NULL where the caller's table has another size, and the two are not of one build. */
typedef const void *mrc_table_function(size_t size);
/* The table that a function of this name gives. NULL after a line on stderr. */
const void *mrc_table(const char *name, size_t size);

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

static inline void put(uint32_t *place, uint32_t version)
{
	if (place)
		*place = version;
}

#endif
