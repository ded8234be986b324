/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the library refuses by itself: the errno, how often it is told, and what is said on stderr. Each refusal is here
 * and nowhere else, and tests/capi provokes each. A line begins with "mrc: " and the function without its prefix, as the
 * lines of mrc/capi/host.py do.
 *
 * Told EACH time, or ONCE in a process: a program may post and poll millions of times. A full send or receive queue,
 * what a descriptor with O_NONBLOCK has not, and a GID index after the last (ENODATA) are no refusals: programs wait for
 * them. Where the errno here is 0 it is the system's, or the function only waits.
 */
#ifndef MRC_REFUSALS_H
#define MRC_REFUSALS_H

enum told { EACH, ONCE };

/* each(name, errno, told, format of the line after the function) */
#define MRC_REFUSALS(each)                                                                                             \
	each(NO_SUCH, EINVAL, EACH, "this is no %s: the pointer is NULL, to one that is destroyed, or to something else") \
	each(NO_SUCH_POSTED, EINVAL, ONCE, "the %s is NULL: it was not made, or is destroyed")                         \
	each(NO_PLACE, EINVAL, EACH, "%s is NULL: give where it is, or is to be")                                      \
	each(NO_PLACE_POLLED, EINVAL, ONCE, "%s is NULL: give where it is, or is to be")                               \
	each(FORKED, EIO, ONCE, "a child that was forked has no endpoint: open the device after exec")                 \
	each(NO_MEMORY, ENOMEM, EACH, "the system gives no memory")                                                    \
	each(NO_DESCRIPTOR, 0, EACH, "the system gives no descriptor: %s")                                             \
	each(OTHER_CONTEXT, EINVAL, EACH, "the %s is of another context: make all of one")                             \
	each(NO_DEVICE, EINVAL, EACH, "this is no device of this library: take one of ibv_get_device_list")            \
	each(CONTEXT_IN_USE, EBUSY, EACH, "%u contexts of mrc.h are open: mrc_destroy_context first")                  \
	each(NO_PORT, EINVAL, EACH, "there is no port %u: the device has port 1, with all planes behind it")           \
	each(NO_GID, EINVAL, EACH, "there is no GID index %u: the same GID is at 0 to 3")                              \
	each(NO_PKEY, EINVAL, EACH, "there is one pkey, 0xffff at index 0, not %#x")                                   \
	each(NO_FLAGS, EINVAL, EACH, "flags %#x: none are known")                                                      \
	each(TABLE_SIZE, EINVAL, EACH, "room for %zu entries of %zu bytes: give room for one of at least %zu")         \
	each(CQ_SIZE, EINVAL, EACH, "cqe %d: a queue has room for 1 to %d completions")                                \
	each(CQ_VECTOR, EINVAL, EACH, "comp_vector %d: there is 0 alone")                                              \
	each(CQ_IN_USE, EBUSY, EACH, "the CQ has QPs: destroy them first")                                             \
	each(CHANNEL_IN_USE, EBUSY, EACH, "%d CQs use the channel: destroy them first")                                \
	each(CQ_SILENT, EINVAL, ONCE, "the CQ has no channel that could tell: make it with one")                       \
	each(CQ_OVERRUN, EIO, ONCE, "the CQ has lost completions: make it with more cqe, or poll it sooner")           \
	each(CQ_OF_EVENTS, EINVAL, EACH, "the CQ is one of EV events: completions need one of their own")              \
	each(CQ_OF_EVENTS_POLLED, EINVAL, ONCE, "the CQ is one of EV events: use mrc_ctl_poll_ev_event")               \
	each(CQ_OF_COMPLETIONS, EINVAL, ONCE, "the CQ has no EV events: make one with mrc_ctl_create_ev_event_cq")     \
	each(COUNT, EINVAL, ONCE, "%s is %d: it may not be negative")                                                  \
	each(MR_LENGTH, EINVAL, EACH, "length %zu at %p: a region has at least a byte, and none beyond the last address") \
	each(MR_MEMORY, EFAULT, EACH, "not all of the %zu bytes at %p are memory that the program may %s")             \
	each(MR_IN_USE, EBUSY, EACH, "a send that has not ended reads from the region: wait for its completion")       \
	each(QP_ROOM, EINVAL, EACH, "max_send_wr %u, max_recv_wr %u: %u is the most")                                  \
	each(QP_INLINE, EINVAL, EACH, "max_inline_data %u: %u is the most")                                            \
	each(QP_SGES, EINVAL, EACH, "max_send_sge %u, max_recv_sge %u: 1 is the most")                                 \
	each(QP_TOO_MANY, ENOMEM, EACH, "the process has %u QPs: there are no more")                                   \
	each(NO_STATE, EINVAL, EACH, "qp_state %d: a QP goes to RESET, INIT, RTR, RTS or ERR")                         \
	each(MASK_MISSING, EINVAL, EACH, "the way to %s needs %s too")                                                 \
	each(MASK_FOREIGN, EINVAL, EACH, "the way to %s takes no %s")                                                  \
	each(OTHER_STATE, EINVAL, EACH, "cur_qp_state is %s, and the QP is in %s")                                     \
	each(MRC_MASK_FOREIGN, EINVAL, EACH, "the mask of MRC's attributes has bits of none: %#x")                     \
	each(MRC_IN_RTS, EINVAL, EACH, "a QP in RTS keeps MRC's attributes: give mask 0, or begin again from RESET")   \
	each(VENDOR_CFG, EINVAL, EACH, "vendor_cfg: this device has no settings of a vendor's, give zeros")            \
	each(QP_CAP, EINVAL, EACH, "cap has bits of no capability: %#x")                                               \
	each(PROFILE_NUMBER, EINVAL, EACH, "no device has a profile %#llx")                                            \
	each(API_VERSION, EINVAL, EACH, "the program is written for mrc.h %u.%u, this library has 1.0.1")              \
	each(MRC_IN_USE, EBUSY, EACH, "the context has QPs or CQs: destroy them first")                                \
	each(HINT_COUNTS, EINVAL, EACH, "a hint counts %d QPs a peer, %d senders, %d receivers: none may be negative") \
	each(HINT_MASK, EINVAL, EACH, "the mask of a hint's attributes has bits of none: %#x")                         \
	each(HINT_IN_USE, EBUSY, EACH, "%u QPs use the hint: destroy them, or give them another")                      \
	each(UNACKNOWLEDGED, 0, EACH, "%u events that were read are not acknowledged: it waits for %s")                \
	each(POST_STATE, EINVAL, ONCE, "the QP is in %s: it takes sends in RTS and ERR, receives in INIT too")         \
	each(POST_SGES, EINVAL, ONCE, "num_sge %d: a work request has one, or none")                                   \
	each(POST_NO_LIST, EINVAL, ONCE, "num_sge is 1 and sg_list is NULL")                                           \
	each(POST_LENGTH, EINVAL, ONCE, "%u bytes: a message has at most %u")                                          \
	each(POST_ADDRESS, EINVAL, ONCE, "remote_addr %#llx: addresses end below %#llx")                               \
	each(POST_INLINE, EINVAL, ONCE, "%u bytes with IBV_SEND_INLINE: the QP was made for %u, its max_inline_data")  \
	each(POST_REGION, EINVAL, ONCE, "no region of the QP's PD has lkey %#x and the %u bytes at %#llx")

#define MRC_REFUSAL_NAME(name, number, told, format) REFUSED_##name,
enum refusal { MRC_REFUSALS(MRC_REFUSAL_NAME) REFUSALS };

/* Tells of a refusal. The function is named as C has it. Returns the errno, which it does not set. */
int mrc_refuse(const char *function, enum refusal which, ...);
/* The same for a function that is the caller. */
#define REFUSE(...) mrc_refuse(__func__, __VA_ARGS__)
/* EOPNOTSUPP, once for each `what`, which is not there. Sets errno. */
int mrc_refused(const char *what);

#endif
