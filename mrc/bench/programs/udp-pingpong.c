/* SPDX-License-Identifier: BSD-2-Clause */
/* Ping-pong over UDP: the yardstick of latency. Blocking sockets, one datagram on its way.
 *
 *   udp-pingpong serve ADDRESS                       prints its port, answers every datagram until it is killed
 *   udp-pingpong ping ADDRESS PORT BYTES SECONDS     prints half of each round trip, nanoseconds, one a line
 *
 * A datagram that is lost is sent again after 200 ms and its round trip left out.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define LONGEST 65000
#define MOST 4000000

static char buffer[LONGEST];

static _Noreturn void fail(const char *what)
{
    perror(what);
    exit(1);
}

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + now.tv_nsec;
}

static struct sockaddr_in6 parse(const char *address, int port)
{
    struct sockaddr_in6 parsed = {.sin6_family = AF_INET6, .sin6_port = htons(port)};

    if (inet_pton(AF_INET6, address, &parsed.sin6_addr) != 1) {
        fprintf(stderr, "%s is no IPv6 address\n", address);
        exit(2);
    }
    return parsed;
}

static _Noreturn void serve(const char *address)
{
    struct sockaddr_in6 own = parse(address, 0), peer;
    socklen_t length = sizeof own;
    int sock = socket(AF_INET6, SOCK_DGRAM, 0);

    if (sock < 0 || bind(sock, (struct sockaddr *)&own, sizeof own) || getsockname(sock, (struct sockaddr *)&own, &length))
        fail("serve");
    printf("%d\n", ntohs(own.sin6_port));
    fflush(stdout);
    for (;;) {
        socklen_t peer_length = sizeof peer;
        ssize_t got = recvfrom(sock, buffer, sizeof buffer, 0, (struct sockaddr *)&peer, &peer_length);

        if (got < 0)
            fail("recvfrom");
        if (sendto(sock, buffer, got, 0, (struct sockaddr *)&peer, peer_length) < 0 && errno != ENOBUFS)
            fail("sendto");
    }
}

static int ping(const char *address, int port, size_t bytes, double seconds)
{
    struct sockaddr_in6 peer = parse(address, port);
    struct timeval patience = {.tv_usec = 200000};
    uint64_t deadline, *halves = malloc(MOST * sizeof *halves);
    size_t count = 0;
    uint16_t number = 0;
    int sock = socket(AF_INET6, SOCK_DGRAM, 0);

    if (!halves || sock < 0 || connect(sock, (struct sockaddr *)&peer, sizeof peer) ||
        setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience))
        fail("ping");
    deadline = now_ns() + (uint64_t)(seconds * 1e9);
    while (count < MOST) {
        uint64_t began = now_ns();
        uint16_t answered;

        if (began >= deadline)
            break;
        number++;
        memcpy(buffer, &number, sizeof number);
        if (send(sock, buffer, bytes, 0) < 0 && errno != ENOBUFS)
            fail("send");
        do {
            if (recv(sock, buffer, sizeof buffer, 0) < 0) {
                if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
                    fail("recv");
                break;
            }
            memcpy(&answered, buffer, sizeof answered);
            if (answered == number)
                halves[count++] = (now_ns() - began) / 2;
        } while (answered != number);
    }
    for (size_t each = 0; each < count; each++)
        printf("%llu\n", (unsigned long long)halves[each]);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 3 && !strcmp(argv[1], "serve"))
        serve(argv[2]);
    if (argc == 6 && !strcmp(argv[1], "ping")) {
        long bytes = atol(argv[4]);

        if (bytes >= 2 && bytes <= LONGEST)
            return ping(argv[2], atoi(argv[3]), bytes, atof(argv[5]));
    }
    fprintf(stderr, "udp-pingpong serve ADDRESS | ping ADDRESS PORT BYTES SECONDS, 2 to %d bytes\n", LONGEST);
    return 2;
}
