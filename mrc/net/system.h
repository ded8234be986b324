/* SPDX-License-Identifier: BSD-2-Clause */
/* What the loop asks of the system, for compiled modules: system.py in C. All but `raise_signal` run without the
 * interpreter's lock. */
#ifndef MRC_SYSTEM_H
#define MRC_SYSTEM_H

#include <Python.h>

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* As the words that mmsg.py fills. */
_Static_assert(sizeof(struct mmsghdr) == 64 && sizeof(struct iovec) == 16, "written for 64-bit Linux");
_Static_assert(offsetof(struct msghdr, msg_namelen) == 8 && offsetof(struct msghdr, msg_iov) == 16 &&
               offsetof(struct msghdr, msg_iovlen) == 24 && offsetof(struct msghdr, msg_control) == 32 &&
               offsetof(struct msghdr, msg_controllen) == 40 && offsetof(struct mmsghdr, msg_len) == 56,
               "written for 64-bit Linux");

#define SYSTEM_NS 1000000000LL
#define SYSTEM_MOST_FDS 63 /* as many as a signed mask has bits, and -1 besides */
#define SYSTEM_RAISED 100000 /* beyond every errno */
#define SYSTEM_MEMINFO 55  /* SO_MEMINFO; its first number is what waits */

/* Run the handlers of signals that came. What one of them raises is kept for `raise_signal`. */
static PyObject *system_raised[3];

static void system_run_handlers(void)
{
    PyGILState_STATE state = PyGILState_Ensure();

    if (PyErr_CheckSignals() < 0) {
        for (int each = 0; each < 3; each++)
            Py_CLEAR(system_raised[each]);
        PyErr_Fetch(&system_raised[0], &system_raised[1], &system_raised[2]);
    }
    PyGILState_Release(state);
}

static inline int system_raise_signal(void)
{
    if (system_raised[0] == NULL)
        return 0;
    PyErr_Restore(system_raised[0], system_raised[1], system_raised[2]);
    system_raised[0] = system_raised[1] = system_raised[2] = NULL;
    return -1;
}

static inline int system_send(int fd, long long messages, unsigned int count)
{
    int sent;

    while ((sent = sendmmsg(fd, (struct mmsghdr *)(uintptr_t)messages, count, 0)) < 0 && errno == EINTR) {
        system_run_handlers();
        if (system_raised[0] != NULL)
            return -SYSTEM_RAISED;
    }
    return sent >= 0 ? sent : -errno;
}

static inline int system_receive(int fd, long long messages, unsigned int count)
{
    int received = recvmmsg(fd, (struct mmsghdr *)(uintptr_t)messages, count, MSG_DONTWAIT, NULL);

    return received >= 0 ? received : -errno;
}

static inline long long system_clock(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * SYSTEM_NS + now.tv_nsec;
}

static inline void system_sleep(long long ns)
{
    struct timespec time = {ns / SYSTEM_NS, ns % SYSTEM_NS};

    nanosleep(&time, NULL);
}

static inline void system_yield_processor(void) { sched_yield(); }

static inline long long system_wait_at(const long long *fds, int count, long long ns)
{
    struct pollfd polled[SYSTEM_MOST_FDS];
    struct timespec time = {ns / SYSTEM_NS, ns % SYSTEM_NS};
    long long readable = 0;
    int found;

    if (count > SYSTEM_MOST_FDS)
        count = SYSTEM_MOST_FDS;
    for (int each = 0; each < count; each++)
        polled[each] = (struct pollfd){(int)fds[each], POLLIN, 0};
    found = ppoll(polled, (nfds_t)count, &time, NULL);
    if (found < 0)
        return -1;
    for (int each = 0; found > 0 && each < count; each++)
        if (polled[each].revents)
            readable |= 1LL << each;
    return readable;
}
#define system_wait(view, count, ns) system_wait_at((const long long *)(view).data, (count), (ns))

static inline long long system_waiting(int fd)
{
    uint32_t figures[9];
    socklen_t length = sizeof figures;

    return getsockopt(fd, SOL_SOCKET, SYSTEM_MEMINFO, figures, &length) == 0 ? figures[0] : 0;
}

static inline void system_ring(int bell)
{
    uint64_t one = 1;

    /* It is full, which wakes as well, or it is closed: there is nothing to be done about either. */
    if (write(bell, &one, sizeof one) < 0)
        return;
}

static inline void system_hear(int bell)
{
    uint64_t rung;

    if (read(bell, &rung, sizeof rung) < 0)
        return;
}

/* A lock: whether it is held, and how many ask for it. */
static inline int system_try_hold_at(long long *lock)
{
    return __atomic_exchange_n(&lock[0], 1, __ATOMIC_ACQUIRE) == 0;
}
static inline void system_give_back_at(long long *lock) { __atomic_store_n(&lock[0], 0, __ATOMIC_RELEASE); }
static inline void system_ask_at(long long *lock, long long more) { __atomic_fetch_add(&lock[1], more, __ATOMIC_SEQ_CST); }
static inline int system_is_asked_for_at(long long *lock) { return __atomic_load_n(&lock[1], __ATOMIC_ACQUIRE) != 0; }
#define system_try_hold(view) system_try_hold_at((long long *)(view).data)
#define system_give_back(view) system_give_back_at((long long *)(view).data)
#define system_ask(view, more) system_ask_at((long long *)(view).data, (more))
#define system_is_asked_for(view) system_is_asked_for_at((long long *)(view).data)

#endif
