/*
 * A comm: the ranks, the links between them, and the order of calls. api/communicator.c creates
 * and destroys it, route.c, opening.c and connect.c open its links, run.c runs calls on it, with
 * task.c, turn.c, batch.c and wait.c; all use comm.c.
 */
#ifndef RD_COMM_H
#define RD_COMM_H

#include <pthread.h>

#include "exec/short.h"
#include "base/cache_line.h"
#include "base/fork.h"
#include "comm/buffer_exchange.h"
#include "comm/call_check.h"
#include "bootstrap/control.h"
#include "bootstrap/listener.h"
#include "bootstrap/shrink/shrink.h"
#include "topo/processors.h"
#include "topo/rank_order.h"
#include "tuner/pick.h"
#include "tuner/tuner_rows.h"
#include "base/settings.h"
#include "rondo/transport.h"
#include "transports/shared.h"

struct rd_gpu;
struct rd_mailbox;
struct rd_prepared;
struct rd_request_queue;

/* The transfers issued to and from a peer: their numbers, and the latest ones' indices in their
   batch. */
struct rd_peer_calls {
	uint32_t sends, recvs;
	int last_send, last_recv;
};

struct rd_opening;

/* A pair of this rank and another. */
struct rd_pair {
	int endpoint; /* its number; of the pair's links */
	unsigned barred; /* endpoints (bits) that have failed it, as in rd_route_cheapest() */
	bool opening, open; /* its links are being opened; may be used */
};

/* The state of opening.c, under hold.h. */
struct rd_connecting {
	struct rd_opening *openings; /* pairs that are being opened */
	bool armed; /* the endpoints, by the control thread */
	struct rd_pair *pairs; /* [size] */
	int opening_count;
	int fallbacks, opened; /* of the control connection's, taken so far */
	int culprit; /* the peer at which it failed, or for which it waits; -1: none */
	bool made; /* rd_connect() has come to its end */
	bool ended; /* a failure has been reported */
};

/* How often rondo_comm_create_group() has made a comm with this id, which then gets another. */
struct rd_group_use {
	uint64_t id;
	uint32_t times;
};

struct rondo_comm {
	/* Each call reads or writes some of these, up to activity.called_at: two lines of the
	   cache. One that is short, and repeats the last, needs two or three lines of `shorts`. */
	unsigned forks; /* rd_process.forks in the process that made it */
	_Atomic bool used; /* a thread of the program is in a call, or issues one */
	_Atomic bool changes; /* a thread explains, finalizes or destroys it, outside of calls */
	_Atomic int in_use; /* 1: a thread has the links (hold.h) */
	_Atomic int failed; /* the error that ended this comm */
	uint64_t issued; /* turns: calls run one after the other, in the order of issue */
	_Atomic uint64_t finished;
	_Atomic uint32_t
		*watched_done; /* once more, where others read it once this rank has died */
	uint32_t calls; /* collectives issued: their numbers */
	struct rd_connecting connecting;
	struct rd_activity activity;
	/* The last call of each collective, if it may be repeated and is short. */
	_Alignas(RD_CACHE_LINE) struct rd_short shorts[RD_COLLECTIVE_COUNT];
	int rank, size;
	struct rd_prepared *prepared[RD_COLLECTIVE_COUNT]; /* last used first (plan_cache.h) */

	struct rd_settings settings;
	_Atomic int timeout_ms; /* of calls that are issued now: rondo_comm_set_timeout() */

	struct rd_gpu *gpu; /* for calls on device memory (gpu/state.h); NULL: host memory alone */
	bool meets_devices; /* the program may pass device memory: check every buffer */

	/* Links: [peer * channels + channel]; NULL: not open. */
	int channels;
	int used_channels; /* by calls without a choice of the picker: all, except in calibration */
	size_t piece_size;
	bool maps; /* every pair of ranks has a transport that can map the peer's memory */
	uint32_t rails[RD_LINK_CLASS_COUNT]; /* over which each rank's channels spread, at least */
	struct rd_link **links;
	_Atomic bool complete; /* it may be used, and have a mailbox */
	pthread_mutex_t hold_lock;
	struct rd_endpoint *endpoints[RD_TRANSPORTS_MAX];
	int endpoint_count;
	struct rd_local local;

	/* The order of ranks, by channel: one layout where the order is the same. NULL where
	   this rank is alone. */
	struct rd_layout *layouts[RD_CHANNELS_MAX];

	/* Failures of other ranks; the control connection is NULL where this rank is alone. */
	struct rd_control *control;
	/* The place where late ranks see that this one lives, if a shrink left it alone. Empty
	   where there is a control connection, which has it. */
	struct rd_lineage alone;
	bool halted; /* the links of a failed comm (route.h) */
	bool listens; /* a user of the rank's listener (transports/shared.h) */

	/* Sleeping: the shared eventfd is also written when the comm fails. */
	struct rd_shared *shared; /* by the comms of the job */
	int epoll_fd; /* for endpoints with descriptors of their own; -1: there are none */
	int borrowed_fd; /* an epoll in its place, for this sleep; -1: none */
	struct rd_processors processors; /* of this host */
	int cores; /* cores that the ranks of this host share */
	bool oversubscribed; /* more ranks here than cores: do not spin */
	bool single_cored; /* less than two cores a rank: do not spin beside a computation */
	enum rd_single_copy_mode single_copy; /* of links that have it */
	unsigned sleeps;
	/* how long to spin before sleeping: shorter after spinning without success */
	int64_t spin_ns;

