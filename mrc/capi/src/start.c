/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Finds a Python of the right version, in this process or in its library, and has it fill in the function to call.
 * Nothing of Python is linked: a program without an endpoint needs none.
 */
#define _GNU_SOURCE
#include "objects.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef MRC_PYTHON
#error "MRC_PYTHON is the version of the Python that this library works with: 3.11"
#endif
#define LIBRARY "libpython" MRC_PYTHON ".so.1.0"

static pthread_mutex_t starting = PTHREAD_MUTEX_INITIALIZER;
static int (*ask)(int what, word *words); /* what Python fills in */
static int is_forked;

static int forked(int what, word *words)
{
	(void)what, (void)words;
	return EIO;
}

static void in_the_child(void)
{
	/* The threads of the endpoint are not there: whoever asked one would wait for ever. */
	is_forked = 1;
	if (ask)
		ask = forked;
	pthread_mutex_init(&starting, NULL);
	pthread_mutex_init(&mrc_lists, NULL);
}

int mrc_is_forked(void) { return is_forked; }

/* Signals of the calling thread while it is in Python. */
struct signals {
	sigset_t before;
	int pipe_was_pending;
};

static int pipe_is_pending(void)
{
	sigset_t pending;

	return !sigpending(&pending) && sigismember(&pending, SIGPIPE);
}

/*
 * Threads that begin while signals are blocked have them blocked for good: signals are for the program's own threads.
 * SIGPIPE is blocked alone in calls that wait: the endpoint at the other end of a control socket may end at any time.
 */
static void block_signals(struct signals *signals, int pipe_alone)
{
	sigset_t these;

	sigfillset(&these);
	if (pipe_alone)
		sigemptyset(&these), sigaddset(&these, SIGPIPE);
	signals->pipe_was_pending = pipe_is_pending();
	pthread_sigmask(SIG_BLOCK, &these, &signals->before);
}

/* As they were. A SIGPIPE of a write in the meantime is nobody's: the write has said so. */
static void let_signals(const struct signals *signals)
{
	static const struct timespec now;
	sigset_t pipe;
	int saved = errno;

	sigemptyset(&pipe), sigaddset(&pipe, SIGPIPE);
	if (!signals->pipe_was_pending && pipe_is_pending())
		while (sigtimedwait(&pipe, NULL, &now) < 0 && errno == EINTR)
			;
	pthread_sigmask(SIG_SETMASK, &signals->before, NULL);
	errno = saved;
}

int mrc_call(enum call what, word *words)
{
	struct signals signals;
	/* Calls that wait start no thread, and the program has its signals meanwhile. */
	int waits = what == CALL_ASYNC_EVENT || what == CALL_DESTROY_QP || what == CALL_OPERATE, error;

	if (!ask)
		return ENOSYS;
	block_signals(&signals, waits);
	error = ask(what, words);
	let_signals(&signals);
	return error;
}

static int refuse(const char *why, const char *what)
{
	fprintf(stderr, "mrc: %s%s\n", why, what);
	return ENOSYS;
}

/* The directory of this library without its last `up` parts. */
static int own_directory(char *path, int up)
{
	Dl_info info;

	if (!dladdr((void *)own_directory, &info) || !realpath(info.dli_fname, path))
		return 0;
	for (; up >= 0; up--) {
		char *slash = strrchr(path, '/');

		if (!slash)
			return 0;
		*slash = 0;
	}
	return 1;
}

/* A line of a file, by its number. */
static int line_of(const char *path, int number, char *line)
{
	FILE *file = fopen(path, "re");
	int found = 0;

	while (file && !found && fgets(line, PATH_MAX, file))
		found = number-- == 0;
	if (file)
		fclose(file);
	line[strcspn(line, "\n")] = 0;
	return found;
}

/*
 * Where Python is, and where the packages are. A build in a checkout writes both beside this library. In a wheel
 * they follow from where it lies: PREFIX/lib/pythonX.Y/site-packages/mrc/capi/lib, with the real Python's directory
 * in PREFIX/pyvenv.cfg if that is a virtual environment.
 */
