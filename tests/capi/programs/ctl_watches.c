/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A controller that has no QPs: it hears of the EVs of programs at its device, and has them probe. The peer's address and
 * the mode of its EVs are given: srv6, stev or udp. It does what each line of its input says, and prints a line.
 *
 *   make EV:PORT...               EV profile 1 of these, without fields
 *   probe TIMEOUT_NS EV:PORT...   errno, and for each answer the EV that it was for, by req_id, and the port it came by
 *   tell MASK EV:PORT             the same for a port status update
 *   deny EV:PORT                  denies it in profile 1
 *   event                         profile, EV, port and state of the next event
 */
#include "ctl.h"
#include <arpa/inet.h>
#include <unistd.h>

#define MOST 64

static union ibv_gid own, peer;
static enum mrc_ctl_ev_fmt_mode mode;

static union ibv_gid gid_of(const char *address)
{
	union ibv_gid gid = {.raw = {[10] = 0xff, [11] = 0xff}};

	if (!inet_pton(AF_INET6, address, &gid))
		CHECK(inet_pton(AF_INET, address, &gid.raw[12]), 1);
	return gid;
}

static enum mrc_ctl_ev_fmt_mode mode_named(const char *name)
{
	if (!strcmp(name, "stev"))
		return MRC_CTL_EV_FMT_MODE_STEV;
	return strcmp(name, "udp") ? MRC_CTL_EV_FMT_MODE_SRV6 : MRC_CTL_EV_FMT_MODE_UDP;
}

/* The EVs of a line, EV:PORT each. */
static int evs_in(char *words, struct mrc_ctl_ev *evs)
{
	int count = 0;

	for (char *word = strtok(words, " \n"); word && count < MOST; word = strtok(NULL, " \n"), count++) {
		char *port;
		uint32_t number = (uint32_t)strtoul(word, &port, 0);

		evs[count] = ev_of(number, (uint8_t)atoi(port + 1));
	}
	return count;
}

static void operate(enum mrc_ctl_ep_op_type kind, char *words)
{
	uint32_t number = (uint32_t)strtoul(words, &words, 0);
	struct mrc_ctl_ev evs[MOST];
	struct mrc_ctl_ep_req requests[MOST] = {0};
	struct mrc_ctl_ep_rsp answers[MOST];
	int count = evs_in(words, evs), answered, failed;

	for (int each = 0; each < count; each++) {
		requests[each] = (struct mrc_ctl_ep_req){
			.req_id = (uint16_t)(each + 100), .sgid = own, .dgid = peer, .ev_fmt_mode = mode, .req_ev = evs[each]};
		if (kind == MRC_CTL_EP_OP_PORT_STATUS_UPDATE)
			requests[each].op.port_status_update.port_status = number;
	}
	failed = mrc_ctl_ep_batch_send_wait(mrc, 10, kind, requests, count,
		kind == MRC_CTL_EP_OP_EV_PROBE ? number : 2000000000, answers, &answered);
	printf("%s", failed ? strerrorname_np(errno) : "0");
	for (int each = 0; each < answered; each++) {
		printf(" %d:%d", answers[each].req_id - 100, answers[each].port);
		CHECK((answers[each].rtt > 0) == (kind == MRC_CTL_EP_OP_EV_PROBE), 1);
		CHECK(answers[each].rtt < 2000000000, 1);
	}
	printf("\n");
}

static void make(char *words)
{
	struct mrc_ctl_ev evs[MOST];
	struct mrc_ctl_ev_op_entry entries[MOST];
	int count = evs_in(words, evs);

	for (int each = 0; each < count; each++)
		entries[each] = (struct mrc_ctl_ev_op_entry){.ev_new = evs[each], .state = MRC_CTL_EV_GOOD};
	make_plain_profile(entries, count);
	printf("made\n");
}

static void deny(char *words)
{
	struct mrc_ctl_ev evs[MOST];

	evs_in(words, evs);
	struct mrc_ctl_ev_op_entry entry = {.ev = evs[0], .state = MRC_CTL_EV_DENIED};

	FAILS(ev_operation(1, MRC_CTL_EV_OP_MODIFY_EV_STATE, &entry, 1), 0);
	printf("denied\n");
}

static void event_of(struct mrc_cq *events)
{
	struct mrc_ctl_ev_event event;
	uint32_t number;

	while (!mrc_ctl_poll_ev_event(events, 1, &event))
		usleep(1000);
	memcpy(&number, event.ev.val, sizeof number);
	printf("%llu 0x%x:%u %d %u\n", (unsigned long long)event.profile_id, number, event.ev.port, (int)event.state, event.drop_count);
}

int main(int count, char **arguments)
{
	char line[1024];

	if (count < 3)
		return 2;
	open_controller();
	peer = gid_of(arguments[1]), ibv_query_gid(context, 1, 0, &own);
	mode = mode_named(arguments[2]);
	struct mrc_cq *events = mrc_ctl_create_ev_event_cq(mrc, 1024, NULL, NULL, 0);

	CHECK(events != NULL, 1);
	for (printf("ready\n"); !fflush(stdout) && fgets(line, sizeof line, stdin);) {
		char *words = strchr(line, ' ');

		if (!strncmp(line, "probe ", 6))
			operate(MRC_CTL_EP_OP_EV_PROBE, words);
		else if (!strncmp(line, "tell ", 5))
			operate(MRC_CTL_EP_OP_PORT_STATUS_UPDATE, words);
		else if (!strncmp(line, "make ", 5))
			make(words);
		else if (!strncmp(line, "deny ", 5))
			deny(words);
		else
			event_of(events);
	}
	CHECK(mrc_destroy_cq(events), 0), CHECK(mrc_destroy_context(mrc), 0), CHECK(ibv_close_device(context), 0);
	return wrong;
}