	_Atomic uint64_t started; /* more than `finished`: a queued call or a batch runs */
	int ended; /* finished tasks of the current batch */
	pthread_mutex_t turn_lock;
	pthread_cond_t turn_change;

	struct rd_peer_calls *peer_calls; /* [size] */
	/* Indices of tasks in their batch; of the latest issued (task.c): */
	int last_task, last_collective;
	/* of transfers to this rank itself whose counterpart has not come (group_run.c): */
	int first_half, last_half;

	_Atomic bool calls_itself; /* the call is the library's own: RONDO_ALGO does not apply */
	/* bit 1 << collective: a warning that RONDO_ALGO does not run it has been logged */
	_Atomic uint32_t replaced;
	struct rd_costs costs;
	struct rd_tuner_rows *rows; /* the same on all ranks, as are the costs; NULL: none */
	struct rd_picker *picker;
	bool times_calls; /* the log level asks for the times of calls */
	struct rd_buffer_exchange *exchange; /* NULL: it has paid for no call */
	struct rd_call_check *check; /* NULL: no call is checked */

	/* User-defined operations, and the number ever created. */
	struct rd_made_op *ops;
	unsigned ops_made;

	struct rd_request_queue *requests; /* (api/request_queue.h); NULL: none was made */

	struct rd_mailbox *_Atomic mailbox; /* (mailbox.h); NULL: no tagged message was sent */

	struct rd_vote vote; /* of its shrinks */
	/* Under hold_lock: */
	struct rd_group_use *group_uses; /* [group_use_count] */
	int group_use_count;

	struct rd_trace *trace; /* (exec/trace.h); NULL: calls are not traced */

	bool finalized; /* by rondo_comm_finalize(): only rondo_comm_destroy() remains */
};

/* Arms all links: a message that comes later wakes rd_comm_sleep(). */
void rd_comm_arm(struct rondo_comm *comm);
void rd_comm_disarm(struct rondo_comm *comm);
/* Makes the comm's own epoll, if it has none. */
int rd_comm_make_epoll(struct rondo_comm *comm);
/* The epoll on which a thread sleeps that waits for this comm: its own, or one that it borrows
   before it arms the links, and gives back. -1: none. */
static inline int rd_comm_epoll(const struct rondo_comm *comm)
{
	return comm->epoll_fd >= 0 ? comm->epoll_fd : comm->borrowed_fd;
}
void rd_comm_borrow(struct rondo_comm *comm);
void rd_comm_give_back(struct rondo_comm *comm);
/* Sleeps until a link, the control connection or the timeout wakes this rank. Call it between
   rd_comm_arm() and rd_comm_disarm(). */
void rd_comm_sleep(const struct rondo_comm *comm, int timeout_ms);
/* The epoll of the control thread, which opens links: the comm's own, or that of the job. */
static inline int rd_comm_control_epoll(const struct rondo_comm *comm)
{
	return comm->epoll_fd >= 0 ? comm->epoll_fd : comm->shared->control_fd;
}
/* Lets the links make progress without a call; true: something moved. */
bool rd_comm_advance(struct rondo_comm *comm);

/*
 * Ends the comm with an error seen here (its reason recorded, culprit a rank or -1). Returns the
 * error that all ranks agree on, with that reason recorded.
 */
int rd_comm_fail(struct rondo_comm *comm, int error, int culprit);
/*
 * Reports a long wait to the coordinator; the call continues. culprit: the rank that it waits for;
 * -1: unknown. Reports when the wait exceeds RD_SLOW_MS, each time that it has doubled since, and
 * after each further heartbeat_timeout_ms. *reported_ms: of this wait; 0 at first.
 */
void rd_comm_slow(struct rondo_comm *comm, int *reported_ms, int64_t waited_ms, int culprit,
	const char *what);
/* The error that ended the comm, with its reason recorded. */
int rd_comm_failure(struct rondo_comm *comm);

/* Whether a short call looks for a message for a while, beside what a wait does. */
static inline bool rd_comm_looks(const struct rondo_comm *comm)
{
	return !comm->oversubscribed && comm->settings.spin_us > 0;
}

/* The bound on the waits of calls that are issued now. */
static inline int rd_comm_timeout_ms(const struct rondo_comm *comm)
{
	return atomic_load_explicit(&comm->timeout_ms, memory_order_relaxed);
}

/* Returns 0 where this process made the comm. In a forked child, records that `function` is
   refused. */
static inline int rd_comm_check_process(const struct rondo_comm *comm, const char *function)
{
	return rd_is_inherited(comm->forks) ? rd_refuse_inherited(function, "communicator") : 0;
}

/*
 * Enters the comm, which one thread at a time may use. Returns false if another thread is in it. A
 * load and a store detect it, since no call should pay for a lock. Two threads that enter within
 * the same few instructions are not detected.
 */
static inline bool rd_comm_enter(struct rondo_comm *comm)
{
	if (__builtin_expect(atomic_load_explicit(&comm->used, memory_order_relaxed), false))
		return false;
	atomic_store_explicit(&comm->used, true, memory_order_relaxed);
	return true;
}

/* Records that a second thread could not enter; returns RONDO_INVALID. */
int rd_comm_refuse_second(const struct rondo_comm *comm, const char *function);

static inline void rd_comm_exit(struct rondo_comm *comm)
{
	atomic_store_explicit(&comm->used, false, memory_order_relaxed);
}

#endif
