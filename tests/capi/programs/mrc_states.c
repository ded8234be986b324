/* SPDX-License-Identifier: BSD-2-Clause */
/* Which attributes of MRC each way between states takes, what they are afterwards, and which values are refused. */
#include "mrc_pair.h"

#define IN_INIT (MRC_QP_EV_PROFILE_ID | MRC_QP_CC_PROFILE_ID | MRC_QP_HINT | MRC_QP_VENDOR_CFG)
#define SENDING (MRC_QP_MAX_WIMM | MRC_QP_MPR | MRC_QP_TIMEOUT | MRC_QP_RETRY_CNT | MRC_QP_HINT | MRC_QP_VENDOR_CFG)
#define IN_RTR (SENDING | MRC_QP_MAX_WIMM_DEST | MRC_QP_MPR_DEST | MRC_QP_CAP)
#define EVERY (IN_INIT | IN_RTR)

static struct mrc_cq *cq;
static struct mrc_qp_hint *hint;

static struct mrc_qp_attr usual(void)
{
	return (struct mrc_qp_attr){.mpr = {4, 6}, .wimm = {5, 3}, .timeout = 9, .retry = {3, 25}, .qp_hint = hint,
		.cap = MRC_QP_CAP_DYNAMIC_MPR | MRC_QP_CAP_SVC_TIME_DEST_UNSUPPORTED};
}

static struct mrc_qp_attr told_of(struct mrc_qp *qp)
{
	struct mrc_qp_attr attr;

	memset(&attr, 0xa5, sizeof attr);
	CHECK(mrc_query_qp(qp, NULL, 0, &attr, EVERY, NULL), 0);
	return attr;
}

static enum ibv_qp_state state_of(struct mrc_qp *qp)
{
	struct ibv_qp_attr attr;

	CHECK(mrc_query_qp(qp, &attr, IBV_QP_STATE, NULL, 0, NULL), 0);
	return attr.qp_state;
}

static int end(struct mrc_qp *qp, enum ibv_qp_state state, struct mrc_qp_attr *attr, int mask)
{
	struct ibv_qp_attr vattr = {.qp_state = state};

	return mrc_modify_qp(qp, &vattr, IBV_QP_STATE, attr, mask);
}

static struct mrc_qp *brought_to(enum ibv_qp_state state, struct mrc_qp *other)
{
	struct mrc_qp *qp = mrc_made(cq, 4);

	if (state >= IBV_QPS_INIT)
		CHECK(mrc_to_init(qp, NULL, 0), 0);
	if (state >= IBV_QPS_RTR)
		CHECK(mrc_to_rtr(qp, other, NULL, 0), 0);
	if (state >= IBV_QPS_RTS)
		CHECK(mrc_to_rts(qp, NULL, 0), 0);
	return qp;
}

static int go(struct mrc_qp *qp, enum ibv_qp_state from, enum ibv_qp_state to, struct mrc_qp *other,
	struct mrc_qp_attr *attr, int mask)
{
	struct ibv_qp_attr same = {.qp_state = IBV_QPS_RTS};

	switch ((int)to) {
	case IBV_QPS_INIT: return mrc_to_init(qp, attr, mask);
	case IBV_QPS_RTR: return mrc_to_rtr(qp, other, attr, mask);
	case IBV_QPS_RTS: return from == to ? mrc_modify_qp(qp, &same, IBV_QP_STATE, attr, mask) : mrc_to_rts(qp, attr, mask);
	default: return end(qp, to, attr, mask);
	}
}