static void find(char *base, char *packages)
{
	char path[PATH_MAX + 16], line[PATH_MAX] = "";

	base[0] = packages[0] = 0;
	if (own_directory(path, 0)) {
		strcat(path, "/python.txt");
		if (line_of(path, 0, base) && line_of(path, 1, packages))
			return;
	}
	if (!own_directory(packages, 3) || !own_directory(base, 6))
		return;
	snprintf(path, sizeof path, "%s/pyvenv.cfg", base);
	for (int number = 0; line_of(path, number, line); number++)
		if (!strncmp(line, "home = ", 7)) {
			char *bin = strrchr(line, '/');

			if (bin)
				*bin = 0;
			strcpy(base, line + 7);
			return;
		}
}

static void *open_library(const char *base)
{
	const char *named = getenv("MRC_LIBPYTHON");
	char path[PATH_MAX + 64];
	void *found;

	if (named)
		return dlopen(named, RTLD_NOW | RTLD_GLOBAL);
	snprintf(path, sizeof path, "%s/lib/%s", base, LIBRARY);
	found = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
	return found ? found : dlopen(LIBRARY, RTLD_NOW | RTLD_GLOBAL);
}

static int run(void *python, const char *packages)
{
	int (*run_string)(const char *) = (int (*)(const char *))dlsym(python, "PyRun_SimpleString");
	char text[2 * PATH_MAX];

	snprintf(text, sizeof text,
		 "import site, sys\n"
		 "if not any(each == '''%s''' for each in sys.path): site.addsitedir('''%s''')\n"
		 "from mrc.capi.host import fill\n"
		 "fill(%llu)\n",
		 packages, packages, (unsigned long long)(uintptr_t)&ask);
	if (run_string(text) || !ask)
		return refuse("Python cannot load the package mrc from ", packages);
	return 0;
}

static int start(void)
{
	char base[PATH_MAX], packages[PATH_MAX];
	/* This process: RTLD_DEFAULT cannot be told from no library. */
	void *python = dlsym(RTLD_DEFAULT, "Py_GetVersion") ? dlopen(NULL, RTLD_NOW) : NULL;
	int is_own, failed, got = 0;

	find(base, packages);
	if (!python && !(python = open_library(base)))
		return refuse("there is no " LIBRARY ": install it, or name it in MRC_LIBPYTHON: ", dlerror());
	const char *version = ((const char *(*)(void))dlsym(python, "Py_GetVersion"))();

	if (strncmp(version, MRC_PYTHON ".", strlen(MRC_PYTHON) + 1))
		return refuse("this library works with Python " MRC_PYTHON ", this process has ", version);
	is_own = !((int (*)(void))dlsym(python, "Py_IsInitialized"))();
	if (is_own) {
		const char *home = getenv("PYTHONHOME");

		if (!home && base[0])
			setenv("PYTHONHOME", base, 1);
		/* 0: its handlers of signals are not this program's. */
		((void (*)(int))dlsym(python, "Py_InitializeEx"))(0);
		if (!home)
			unsetenv("PYTHONHOME");
	} else {
		got = ((int (*)(void))dlsym(python, "PyGILState_Ensure"))();
	}
	failed = run(python, packages);
	if (is_own)
		((void *(*)(void))dlsym(python, "PyEval_SaveThread"))();
	else
		((void (*)(int))dlsym(python, "PyGILState_Release"))(got);
	if (!failed)
		pthread_atfork(NULL, NULL, in_the_child);
	return failed;
}

int mrc_start(void)
{
	struct signals signals;
	int failed = 0;

	if (is_forked)
		return refuse("a child that was forked has no endpoint: open the device before, or after exec", "");
	block_signals(&signals, 0);
	pthread_mutex_lock(&starting);
	if (!ask)
		failed = start();
	pthread_mutex_unlock(&starting);
	let_signals(&signals);
	return failed;
}
