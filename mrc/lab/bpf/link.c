// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * The sending end of a link (TC egress): decides for each packet whether it waits, is marked, trimmed or dropped, and
 * now and then duplicates one or turns a bit over. Compiled by tools/build-bpf into link.o, loaded by mrc.lab.bpf.
 *
 * What really waits, waits in the queueing disciplines behind this program, which it cannot look into. So it keeps
 * count: `queue` models them, a token bucket at the link's rate with two bands of strict priority in it.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>
#include <linux/udp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

/*
 * Waiting bytes are counted in billionths of a bit: a nanosecond at any whole rate in bits a second is a whole number
 * of them. A queue of 256 MB, the largest allowed, is 2 * 10^18, and fits.
 */
#define BYTE 8000000000ll
#define MILLION 1000000
#define BTH_BYTES 12
#define ECN_MASK 3
#define CE 3
#define IPV4_FRAGMENT 0x3fff /* more fragments follow, or this is not the first */
/* On a packet that is the second of a duplicated one; the other end of the link does not see it. */
#define COPY_MARK 0x43504d52

/* Written from outside at any time; packed and explained in mrc/lab/bpf/program.py. */
struct settings {
	__u64 rate_bps; /* 0: no queue */
	__u64 burst_bytes;
	__u64 limit_bytes;
	__u64 emptied_ns; /* after this long without a packet nothing waits, and the credit is whole */
	__u64 queue_bytes; /* not used here: what was asked for, 0 when limit_bytes was chosen */
	__u64 ecn_at_bytes;
	__u64 trim_at_bytes;
	__u64 duplicate_millionths;
	__u64 corrupt_millionths;
	__u64 last_hop;
	__u64 fast_class;
	__u64 dscp_trimmable;
	__u64 dscp_trimmable_retx;
	__u64 dscp_trimmed;
	__u64 dscp_trimmed_lasthop;
	__u64 dscp_control;
	__u64 trim_keeps_after_bth;
	__u64 trim_to_bytes; /* of the frame; 0: through the BTH and trim_keeps_after_bth */
	__u64 trim_dscp, trim_dscp_lasthop; /* not used here: what was asked for, 0 for the two above */
	__u64 udp_ports[2];
};

/*
 * `all` waits, of that `fast` in the band that goes first, as of `seen_ns`. Below zero `all` is credit: what may leave
 * at once after a pause.
 */
struct queue {
	struct bpf_spin_lock lock;
	__u32 padding;
	__u64 seen_ns;
	__s64 all;
	__s64 fast;
	__s64 high_water;
	__u64 marked_packets;
	__u64 trimmed_packets;
	__u64 dropped_packets;
	__u64 duplicated_packets;
	__u64 corrupted_packets;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct settings);
} settings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct queue);
} queue SEC(".maps");

struct packet {
	__u32 length;
	__u32 udp_at; /* 0: not an MRC packet */
	__u16 ip_version; /* of the outermost header; 0: no IP */
	__u16 tunnelled;
	__u8 dscp;
	__u8 ecn;
};

enum fate { PASSED, MARKED, TRIMMED, DROPPED };

static __always_inline int drawn(__u64 millionths)
{
	return millionths && ((__u64)bpf_get_prandom_u32() * MILLION >> 32) < millionths;
}

/* ---------------------------------------------------------------- reading the headers */

static __always_inline int is_mrc_port(const struct settings *set, __be16 port)
{
	__u64 number = bpf_ntohs(port);

	return number && (number == set->udp_ports[0] || number == set->udp_ports[1]);
}

static __always_inline void find_udp(struct __sk_buff *skb, const struct settings *set, struct packet *packet,
				     __u8 protocol, __u32 at)
{
	struct udphdr udp;

	if (protocol != IPPROTO_UDP || skb->gso_size || at + sizeof(udp) + BTH_BYTES > skb->len)
		return;
	if (!packet->tunnelled && (bpf_skb_load_bytes(skb, at, &udp, sizeof(udp)) || !is_mrc_port(set, udp.dest)))
		return;
	packet->udp_at = at;
}

static __always_inline void read_ipv6(struct __sk_buff *skb, const struct settings *set, struct packet *packet)
{
	struct ipv6_opt_hdr routing;
	struct ipv6hdr outer;
	__u32 at = ETH_HLEN + sizeof(outer);
	__u8 protocol;

	if (bpf_skb_load_bytes(skb, ETH_HLEN, &outer, sizeof(outer)))
		return;
	packet->ip_version = 6;
	packet->dscp = outer.priority << 2 | outer.flow_lbl[0] >> 6;
	packet->ecn = outer.flow_lbl[0] >> 4 & ECN_MASK;
	protocol = outer.nexthdr;
	if (protocol == IPPROTO_ROUTING) {
		if (bpf_skb_load_bytes(skb, at, &routing, sizeof(routing)))
			return;
		protocol = routing.nexthdr;
		at += (routing.hdrlen + 1) * 8;
	}
	if (protocol == IPPROTO_IPV6) {
		if (bpf_skb_load_bytes(skb, at + offsetof(struct ipv6hdr, nexthdr), &protocol, sizeof(protocol)))
			return;
		at += sizeof(struct ipv6hdr);
		packet->tunnelled = 1;
	}
	find_udp(skb, set, packet, protocol, at);
}