/* Each bit of a mask on each way: taken, or refused and nothing has changed. */
static void masks(struct mrc_qp *other)
{
	static const struct {
		enum ibv_qp_state from, to;
		int taken;
	} ways[] = {
		{IBV_QPS_RESET, IBV_QPS_INIT, IN_INIT}, {IBV_QPS_INIT, IBV_QPS_INIT, IN_INIT}, {IBV_QPS_INIT, IBV_QPS_RTR, IN_RTR},
		{IBV_QPS_RTR, IBV_QPS_RTS, SENDING}, {IBV_QPS_RTS, IBV_QPS_RTS, 0}, {IBV_QPS_RTS, IBV_QPS_ERR, -1},
		{IBV_QPS_RTS, IBV_QPS_RESET, -1},
	};

	for (int way = 0; way < 7; way++)
		for (int bit = 0; bit < 32; bit++) {
			int mask = (int)(1u << bit), error = ways[way].taken & mask ? 0 : EINVAL;
			struct mrc_qp *qp = brought_to(ways[way].from, other);
			struct mrc_qp_attr attr = usual(), before = told_of(qp), after;

			if (go(qp, ways[way].from, ways[way].to, other, &attr, mask) != error) {
				printf("%d to %d with bit %d: not %d\n", ways[way].from, ways[way].to, bit, error);
				wrong = 1;
			}
			after = told_of(qp);
			CHECK(state_of(qp), error ? ways[way].from : ways[way].to);
			if (error)
				CHECK(memcmp(&before, &after, sizeof after), 0);
			CHECK(mrc_destroy_qp(qp), 0);
		}
}

/* What is given is what is told from then on, and is forgotten in RESET. What is not given is the default. */
static void values(struct mrc_qp *other)
{
	struct mrc_qp *qp = mrc_made(cq, 4);
	struct mrc_qp_attr given = usual(), told = told_of(qp);
	struct mrc_qp_init_attr init;

	for (int again = 0; again < 2; again++) {
		CHECK(told.mpr.mpr, 8), CHECK(told.mpr.mpr_dest, 8), CHECK(told.wimm.max_wimm, 32), CHECK(told.wimm.max_wimm_dest, 32);
		CHECK(told.timeout, 14), CHECK(told.retry.linear_cnt, 7), CHECK(told.retry.exp_cnt, 7), CHECK(told.cap, 0);
		CHECK(told.profile.ev_profile_id, 0), CHECK(told.profile.cc_profile_id, 0), CHECK(told.qp_hint == NULL, 1);
		CHECK(told.vendor_cfg[0], 0), CHECK(told.vendor_cfg[MRC_MAX_VENDOR_CFG_SIZE - 1], 0);
		CHECK(mrc_to_init(qp, &given, IN_INIT), 0), CHECK(told_of(qp).qp_hint == hint, 1);
		CHECK(mrc_destroy_qp_hint(hint) == -1 && errno == EBUSY, 1);
		CHECK(mrc_to_rtr(qp, other, &given, MRC_QP_MAX_WIMM_DEST | MRC_QP_MPR_DEST | MRC_QP_CAP), 0), told = told_of(qp);
		CHECK(told.mpr.mpr_dest, 6), CHECK(told.wimm.max_wimm_dest, 3), CHECK(told.cap, given.cap), CHECK(told.mpr.mpr, 8);
		CHECK(mrc_to_rts(qp, &given, MRC_QP_MAX_WIMM | MRC_QP_MPR | MRC_QP_TIMEOUT | MRC_QP_RETRY_CNT), 0);
		told = told_of(qp);
		CHECK(told.mpr.mpr, 4), CHECK(told.wimm.max_wimm, 5), CHECK(told.timeout, 9), CHECK(told.retry.linear_cnt, 3);
		CHECK(told.retry.exp_cnt, 25), CHECK(told.mpr.mpr_dest, 6);
		CHECK(mrc_query_qp(qp, NULL, 0, NULL, 0, &init), 0);
		CHECK(init.pd == pd && init.send_cq == cq && init.recv_cq == cq && !init.qp_context && !init.sq_sig_all, 1);
		CHECK(init.protocol_version, MRC_PROTOCOL_VERSION_1), CHECK(init.cap.max_send_wr, 4), CHECK(init.send_ops_flags, 0);
		CHECK(end(qp, IBV_QPS_RESET, NULL, 0), 0), told = told_of(qp);
	}
	/* A vendor has no settings here: zeros alone are taken. */
	given.vendor_cfg[MRC_MAX_VENDOR_CFG_SIZE - 1] = 1;
	CHECK(mrc_to_init(qp, &given, MRC_QP_VENDOR_CFG), EINVAL), CHECK(mrc_to_init(qp, &given, IN_INIT & ~MRC_QP_VENDOR_CFG), 0);
	given.vendor_cfg[MRC_MAX_VENDOR_CFG_SIZE - 1] = 0;
	CHECK(end(qp, IBV_QPS_RESET, NULL, 0), 0);
	/* A way that is refused leaves no hint behind. */
	given.profile.ev_profile_id = 77;
	CHECK(mrc_to_init(qp, &given, MRC_QP_HINT | MRC_QP_EV_PROFILE_ID), ENOENT), CHECK(told_of(qp).qp_hint == NULL, 1);
	given.qp_hint = mrc_create_qp_hint(mrc, &(struct mrc_qp_hint_init_attr){.attr = {1, 1, 1, {0}}});
	CHECK(mrc_to_init(qp, &given, MRC_QP_HINT | MRC_QP_EV_PROFILE_ID), ENOENT), CHECK(mrc_destroy_qp_hint(given.qp_hint), 0);
	/* No hint is one too. */
	given.qp_hint = hint;
	CHECK(mrc_to_init(qp, &given, MRC_QP_HINT), 0), given.qp_hint = NULL;
	CHECK(mrc_to_init(qp, &given, MRC_QP_HINT), 0), CHECK(told_of(qp).qp_hint == NULL, 1);
	CHECK(mrc_destroy_qp(qp), 0);
}

