/* SPDX-License-Identifier: BSD-2-Clause */
/* What the kernel lets through: prepared packets over the fabric's own paths, without a transport.
 *
 *   bare-packets send PACKETS SECONDS
 *   bare-packets receive INTERFACE...
 *
 * PACKETS is a file of whole IPv6 packets, each behind its length (16 bits, big-endian), that carry IPv6 (next header
 * 41); each goes where its own header says. `receive` says "ready", takes them in until SIGTERM, and prints how many came
 * and the seconds between the first and the last. Both then print the seconds of processor time they took. As many
 * packets a system call as MRC's endpoint takes.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>

#include "path-mtu.h"

#define MOST 64      /* packets prepared; ports */
#define BATCH 256    /* packets a system call */
#define ROOM 16384   /* bytes of a packet */

static struct mmsghdr messages[BATCH];
static struct iovec parts[BATCH];
static struct sockaddr_in6 addresses[BATCH];
static unsigned char rooms[BATCH][ROOM];
static volatile sig_atomic_t over;

static void end(int number)
{
    (void)number;
    over = 1;
}

static _Noreturn void fail(const char *what)
{
    perror(what);
    exit(1);
}

static double now(void)
{
    struct timespec at;

    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec + at.tv_nsec / 1e9;
}

static double processor_seconds(void)
{
    struct rusage used;

    getrusage(RUSAGE_SELF, &used);
    return used.ru_utime.tv_sec + used.ru_stime.tv_sec + (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

static int raw_socket(int protocol, int direction, int forced)
{
    int sock = socket(AF_INET6, SOCK_RAW, protocol), buffer = 64 << 20;

    if (sock < 0)
        fail("raw socket");
    if (setsockopt(sock, SOL_SOCKET, forced, &buffer, sizeof buffer) < 0)
        setsockopt(sock, SOL_SOCKET, direction, &buffer, sizeof buffer);
    return sock;
}

static int load(const char *name)
{
    FILE *file = fopen(name, "rb");
    unsigned char head[2];
    int count = 0;

    if (!file)
        fail(name);
    while (count < MOST && fread(head, 1, 2, file) == 2) {
        size_t length = head[0] << 8 | head[1];

        if (length < 40 || length > ROOM || fread(rooms[count], 1, length, file) != length) {
            fprintf(stderr, "%s: packet %d is no IPv6 packet\n", name, count);
            exit(2);
        }
        parts[count] = (struct iovec){rooms[count], length};
        count++;
    }
    fclose(file);
    if (!count) {
        fprintf(stderr, "%s holds no packet\n", name);
        exit(2);
    }
    return count;
}

static int send_all(const char *name, double seconds)
{
    int count = load(name), sock = raw_socket(IPPROTO_RAW, SO_SNDBUF, SO_SNDBUFFORCE);
    uint64_t sent = 0;
    double until;

    ignore_path_mtu(sock);
    for (int row = 0; row < BATCH; row++) {
        parts[row] = parts[row % count];
        addresses[row].sin6_family = AF_INET6;
        memcpy(&addresses[row].sin6_addr, (unsigned char *)parts[row].iov_base + 24, 16);
        messages[row].msg_hdr = (struct msghdr){
            .msg_name = &addresses[row],
            .msg_namelen = sizeof addresses[row],
            .msg_iov = &parts[row],
            .msg_iovlen = 1,
        };
    }
    until = now() + seconds;
    while (!over && now() < until) {
        int done = sendmmsg(sock, messages, BATCH, 0);

        if (done > 0)
            sent += done;
        else if (errno != EINTR && errno != ENOBUFS)
            fail("sendmmsg");
    }
    printf("%llu %.6f\n", (unsigned long long)sent, processor_seconds());
    return 0;
}

static int receive_all(char **interfaces, int count)
{
    struct pollfd ports[MOST];
    uint64_t arrived = 0;
    double first = 0, last = 0;

    for (int port = 0; port < count; port++) {
        int sock = raw_socket(IPPROTO_IPV6, SO_RCVBUF, SO_RCVBUFFORCE);

        if (setsockopt(sock, SOL_SOCKET, SO_BINDTODEVICE, interfaces[port], strlen(interfaces[port])) < 0)
            fail(interfaces[port]);
        ports[port] = (struct pollfd){.fd = sock, .events = POLLIN};
    }
    for (int row = 0; row < BATCH; row++) {
        parts[row] = (struct iovec){rooms[row], ROOM};
        messages[row].msg_hdr = (struct msghdr){.msg_iov = &parts[row], .msg_iovlen = 1};
    }
    puts("ready");
    fflush(stdout);
    while (!over) {
        if (poll(ports, count, -1) < 0)
            continue;
        for (int port = 0; port < count; port++) {
            int came = ports[port].revents ? recvmmsg(ports[port].fd, messages, BATCH, MSG_DONTWAIT, NULL) : 0;

            if (came <= 0)
                continue;
            last = now();
            if (!arrived)
                first = last;
            arrived += came;
        }
    }
    printf("%llu %.6f %.6f\n", (unsigned long long)arrived, last - first, processor_seconds());
    return 0;
}

int main(int argc, char **argv)
{
    struct sigaction action = {.sa_handler = end};

    sigaction(SIGTERM, &action, NULL);
    if (argc == 4 && !strcmp(argv[1], "send") && atof(argv[3]) > 0)
        return send_all(argv[2], atof(argv[3]));
    if (argc > 2 && argc - 2 <= MOST && !strcmp(argv[1], "receive"))
        return receive_all(argv + 2, argc - 2);
    fprintf(stderr, "usage: bare-packets send PACKETS SECONDS\n       bare-packets receive INTERFACE...\n");
    return 2;
}
