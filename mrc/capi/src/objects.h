/* SPDX-License-Identifier: BSD-2-Clause */
/* The objects behind the pointers that a program has. */
#ifndef MRC_OBJECTS_H
#define MRC_OBJECTS_H

#include "calls.h"
#include "infiniband/verbs.h"
#include "refusals.h"

#define EXPORT __attribute__((visibility("default")))
#define MOST_INLINE 4096

/* As in rdma-core: what lies before the context. Its size tells programs which functions there are. */
struct verbs_context {
	void *functions[39];
	size_t sz;
	struct ibv_context context;
};
enum { QUERY_PORT = 0, CREATE_QP_EX = 33 };

struct context {
	struct verbs_context verbs;
	word handle;
	int error_fd; /* readable when a queue of it may have lost completions */
	struct qp *qps;
	struct cq *cqs;
	unsigned mrc_contexts; /* of mrc.h, over this one */
};

static inline struct context *context_of(struct ibv_context *context)
{
	return (struct context *)((char *)context - offsetof(struct context, verbs.context));
}

struct pd {
	struct ibv_pd ibv;
	word handle;
};

struct mr {
	struct ibv_mr ibv;
	uint64_t iova;
	word handle;
	struct mr *next;
};

struct channel {
	struct ibv_comp_channel ibv;
	struct cq *cqs;
};

struct cq {
	struct ibv_cq ibv;
	word *words, *entries;
	pthread_spinlock_t lock;
	unsigned empty; /* polls that found nothing */
	unsigned posts; /* in a row, since the program looked here last */
	int armed; /* an event was asked for and not delivered */
	unsigned events; /* that were missed while it was armed again */
	unsigned users;
	int error_told; /* that completions were lost */
	struct cq *next, *next_of_context; /* of the channel */
	struct mrc_context *mrc; /* that it is of; NULL without mrc.h */
	word ev_events; /* that of EV events: their handle, or 0 */
	uint32_t dropped; /* EV events, since the last one that found room */
	uint32_t events_told, errors_told; /* that the program has read, and has to acknowledge */
};

struct qp {
	struct ibv_qp ibv;
	word handle, *words, *sends, *receives;
	uint8_t *inline_data;
	pthread_spinlock_t send_lock, receive_lock;
	struct ibv_qp_cap cap;
	struct ibv_qp_attr attr;
	int sq_sig_all, bit, may_post;
	uint32_t events_told; /* that the program has read, and has to acknowledge */
	struct qp *next;
	struct mrc_context *mrc; /* that it is of, what it expects, and what it was to send; NULL and 0 without mrc.h */
	struct mrc_qp_hint *hint;
	uint64_t send_ops_flags;
};

/* The doorbells, and the lock of all lists. */
extern word *mrc_bells;
extern pthread_mutex_t mrc_lists;

/* Sets errno and returns NULL. */
void *mrc_null(int error);
/* Zeroed, one of the pointers that programs may give from now on. Sets errno and returns NULL. */
enum kind { CONTEXT = 1, PD, MR, CQ, CHANNEL, QP, MRC_CONTEXT, HINT };
void *mrc_new(enum kind kind, size_t size);
void mrc_delete(void *object);
/* An errno, of which a function is told: EINVAL for what is no such thing, or closed; EIO in a child that was forked. */
int mrc_checked(const char *function, const void *object, enum kind kind);
#define mrc_check(object, kind) mrc_checked(__func__, object, kind)
/* The same, told to nobody. */
int mrc_is_no(const void *object, enum kind kind);
/* EINVAL, told, where a place is NULL that something is to be read from or written to. */
#define mrc_check_place_of(function, place) ((place) ? 0 : mrc_refuse(function, REFUSED_NO_PLACE, #place))
#define mrc_check_place(place) mrc_check_place_of(__func__, place)
/* Zeroed memory that begins a line of the processor's cache. NULL without any. */
void *mrc_memory(size_t size);
/* The address of `length` bytes at `addr` of a region, 0 where they are not in it. */
word mrc_local_address(struct ibv_pd *pd, uint32_t lkey, uint64_t addr, uint32_t length);

int mrc_is_device(const struct ibv_device *device);
int mrc_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr, size_t size);
int mrc_ring_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr);
int mrc_ring_receive(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);
/* The program looks for completions: an endpoint that dozes is to take what was posted. */
void mrc_end_burst(struct cq *cq);
int mrc_ring_poll(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc);
/* Whether this process may use so few that who spins is in the way of who works. */
int mrc_has_few_processors(void);
/* The program posts, on the processor that it has: the endpoint is to keep off it where there are few. */
void mrc_posted_here(void);
/* One poll in many that found nothing: lets others have the processor. */
void mrc_polled_in_vain(struct cq *cq);
/* The program has posted, or found something: it begins to wait anew. */
void mrc_polled_anew(void);
/* What a queue without a channel rings for who waits so; -1 without any. It stays open: the endpoint may be about to ring. */
int mrc_pollers_bell(void);
int mrc_ring_notify(struct ibv_cq *cq, int solicited_only);
/* A queue that has lost completions and was not told of; NULL without any. */
struct cq *mrc_overrun_cq(struct context *context);
/* The context of these queues closes: its descriptor is nobody's any more. */
void mrc_orphan_cqs(struct context *context);
/* No EV events are put there any more when it returns. An errno; 0 for any other queue. */
int mrc_end_events(struct cq *cq);
/* Forget what a QP left in a completion queue. */
void mrc_forget(struct ibv_cq *cq, uint32_t qp_num);
/* The next asynchronous event of a context: waits for one. An errno. */
int mrc_next_event(struct ibv_context *context, struct ibv_async_event *event);
/* The program has acknowledged so many events. `counted` is of the mutex, and who waits is woken. */
void mrc_acknowledge(pthread_mutex_t *mutex, pthread_cond_t *cond, uint32_t *counted, uint32_t count);
/* Wait until so many are acknowledged, and after a second say for which function. Nobody is told of more meanwhile. */
void mrc_await(const char *function, pthread_mutex_t *mutex, pthread_cond_t *cond, const uint32_t *counted, uint32_t told,
	const char *awaited);
/* The state that a QP shall go to. */
enum ibv_qp_state mrc_wanted_state(const struct qp *qp, const struct ibv_qp_attr *attr, int mask);
/* A QP gives up its hint, if it has one. The lists are locked. */
void mrc_release_hint(struct qp *qp);
const char *mrc_state_name(word state);
/* Modify with the attributes of MRC in `words` (NOT_GIVEN: not given). Checks the mask of libibverbs' attributes. */
int mrc_modify(struct qp *qp, struct ibv_qp_attr *attr, int mask, word *words);

#endif