#define REFUSED(error, bring, to, mask, change)                                                                        \
	{                                                                                                              \
		struct mrc_qp *refused = brought_to(bring, other);                                                     \
		struct mrc_qp_attr attr = usual();                                                                     \
                                                                                                                       \
		attr.change;                                                                                           \
		CHECK(go(refused, bring, to, other, &attr, mask), error), CHECK(state_of(refused), bring);             \
		CHECK(mrc_destroy_qp(refused), 0);                                                                     \
	}

static void ranges(struct mrc_qp *other)
{
	REFUSED(EINVAL, IBV_QPS_RTR, IBV_QPS_RTS, MRC_QP_TIMEOUT, timeout = 25)
	REFUSED(EINVAL, IBV_QPS_RTR, IBV_QPS_RTS, MRC_QP_RETRY_CNT, retry.linear_cnt = 8)
	REFUSED(EINVAL, IBV_QPS_RTR, IBV_QPS_RTS, MRC_QP_RETRY_CNT, retry.exp_cnt = 26)
	REFUSED(EINVAL, IBV_QPS_RTR, IBV_QPS_RTS, MRC_QP_MPR, mpr.mpr = 0)
	REFUSED(EINVAL, IBV_QPS_RTR, IBV_QPS_RTS, MRC_QP_MAX_WIMM, wimm.max_wimm = 65535)
	REFUSED(EINVAL, IBV_QPS_INIT, IBV_QPS_RTR, MRC_QP_MPR_DEST, mpr.mpr_dest = 0)
	REFUSED(EINVAL, IBV_QPS_INIT, IBV_QPS_RTR, MRC_QP_MAX_WIMM_DEST, wimm.max_wimm_dest = 5) /* of 4 receives */
	REFUSED(EINVAL, IBV_QPS_INIT, IBV_QPS_RTR, MRC_QP_CAP, cap = 8)
	REFUSED(ENOENT, IBV_QPS_RESET, IBV_QPS_INIT, MRC_QP_EV_PROFILE_ID, profile.ev_profile_id = 77)
	REFUSED(ENOENT, IBV_QPS_RESET, IBV_QPS_INIT, MRC_QP_CC_PROFILE_ID, profile.cc_profile_id = 77)
	REFUSED(EINVAL, IBV_QPS_RESET, IBV_QPS_INIT, MRC_QP_EV_PROFILE_ID, profile.ev_profile_id = (uint64_t)1 << 40)
	REFUSED(EINVAL, IBV_QPS_RESET, IBV_QPS_INIT, MRC_QP_EV_PROFILE_ID, profile.ev_profile_id = UINT64_MAX)
	REFUSED(EINVAL, IBV_QPS_RESET, IBV_QPS_INIT, MRC_QP_CC_PROFILE_ID, profile.cc_profile_id = UINT64_MAX)
}

