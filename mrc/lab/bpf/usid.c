// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * A port of a switch in a fast fabric (TC ingress): takes the switch's uSID off the destination and hands the packet to
 * the next link at once, without the kernel's way through routing and a queue for each hop. Compiled by tools/build-bpf
 * into usid.o, loaded by mrc.lab.bpf.
 *
 * The kernel's seg6local End with NEXT-C-SID is what it has to equal, byte for byte. So whatever is not the plain case
 * goes on to the kernel (TC_ACT_OK) unchanged, and the next hop is what the kernel's own routes say. They are asked once
 * in a tick of the kernel's clock for each next hop; who cuts a link through the lab asks for a new look at once.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/in.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define FAMILY_IPV6 10
#define USID_BYTES 2
/* Where the block and the uSID behind it end, in an address. */
#define FIRST_USID_END 6
#define HEADER_BYTES (ETH_HLEN + sizeof(struct ipv6hdr))

/* Of one port; written from outside at any time, packed and explained in mrc/lab/bpf/ports.py. */
struct port {
	__u8 own[8]; /* block and uSID of the switch, two bytes of zeros */
	__u32 arriving; /* 0: what arrives here is left to the kernel */
	__u32 leaving; /* 0: so is what is to leave here; nothing at this port's egress sees what is not */
};

/* A next hop as the kernel's routes had it in that tick, before anything was changed through the lab since. */
struct decision {
	__u64 tick;
	__u64 change;
	__u32 index; /* of the interface to leave by */
	__u16 mtu;
	__u8 to[ETH_ALEN];
	__u8 from[ETH_ALEN];
	__u16 padding;
};

/* By interface index, which is unique in a fabric; how many there are is set before the program is loaded. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct port);
} ports SEC(".maps");

/* Any other number than before: forget all decisions. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} change SEC(".maps");

/* By the switch's own uSID and the next one. Each processor has its own, so that none reads what another is writing. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct decision);
} decisions SEC(".maps");

static __always_inline int is_own(const struct port *port, const struct in6_addr *destination)
{
	const __u16 *own = (const __u16 *)port->own, *first = destination->s6_addr16;

	return first[0] == own[0] && first[1] == own[1] && first[2] == own[2];
}

/* Whether uSIDs follow the first one. After the last one a segment routing header decides, or the packet is dropped. */
static __always_inline int has_more(const struct in6_addr *address)
{
	const __u16 *word = address->s6_addr16;

	return word[3] | word[4] | word[5] | word[6] | word[7];
}

static __always_inline void shift(struct in6_addr *to, const struct in6_addr *from)
{
	to->s6_addr16[0] = from->s6_addr16[0];
	to->s6_addr16[1] = from->s6_addr16[1];
	to->s6_addr16[2] = from->s6_addr16[3];
	to->s6_addr16[3] = from->s6_addr16[4];
	to->s6_addr16[4] = from->s6_addr16[5];
	to->s6_addr16[5] = from->s6_addr16[6];
	to->s6_addr16[6] = from->s6_addr16[7];
	to->s6_addr16[7] = 0;
}

/* Sources whose packets the kernel drops or answers: unspecified, loopback, link-local, multicast and some beside them. */
static __always_inline int is_special(const struct in6_addr *source)
{
	return !source->s6_addr32[0] || (source->s6_addr[0] & 0xfe) == 0xfe;
}

/* What the kernel's routes say of the packet behind `header`, shifted. */
static __always_inline int decide(struct __sk_buff *skb, const struct ipv6hdr *header, struct decision *decision)
{
	struct bpf_fib_lookup hop = { .family = FAMILY_IPV6, .ifindex = skb->ifindex };

	hop.tot_len = bpf_ntohs(header->payload_len) + sizeof(*header);
	__builtin_memcpy(hop.ipv6_src, &header->saddr, sizeof(hop.ipv6_src));
	shift((struct in6_addr *)hop.ipv6_dst, &header->daddr);
	if (bpf_fib_lookup(skb, &hop, sizeof(hop), 0) != BPF_FIB_LKUP_RET_SUCCESS)
		return -1;
	decision->index = hop.ifindex;
	decision->mtu = hop.mtu_result;
	__builtin_memcpy(decision->to, hop.dmac, ETH_ALEN);
	__builtin_memcpy(decision->from, hop.smac, ETH_ALEN);
	return 0;
}

/* The decision of this tick. NULL: the kernel is to have the packet. */
static __always_inline struct decision *decision_for(struct __sk_buff *skb, const struct ipv6hdr *header)
{
	__u32 key = header->daddr.s6_addr16[2] << 16 | header->daddr.s6_addr16[3], only = 0;
	struct decision made = { .tick = bpf_jiffies64() }, *found = bpf_map_lookup_elem(&decisions, &key);
	__u64 *changed = bpf_map_lookup_elem(&change, &only);

	if (!changed)
		return NULL;
	made.change = *changed;
	if (found && found->tick == made.tick && found->change == made.change)
		return found;
	if (decide(skb, header, &made))
		return NULL;
	if (!found) {
		bpf_map_update_elem(&decisions, &key, &made, 0);
		return bpf_map_lookup_elem(&decisions, &key);
	}
	*found = made;
	return found;
}

SEC("tc")
int usid(struct __sk_buff *skb)
{
	struct decision *decision;
	struct port *port, *next;
	struct ipv6hdr *header;
	struct ethhdr *frame;
	__u32 index = skb->ifindex, length;

	port = bpf_map_lookup_elem(&ports, &index);
	if (!port || !port->arriving)
		return TC_ACT_OK;
	if (skb->protocol != bpf_htons(ETH_P_IPV6) || skb->vlan_present || skb->pkt_type != PACKET_HOST || skb->gso_size)
		return TC_ACT_OK;
	if (skb->data + HEADER_BYTES > skb->data_end && bpf_skb_pull_data(skb, HEADER_BYTES))
		return TC_ACT_OK;
	frame = (void *)(long)skb->data;
	header = (void *)(frame + 1);
	if ((void *)(header + 1) > (void *)(long)skb->data_end)
		return TC_ACT_OK;
	length = bpf_ntohs(header->payload_len) + sizeof(*header);
	if (header->version != 6 || length + ETH_HLEN != skb->len || header->nexthdr == IPPROTO_HOPOPTS)
		return TC_ACT_OK;
	if (!is_own(port, &header->daddr) || !has_more(&header->daddr))
		return TC_ACT_OK;
	if (header->hop_limit <= 1 || is_special(&header->saddr))
		return TC_ACT_OK;

	decision = decision_for(skb, header);
	if (!decision || decision->index == index || length > decision->mtu)
		return TC_ACT_OK;
	index = decision->index;
	next = bpf_map_lookup_elem(&ports, &index);
	if (!next || !next->leaving)
		return TC_ACT_OK;

	shift(&header->daddr, &header->daddr);
	header->hop_limit--;
	__builtin_memcpy(frame->h_dest, decision->to, ETH_ALEN);
	__builtin_memcpy(frame->h_source, decision->from, ETH_ALEN);
	return bpf_redirect_peer(index, 0);
}

char licence[] SEC("license") = "Dual BSD/GPL";
