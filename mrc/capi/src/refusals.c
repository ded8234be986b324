/* SPDX-License-Identifier: BSD-2-Clause */
/* Tells on stderr what is refused. */
#include "refusals.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MOST_LINE 512
#define MOST_MISSING 128

#define ROW(name, number, told, format) {number, told, format},
static const struct {
	int number;
	enum told told;
	const char *format;
} refusals[] = {MRC_REFUSALS(ROW)};

static const char *without_prefix(const char *function)
{
	function += *function == '_';
	return strncmp(function, "ibv_", 4) && strncmp(function, "mrc_", 4) ? function : function + 4;
}

/* In one piece, past stdio: a child that was forked has its locks as they were. */
static void say(char *line, size_t length)
{
	if (length > MOST_LINE - 1)
		length = MOST_LINE - 1;
	line[length++] = '\n';
	if (write(STDERR_FILENO, line, length) < 0)
		return; /* nobody listens */
}

int mrc_refuse(const char *function, enum refusal which, ...)
{
	static char is_told[REFUSALS];
	char line[MOST_LINE + 1];
	int before = errno, length;
	va_list values;

	if (refusals[which].told == ONCE && __atomic_exchange_n(&is_told[which], 1, __ATOMIC_RELAXED))
		return refusals[which].number;
	length = snprintf(line, MOST_LINE, "mrc: %s: ", without_prefix(function));
	va_start(values, which);
	length += vsnprintf(line + length, (size_t)(MOST_LINE - length), refusals[which].format, values);
	va_end(values);
	say(line, (size_t)length);
	/* What the system refuses has the system's number. */
	return refusals[which].number ? refusals[which].number : before;
}

int mrc_refused(const char *what)
{
	static const char *told[MOST_MISSING];
	char line[MOST_LINE + 1];

	for (int each = 0; each < MOST_MISSING; each++) {
		const char *empty = NULL;

		if (__atomic_compare_exchange_n(&told[each], &empty, what, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
			break;
		if (empty == what)
			return errno = EOPNOTSUPP;
	}
	say(line, (size_t)snprintf(
			  line, MOST_LINE, "mrc: %s: MRC has no such thing, or this library does not have it", what));
	return errno = EOPNOTSUPP;
}