static void hints(void)
{
	struct mrc_qp_hint_init_attr init = {.attr = {1, 2, 3, {4}}};
	struct mrc_qp_hint *own = mrc_create_qp_hint(mrc, &init);
	struct mrc_qp_hint_attr told = {9, 9, 9, {9}}, change = {-1, 7, 8, {6}};

	CHECK(mrc_query_qp_hint(own, &told, MRC_QP_HINT_NUM_SEND_PEERS), 0), CHECK(told.num_send_peers, 2);
	CHECK(told.num_qps_per_peer, 9), CHECK(told.vendor_cfg[0], 9);
	CHECK(mrc_modify_qp_hint(own, &change, MRC_QP_HINT_NUM_QPS_PER_PEER) == -1 && errno == EINVAL, 1);
	CHECK(mrc_modify_qp_hint(own, &change, 8) == -1 && errno == EINVAL, 1);
	CHECK(mrc_modify_qp_hint(own, &change, MRC_QP_HINT_NUM_REMOTE_RECV_PEERS | MRC_QP_HINT_VENDOR_CFG), 0);
	CHECK(mrc_query_qp_hint(own, &told, MRC_QP_HINT_VENDOR_CFG | 7), 0), CHECK(mrc_query_qp_hint(own, &told, 8), -1);
	CHECK(told.num_qps_per_peer, 1), CHECK(told.num_send_peers, 2), CHECK(told.num_remote_recv_peers, 8);
	CHECK(told.vendor_cfg[0], 6);
	init.attr.num_send_peers = -1;
	CHECK(mrc_create_qp_hint(mrc, &init) == NULL && errno == EINVAL, 1);
	/* Not destroyed: it ends with the context. */
}

static void contexts(void)
{
	static const uint32_t taken[] = {0, MRC_PROTOCOL_VERSION_1, MRC_API_VER(1, 0, 0), MRC_API_CURRENT_VERSION, MRC_API_VER(1, 0, 9)};
	struct mrc_context_attr attr = {.mrc_vendor_api_version_used = 0xa5a5a5a5};
	struct mrc_device_attr device, again;
	uint32_t version[4] = {0};
	int supported = -1;

	for (int each = 0; each < 5; each++) {
		attr.mrc_api_version_used = taken[each];
		CHECK(mrc_destroy_context(mrc_create_context(context, &attr)), 0);
	}
	attr.mrc_api_version_used = MRC_API_VER(1, 1, 0);
	CHECK(mrc_create_context(context, &attr) == NULL && errno == EINVAL, 1);
	attr.mrc_api_version_used = MRC_API_VER(2, 0, 0);
	CHECK(mrc_create_context(context, &attr) == NULL && errno == EINVAL, 1);
	mrc_query_version(&version[0], &version[1], &version[2], &version[3]);
	CHECK(version[0], MRC_API_CURRENT_VERSION), CHECK(version[1], MRC_API_VER(1, 0, 0));
	CHECK(version[2], MRC_VENDOR_API_CURRENT_VERSION), CHECK(version[3], MRC_VENDOR_API_LAST_SUPPORTED_VERSION);
	memset(&device, 0xa5, sizeof device), memset(&again, 0x5a, sizeof again);
	CHECK(mrc_query_device(context, &device, &supported), 0), CHECK(supported, 1), supported = -1;
	CHECK(mrc_query_device_ex(context, mrc, &again, &supported), 0), CHECK(supported, 1);
	CHECK(device.mrc_protocol_version, MRC_PROTOCOL_VERSION_1), CHECK(device.mpr_attr.mpr_resolution, 1);
	CHECK(device.cap, MRC_DEVICE_CAP_TRIM_NACK | MRC_DEVICE_CAP_DYNAMIC_MPR | MRC_DEVICE_CAP_SVC_TIME);
	CHECK(device.mpr_attr.max_mpr, 255), CHECK(device.wimm_attr.max_wimm, 32768), CHECK(device.wimm_attr.max_wimm_dest, 32768);
	CHECK(device.qp_attr.max_qp_hint > 1 << 24, 1), CHECK(again.cap, device.cap);
}

static struct mrc_qp *created(struct mrc_qp_init_attr attr) { return mrc_create_qp(mrc, &attr); }

