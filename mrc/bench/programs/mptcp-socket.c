/* SPDX-License-Identifier: BSD-2-Clause */
/* Loaded before a program's own libraries (LD_PRELOAD): its TCP sockets become MPTCP sockets. What mptcpize does, for
 * systems that do not have it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#ifndef IPPROTO_MPTCP
#define IPPROTO_MPTCP 262
#endif

#define DESCRIPTORS 1024
/* What a socket was to be bound to, where it is bound to every address instead. */
static struct in6_addr wanted[DESCRIPTORS];

int socket(int domain, int type, int protocol)
{
    static int (*real)(int, int, int);
    int fd;

    if (!real)
        real = (int (*)(int, int, int))dlsym(RTLD_NEXT, "socket");
    if ((domain == AF_INET || domain == AF_INET6) && (type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC)) == SOCK_STREAM &&
        (protocol == 0 || protocol == IPPROTO_TCP))
        protocol = IPPROTO_MPTCP;
    fd = real(domain, type, protocol);
    if (fd >= 0 && fd < DESCRIPTORS)
        wanted[fd] = in6addr_any;
    return fd;
}

/* A socket that listens at one address takes no further subflows at others: let it listen at all of them, and say of
 * itself what it was told. Gloo tells its peers what getsockname() says. */
int bind(int fd, const struct sockaddr *address, socklen_t length)
{
    static int (*real)(int, const struct sockaddr *, socklen_t);
    struct sockaddr_in6 everywhere;
    int protocol = 0;
    socklen_t size = sizeof protocol;

    if (!real)
        real = (int (*)(int, const struct sockaddr *, socklen_t))dlsym(RTLD_NEXT, "bind");
    if (fd < 0 || fd >= DESCRIPTORS || length < sizeof everywhere || address->sa_family != AF_INET6 ||
        getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &size) != 0 || protocol != IPPROTO_MPTCP)
        return real(fd, address, length);
    memcpy(&everywhere, address, sizeof everywhere);
    wanted[fd] = everywhere.sin6_addr;
    everywhere.sin6_addr = in6addr_any;
    return real(fd, (struct sockaddr *)&everywhere, sizeof everywhere);
}

int getsockname(int fd, struct sockaddr *address, socklen_t *length)
{
    static int (*real)(int, struct sockaddr *, socklen_t *);
    struct sockaddr_in6 *found = (struct sockaddr_in6 *)address;
    int result;

    if (!real)
        real = (int (*)(int, struct sockaddr *, socklen_t *))dlsym(RTLD_NEXT, "getsockname");
    result = real(fd, address, length);
    if (result == 0 && fd < DESCRIPTORS && *length >= sizeof *found && found->sin6_family == AF_INET6 &&
        IN6_IS_ADDR_UNSPECIFIED(&found->sin6_addr))
        found->sin6_addr = wanted[fd];
    return result;
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
