/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A controller: measures paths to a peer, then tells which EVs of this host change their state, until it is ended.
 *
 *   cc mrc_watch.c $(mrc capi pkg-config) -o mrc_watch
 *   eval "$(mrc capi env)"
 *   ./mrc_watch fd4d:5243::2 0x00000000:1 0x01000001:2      the peer's address, and EVs with the port that each leaves by
 *
 * It has no QPs of its own. The programs that run on this host send the probes, and what they find out is what it tells.
 */
#include <arpa/inet.h>
#include <mrc_ctl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 64
#define WAIT_NS 100000000
#define WANTED (MRC_CTL_OPT_CAP_EV_EVENT | MRC_CTL_OPT_CAP_EP_OP_EV_PROBE)

static struct mrc_ctl_ep_req requests[MOST];

static void check(int good, const char *what)
{
	if (!good) {
		perror(what);
		exit(1);
	}
}

/* The same for what errno says nothing of. */
static void expect(int good, const char *what)
{
	if (!good) {
		fprintf(stderr, "%s\n", what);
		exit(1);
	}
}

static uint32_t number_of(const struct mrc_ctl_ev *ev)
{
	uint32_t number;

	memcpy(&number, ev->val, sizeof number);
	return number;
}

/* An IPv4 address is a GID in its IPv6 form. */
static union ibv_gid gid_of(const char *address)
{
	union ibv_gid gid = {.raw = {[10] = 0xff, [11] = 0xff}};

	expect(inet_pton(AF_INET, address, &gid.raw[12]) == 1 || inet_pton(AF_INET6, address, &gid) == 1, "PEER is an address");
	return gid;
}

static void probe(struct mrc_context *mrc, int count)
{
	struct mrc_ctl_ep_rsp answers[MOST];
	int answered;

	/* -1 with ETIMEDOUT: some have not answered. Those that have are there all the same. */
	if (mrc_ctl_ep_batch_send_wait(mrc, 0, MRC_CTL_EP_OP_EV_PROBE, requests, count, WAIT_NS, answers, &answered))
		perror("mrc_ctl_ep_batch_send_wait");
	for (int each = 0; each < answered; each++)
		printf("EV 0x%08x: %u us, the answer came by port %u\n", number_of(&requests[answers[each].req_id].req_ev),
			answers[each].rtt / 1000, answers[each].port);
	fflush(stdout);
}

static const char *state_name(enum mrc_ctl_ev_state state)
{
	return state == MRC_CTL_EV_GOOD ? "good" : state == MRC_CTL_EV_DENIED ? "denied" : "assumed bad";
}

static void tell(struct mrc_cq *events)
{
	struct mrc_ctl_ev_event some[16];
	int count;

	while ((count = mrc_ctl_poll_ev_event(events, 16, some)) > 0)
		for (int each = 0; each < count; each++) {
			if (some[each].drop_count)
				printf("%u events found no room\n", some[each].drop_count);
			printf("EV 0x%08x, port %u, profile %llu: %s\n", number_of(&some[each].ev), some[each].ev.port,
				(unsigned long long)some[each].profile_id, state_name(some[each].state));
		}
	fflush(stdout);
}

int main(int count, char **arguments)
{
	struct mrc_context_attr version = {.mrc_api_version_used = MRC_API_VER_USED};
	struct mrc_ctl_device_attr device;
	struct mrc_comp_channel *channel;
	struct mrc_cq *events;
	void *unused;

	expect(count > 1 && count < MOST + 2, "usage: mrc_watch PEER [EV:PORT]...");
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct ibv_context *context = devices && devices[0] ? ibv_open_device(devices[0]) : NULL;

	check(context && !mrc_ctl_query_device(context, &device), "mrc_ctl_query_device");
	expect((device.opt_attr & WANTED) == WANTED, "the device has no EV events or no probes");
	struct mrc_context *mrc = mrc_create_context(context, &version);

	/* The queue is made first: from then on no change is missed. */
	check(mrc && !mrc_create_comp_channel(mrc, &channel), "mrc_create_context");
	check((events = mrc_ctl_create_ev_event_cq(mrc, 1024, NULL, channel, 0)) != NULL, "mrc_ctl_create_ev_event_cq");
	for (int each = 0; each < count - 2; each++) {
		struct mrc_ctl_ep_req *request = &requests[each];
		char *port;
		uint32_t ev = (uint32_t)strtoul(arguments[each + 2], &port, 0);

		request->req_id = (uint16_t)each;
		check(!ibv_query_gid(context, 1, 0, &request->sgid), "ibv_query_gid");
		request->dgid = gid_of(arguments[1]);
		request->ev_fmt_mode = (enum mrc_ctl_ev_fmt_mode)device.ev.ev_fmt_mode_mask; /* one bit: the network's mode */
		memcpy(request->req_ev.val, &ev, sizeof ev);
		request->req_ev.port = (uint8_t)(*port ? atoi(port + 1) : 1);
	}
	if (count > 2)
		probe(mrc, count - 2);
	do {
		check(!mrc_req_notify_cq(events, 0), "mrc_req_notify_cq");
		tell(events); /* what came before it was asked for */
	} while (!mrc_get_cq_event(channel, &events, &unused));
	perror("mrc_get_cq_event");
	return 1;
}