static void creating(void)
{
	struct mrc_qp_init_attr attr = {.send_cq = cq, .recv_cq = cq, .pd = pd, .qp_context = &wrong, .sq_sig_all = 1}, bad = attr, told;
	struct mrc_qp *qp;

	attr.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
	attr.protocol_version = MRC_PROTOCOL_VERSION_1, attr.cap.max_inline_data = 100;
	CHECK((qp = mrc_create_qp(mrc, &attr)) != NULL, 1);
	CHECK(attr.cap.max_send_wr, 1), CHECK(attr.cap.max_send_sge, 1), CHECK(attr.cap.max_recv_sge, 1);
	CHECK(mrc_query_qp(qp, NULL, 0, NULL, 0, &told), 0), CHECK(told.qp_context == &wrong && told.sq_sig_all == 1, 1);
	CHECK(told.cap.max_inline_data, 100), CHECK(told.send_ops_flags, attr.send_ops_flags), CHECK(mrc_destroy_qp(qp), 0);
	bad.send_ops_flags = 1 << 4; /* reads */
	CHECK(created(bad) == NULL && errno == EOPNOTSUPP, 1), bad.send_ops_flags = 0;
	bad.protocol_version = (enum mrc_protocol_version)2;
	CHECK(created(bad) == NULL && errno == EOPNOTSUPP, 1), bad.protocol_version = 0;
	bad.cap.max_send_sge = 2;
	CHECK(created(bad) == NULL && errno == EINVAL, 1), bad.cap.max_send_sge = 1;
	bad.cap.max_send_wr = (1 << 20) + 1;
	CHECK(created(bad) == NULL && errno == EINVAL, 1);
}

static void posting(struct mrc_qp *other)
{
	struct mrc_qp *qp = brought_to(IBV_QPS_INIT, other);
	struct ibv_sge piece = {(uintptr_t)memory, 8, mr->lkey};
	struct ibv_send_wr *bad = NULL, read = {.opcode = IBV_WR_RDMA_READ, .sg_list = &piece, .num_sge = 1};
	struct ibv_recv_wr *bad_receive = NULL, many = {.num_sge = 2}, one = {.next = &many};

	CHECK(mrc_write(qp, 1, 8, 0) == EINVAL && errno == EINVAL, 1);
	CHECK(mrc_to_rtr(qp, other, NULL, 0), 0), CHECK(mrc_to_rts(qp, NULL, 0), 0);
	CHECK(mrc_post_send(qp, &read, &bad) == EOPNOTSUPP && errno == EOPNOTSUPP && bad == &read, 1);
	read.opcode = IBV_WR_RDMA_WRITE, piece.length = sizeof memory + 1;
	CHECK(mrc_post_send(qp, &read, &bad), EINVAL), CHECK(mrc_post_send(qp, &read, NULL), EINVAL);
	piece.length = 65, read.send_flags = IBV_SEND_INLINE;
	CHECK(mrc_post_send(qp, &read, &bad), EINVAL);
	CHECK(mrc_post_recv(qp, &one, &bad_receive) == -1 && errno == EINVAL && bad_receive == &many, 1);
	for (int each = 1; each < 4; each++)
		CHECK(mrc_receive(qp, each), 0);
	CHECK(mrc_receive(qp, 4) == -1 && errno == ENOMEM, 1);
	CHECK(mrc_destroy_qp(qp), 0);
}

int main(void)
{
	struct mrc_qp_hint_init_attr init = {.attr = {1, 1, 0, {0}}};

	open_mrc();
	cq = mrc_create_cq(mrc, 64, NULL, NULL, 0), hint = mrc_create_qp_hint(mrc, &init);
	struct mrc_qp *other = mrc_made(cq, 4);

	/* Each refusal says why on stderr, which is not looked at here. */
	masks(other);
	values(other);
	ranges(other);
	hints();
	contexts();
	creating();
	posting(other);
	/* Nobody uses it any more. */
	CHECK(mrc_destroy_qp_hint(hint), 0);
	CHECK(mrc_destroy_qp(other), 0), CHECK(mrc_destroy_cq(cq), 0);
	close_mrc();
	return wrong;
}
