/* SPDX-License-Identifier: BSD-2-Clause */
/* mrc.net.mtu's ignore_path_mtu: no path MTU learned from ICMP errors, which anybody forges, limits what is sent. */
#include <netinet/in.h>
#include <sys/socket.h>

static void ignore_path_mtu(int sock)
{
    int probe = IPV6_PMTUDISC_PROBE;

    setsockopt(sock, IPPROTO_IPV6, IPV6_MTU_DISCOVER, &probe, sizeof probe);
}
