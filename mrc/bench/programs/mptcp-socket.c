/* Loaded before a program's own libraries (LD_PRELOAD): its TCP sockets become MPTCP sockets. What mptcpize does, for
 * systems that do not have it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>

#ifndef IPPROTO_MPTCP
#define IPPROTO_MPTCP 262
#endif

int socket(int domain, int type, int protocol)
{
    static int (*real)(int, int, int);

    if (!real)
        real = (int (*)(int, int, int))dlsym(RTLD_NEXT, "socket");
    if ((domain == AF_INET || domain == AF_INET6) && (type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC)) == SOCK_STREAM &&
        (protocol == 0 || protocol == IPPROTO_TCP))
        protocol = IPPROTO_MPTCP;
    return real(domain, type, protocol);
}

/* Linux refuses SO_REUSEADDR on an MPTCP socket that accept() returned, where TCP takes it and it means nothing any more.
 * Gloo sets it there, and gives up over a refusal. */
int setsockopt(int fd, int level, int name, const void *value, socklen_t length)
{
    static int (*real)(int, int, int, const void *, socklen_t);
    int result;

    if (!real)
        real = (int (*)(int, int, int, const void *, socklen_t))dlsym(RTLD_NEXT, "setsockopt");
    result = real(fd, level, name, value, length);
    if (result != 0 && errno == EINVAL && level == SOL_SOCKET && name == SO_REUSEADDR)
        return 0;
    return result;
}