static __always_inline void read_ipv4(struct __sk_buff *skb, const struct settings *set, struct packet *packet)
{
	struct iphdr ip;

	if (bpf_skb_load_bytes(skb, ETH_HLEN, &ip, sizeof(ip)))
		return;
	packet->ip_version = 4;
	packet->dscp = ip.tos >> 2;
	packet->ecn = ip.tos & ECN_MASK;
	if (!(ip.frag_off & bpf_htons(IPV4_FRAGMENT)))
		find_udp(skb, set, packet, ip.protocol, ETH_HLEN + ip.ihl * 4);
}

/* Not inline, so that the kernel checks it once and what follows only for one kind of packet: it loads much faster. */
__noinline int read_headers(struct __sk_buff *skb, const struct settings *set, struct packet *packet)
{
	if (!set || !packet)
		return -1;
	if (skb->protocol == bpf_htons(ETH_P_IPV6))
		read_ipv6(skb, set, packet);
	else if (skb->protocol == bpf_htons(ETH_P_IP))
		read_ipv4(skb, set, packet);
	return 0;
}

/* ---------------------------------------------------------------- rewriting them */

static __always_inline int store_u16(struct __sk_buff *skb, __u32 at, __u16 value)
{
	__be16 word = bpf_htons(value);

	return bpf_skb_store_bytes(skb, at, &word, sizeof(word), 0);
}

/* The same in an IPv4 header, whose checksum has to follow. */
static __always_inline int store_ipv4(struct __sk_buff *skb, __u32 at, __u16 value)
{
	__be16 before, after = bpf_htons(value);

	if (bpf_skb_load_bytes(skb, at, &before, sizeof(before)))
		return -1;
	if (bpf_l3_csum_replace(skb, ETH_HLEN + offsetof(struct iphdr, check), before, after, sizeof(after)))
		return -1;
	return store_u16(skb, at, value);
}

static __always_inline int set_traffic_class(struct __sk_buff *skb, const struct packet *packet, __u8 class)
{
	__be16 word;

	if (bpf_skb_load_bytes(skb, ETH_HLEN, &word, sizeof(word)))
		return -1;
	if (packet->ip_version == 4)
		return store_ipv4(skb, ETH_HLEN, (bpf_ntohs(word) & 0xff00) | class);
	return store_u16(skb, ETH_HLEN, (bpf_ntohs(word) & 0xf00f) | class << 4);
}

static __always_inline __u32 trimmed_length(const struct settings *set, const struct packet *packet)
{
	__u32 kept = packet->udp_at + sizeof(struct udphdr) + BTH_BYTES + set->trim_keeps_after_bth;

	if (set->trim_to_bytes)
		kept = set->trim_to_bytes;
	return kept < packet->length ? kept : packet->length;
}

/*
 * Cut the tail off; the lengths of the outermost header, and of UDP where that follows it, say so. What is small enough
 * passes uncut, with the codepoint all the same.
 */
static __always_inline int trim(struct __sk_buff *skb, const struct settings *set, const struct packet *packet)
{
	__u32 length = trimmed_length(set, packet);
	__u8 dscp = set->last_hop ? set->dscp_trimmed_lasthop : set->dscp_trimmed;
	int failed = set_traffic_class(skb, packet, dscp << 2 | packet->ecn);

	if (length == packet->length)
		return failed;
	if (bpf_skb_change_tail(skb, length, 0))
		return -1;
	if (packet->ip_version == 4)
		failed |= store_ipv4(skb, ETH_HLEN + offsetof(struct iphdr, tot_len), length - ETH_HLEN);
	else
		failed |= store_u16(skb, ETH_HLEN + offsetof(struct ipv6hdr, payload_len),
				    length - ETH_HLEN - sizeof(struct ipv6hdr));
	if (!packet->tunnelled && length >= packet->udp_at + sizeof(struct udphdr))
		failed |= store_u16(skb, packet->udp_at + offsetof(struct udphdr, len), length - packet->udp_at);
	return failed;
}

/* One bit, from the BTH on: what the ICRC is there to notice. */
static __always_inline int corrupt(struct __sk_buff *skb, const struct packet *packet)
{
	__u32 first = packet->udp_at + sizeof(struct udphdr), chance = bpf_get_prandom_u32();
	__u32 at = first + (chance >> 3) % (packet->length - first);
	__u8 byte;

	if (bpf_skb_load_bytes(skb, at, &byte, sizeof(byte)))
		return -1;
	byte ^= 1 << (chance & 7);
	return bpf_skb_store_bytes(skb, at, &byte, sizeof(byte), 0);
}

