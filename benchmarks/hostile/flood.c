/* SPDX-License-Identifier: BSD-2-Clause */
/* Send the same packets again and again at a steady rate: what an attacker, or a harmless neighbour, puts on a wire.
 *
 *   flood PACKETS RATE SECONDS
 *
 * PACKETS is a file of whole IPv6 packets, each behind its length (16 bits, big-endian); each goes where its own header
 * says. RATE is packets a second. It ends after SECONDS or on SIGTERM and prints how many packets went out, how many the
 * system refused, and the seconds it took.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "path-mtu.h"

#define MOST 8192
#define BURST 64 /* packets a system call; at 100,000 a second one every 640 microseconds */
#define SECOND 1000000000ull

static struct mmsghdr messages[2 * MOST];
static struct iovec parts[2 * MOST];
static struct sockaddr_in6 addresses[2 * MOST];
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

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * SECOND + now.tv_nsec;
}

static void sleep_until(uint64_t at)
{
    struct timespec when = {.tv_sec = at / SECOND, .tv_nsec = at % SECOND};

    while (!over && clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, NULL) == EINTR)
        ;
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
        unsigned char *packet = malloc(length);

        if (!packet || length < 40 || fread(packet, 1, length, file) != length) {
            fprintf(stderr, "%s: packet %d is no IPv6 packet\n", name, count);
            exit(2);
        }
        parts[count] = (struct iovec){packet, length};
        addresses[count].sin6_family = AF_INET6;
        memcpy(&addresses[count].sin6_addr, packet + 24, 16);
        count++;
    }
    fclose(file);
    if (!count) {
        fprintf(stderr, "%s holds no packet\n", name);
        exit(2);
    }
    return count;
}

int main(int argc, char **argv)
{
    struct sigaction action = {.sa_handler = end};
    double rate = argc == 4 ? atof(argv[2]) : 0, seconds = argc == 4 ? atof(argv[3]) : 0;
    uint64_t sent = 0, refused = 0, started, step;
    int count, sock, at = 0, buffer = 4 << 20;

    if (rate <= 0 || seconds <= 0) {
        fprintf(stderr, "usage: flood PACKETS RATE SECONDS\n");
        return 2;
    }
    count = load(argv[1]);
    /* Twice, so that a burst never has to wrap. */
    for (int number = 0; number < 2 * count; number++) {
        int source = number % count;

        parts[number] = parts[source];
        addresses[number] = addresses[source];
        messages[number].msg_hdr = (struct msghdr){
            .msg_name = &addresses[number],
            .msg_namelen = sizeof addresses[number],
            .msg_iov = &parts[number],
            .msg_iovlen = 1,
        };
    }
    sigaction(SIGTERM, &action, NULL);
    /* IPPROTO_RAW: the packets bring their IPv6 header along. */
    sock = socket(AF_INET6, SOCK_RAW, IPPROTO_RAW);
    if (sock < 0)
        fail("raw socket");
    setsockopt(sock, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer);
    ignore_path_mtu(sock);
    step = (uint64_t)(BURST * (double)SECOND / rate);
    started = now_ns();
    for (uint64_t turn = 0; !over; turn++) {
        int wanted = BURST < count ? BURST : count, done = 0;

        if (turn * step >= seconds * SECOND)
            break;
        sleep_until(started + turn * step);
        for (int left = BURST; left > 0 && !over; left -= done) {
            done = sendmmsg(sock, messages + at, left < wanted ? left : wanted, 0);
            if (done <= 0) {
                refused++;
                done = 1;
            } else {
                sent += done;
            }
            at = (at + done) % count;
        }
    }
    printf("%llu %llu %.6f\n", (unsigned long long)sent, (unsigned long long)refused, (now_ns() - started) / 1e9);
    return 0;
}
