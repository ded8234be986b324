/* The two system calls that carry packets, for compiled modules: system.py in C. */
#ifndef MRC_SYSTEM_H
#define MRC_SYSTEM_H

#include <Python.h>

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

/* As the words that mmsg.py fills. */
_Static_assert(sizeof(struct mmsghdr) == 64 && sizeof(struct iovec) == 16, "written for 64-bit Linux");
_Static_assert(offsetof(struct msghdr, msg_namelen) == 8 && offsetof(struct msghdr, msg_iov) == 16 &&
               offsetof(struct msghdr, msg_iovlen) == 24 && offsetof(struct msghdr, msg_control) == 32 &&
               offsetof(struct msghdr, msg_controllen) == 40 && offsetof(struct mmsghdr, msg_len) == 56,
               "written for 64-bit Linux");

#define SYSTEM_RAISED (-100000) /* beyond every errno: a signal's handler raised */

static inline int system_send(int fd, long long messages, unsigned int count)
{
    int sent, error;

    do {
        /* A signal that came while some of the messages were sent is not to wait for the rest. */
        if (PyErr_CheckSignals() < 0)
            return SYSTEM_RAISED;
        Py_BEGIN_ALLOW_THREADS
        sent = sendmmsg(fd, (struct mmsghdr *)(uintptr_t)messages, count, 0);
        error = errno;
        Py_END_ALLOW_THREADS
    } while (sent < 0 && error == EINTR);
    return sent >= 0 ? sent : -error;
}

static inline int system_receive(int fd, long long messages, unsigned int count)
{
    int received, error;

    Py_BEGIN_ALLOW_THREADS
    received = recvmmsg(fd, (struct mmsghdr *)(uintptr_t)messages, count, MSG_DONTWAIT, NULL);
    error = errno;
    Py_END_ALLOW_THREADS
    return received >= 0 ? received : -error;
}

#endif
