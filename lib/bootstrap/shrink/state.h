/*
 * The state of a shrink, as data. shrink.c holds its life and rounds, guest.c the side of those
 * that come, and host.c the side of the lowest, with rings.c, which finds out who may still come.
 */
#ifndef RD_SHRINK_STATE_H
#define RD_SHRINK_STATE_H

#include <pthread.h>

#include "bootstrap/control_socket.h"
#include "bootstrap/shrink/shrink.h"

/* Events of the epoll, beside the numbers of visits. */
#define RD_MARK_LINEAGE UINT64_MAX
#define RD_MARK_HOST (UINT64_MAX - 1)
#define RD_MARK_RINGS (UINT64_C(1) << 32) /* and the rank */

#define RD_SHRINK_TICK_MS 50 /* how often deadlines are looked at */
#define RD_SHRINK_DOUBTS_MS 1000 /* for which refusals from other hosts are tried again */

/* A rank of the failed comm, as this rank takes it. */
enum rd_fate {
	RD_FATE_EXPECTED, /* it may come */
	RD_FATE_ACCUSED, /* the verdict is that it died */
	RD_FATE_LOST, /* it is not waited for; it may live on */
	RD_FATE_DEAD, /* it died: the verdict says so, or it was on this host; and nobody listens */
};

/* A connection to the host: of a guest, or of a stranger. */
struct rd_visit {
	struct rd_control_socket *connection; /* NULL: none */
	int rank; /* in the failed comm; -1: not known yet */
	int made; /* its MADE: 1: none yet; 0; an error */
	bool refuses; /* by its vote: the ranks must not begin again */
	int64_t came_ms;
};

/* A connection of the host to the place of a rank that has not come, which shows whether the rank
   is there. No byte is sent. */
struct rd_ring {
	int fd; /* -1: none */
	bool answered;
	int64_t next_ms; /* when to ring, or to give up */
};

/* The thread of watch.h. */
struct rd_shrink_watch {
	bool runs;
	pthread_t thread;
	int stop_fd; /* an eventfd; -1: none */
	struct pollfd *fds; /* [count] */
	int count;
};

struct rd_shrink {
	const struct rd_settings *settings; /* the caller's */
	struct rd_control *control; /* the caller's */
	const struct rd_lineage *lineage;
	const struct rd_member *members; /* [size] of the failed comm */
	int rank, size, timeout_ms;
	int epoll_fd;
	int rounds;
	int64_t doubts_ms; /* until then a refusal from another host proves nothing */
	/* In the present plan: its ranks; and those that are left out, and may live on. */
	int planned, lost;
	struct rd_vote *vote; /* the caller's */
	struct rd_shrink_watch watch;
	enum rd_fate *fates; /* [size] */
	/* The host: */
	struct rd_visit *visits; /* [visit_count] */
	int visit_count;
	int64_t until_ms; /* for how long guests are waited for */
	int forbidden; /* why none can be accepted: an errno; 0: they can */
	int *visit_of; /* [size]: index of a rank's visit; -1: none */
	struct rd_ring *rings; /* [size] */
	/* The others: */
	struct rd_control_socket *host; /* NULL: none */
};

/* Where a rank is met, as settings of a comm that meets there. */
void rd_shrink_place(const struct rd_shrink *shrink, int rank, struct rd_settings *settings);

#endif