/*
 * The copy comes through here again, by itself, before this packet goes on. Returns whether there was one; it may have
 * been dropped since.
 */
static __always_inline int duplicate(struct __sk_buff *skb)
{
	__u32 before = skb->mark;
	long outcome;

	skb->mark = COPY_MARK;
	outcome = bpf_clone_redirect(skb, skb->ifindex, 0);
	skb->mark = before;
	return outcome >= 0;
}

/* ---------------------------------------------------------------- the queue */

static __always_inline int is_fast(const struct settings *set, const struct packet *packet)
{
	return packet->ip_version && (packet->dscp == set->dscp_control || packet->dscp == set->dscp_trimmed ||
				      packet->dscp == set->dscp_trimmed_lasthop);
}

static __always_inline int is_trimmable(const struct settings *set, const struct packet *packet)
{
	return set->trim_at_bytes && packet->udp_at &&
	       (packet->dscp == set->dscp_trimmable || packet->dscp == set->dscp_trimmable_retx);
}

/* Not on the last hop: a mark says "this path", not "this receiver". */
static __always_inline int is_markable(const struct settings *set, const struct packet *packet)
{
	return set->ecn_at_bytes && !set->last_hop && packet->ecn && packet->ecn != CE;
}

/* What has left since the last packet came: at the link's rate, the fast band first. */
static __always_inline void drain(struct queue *q, const struct settings *set, __u64 now_ns)
{
	__s64 credit = set->burst_bytes * BYTE;
	__u64 passed_ns = 0;
	__s64 out;

	if (now_ns > q->seen_ns) {
		passed_ns = now_ns - q->seen_ns;
		q->seen_ns = now_ns;
	}
	out = (passed_ns < set->emptied_ns ? passed_ns : set->emptied_ns) * set->rate_bps;
	q->fast = q->fast > out ? q->fast - out : 0;
	q->all = q->all - out > -credit ? q->all - out : -credit;
}

static __always_inline enum fate enqueue(struct queue *q, const struct settings *set, const struct packet *packet)
{
	__s64 length = packet->length * BYTE, kept = trimmed_length(set, packet) * BYTE;
	__s64 limit = set->limit_bytes * BYTE, trim_at = set->trim_at_bytes * BYTE, ecn_at = set->ecn_at_bytes * BYTE;
	int fast = is_fast(set, packet), trimmable = is_trimmable(set, packet), markable = is_markable(set, packet);
	__u64 now_ns = bpf_ktime_get_ns();
	enum fate fate = PASSED;
	int uncut = kept == length;
	__s64 data;

	bpf_spin_lock(&q->lock);
	drain(q, set, now_ns);
	data = (q->all > q->fast ? q->all - q->fast : 0) + length;
	if (trimmable && data > trim_at) {
		fate = TRIMMED;
		length = kept;
		fast = 1;
	} else if (markable && data > ecn_at && !fast) {
		fate = MARKED;
	}
	if (fast ? q->fast + length > limit : data > limit) {
		fate = DROPPED;
	} else {
		q->fast += fast ? length : 0;
		q->all += length;
		if (q->all > q->high_water)
			q->high_water = q->all;
	}
	q->marked_packets += fate == MARKED;
	q->trimmed_packets += fate == TRIMMED && !uncut;
	q->dropped_packets += fate == DROPPED;
	bpf_spin_unlock(&q->lock);
	return fate;
}

SEC("tc")
int link(struct __sk_buff *skb)
{
	struct packet packet = { .length = skb->wire_len };
	enum fate fate = PASSED;
	struct settings *set;
	struct queue *q;
	__u32 only = 0;
	int failed = 0;

	set = bpf_map_lookup_elem(&settings, &only);
	q = bpf_map_lookup_elem(&queue, &only);
	if (!set || !q)
		return TC_ACT_OK;
	if (skb->mark == COPY_MARK)
		skb->mark = 0;
	else if (drawn(set->duplicate_millionths) && duplicate(skb))
		__sync_fetch_and_add(&q->duplicated_packets, 1);

	read_headers(skb, set, &packet);
	if (set->rate_bps)
		fate = enqueue(q, set, &packet);
	if (fate == DROPPED)
		return TC_ACT_SHOT;
	if (fate == TRIMMED || is_fast(set, &packet))
		skb->priority = set->fast_class;
	if (fate == MARKED)
		failed = set_traffic_class(skb, &packet, packet.dscp << 2 | CE);
	if (fate == TRIMMED)
		failed = trim(skb, set, &packet);
	else if (packet.udp_at && drawn(set->corrupt_millionths) && !corrupt(skb, &packet))
		__sync_fetch_and_add(&q->corrupted_packets, 1);
	return failed ? TC_ACT_SHOT : TC_ACT_OK;
}

char licence[] SEC("license") = "Dual BSD/GPL";
