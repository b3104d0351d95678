/*
 * One simulated world of a line: the ranks of a comm that fails, and shrinks, again and again. Each
 * rank runs the library's own rondo_comm_shrink() on a stack of its own, in one thread, with
 * virtual time. A seed decides all. The same seed gives the same run.
 *
 *   world.c     the run: events, faults, time     sockets.c   listeners, connections, epolls
 *   ranks.c     stacks, memory, errors            comms.c     the making of comms, their failures
 *   judge.c     the properties that each run must have
 */
#ifndef SIMULATION_SHRINK_WORLD_H
#define SIMULATION_SHRINK_WORLD_H

#include "seams.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

#include "bootstrap/control_message.h"
#include "check/event_queue.h"
#include "draw.h"
#include "faults.h"
#include "line.h"

#define LINE_RANKS 8
#define MS UINT64_C(1000000)
#define NEVER UINT64_MAX
#define SOCKETS_MAX 16384
#define COMMS_MAX 256

#define LINE_HEARTBEAT_MS 1000
#define LINE_CALL_MS 4000
#define LINE_INIT_MS 6000
/* Pauses, partitions and rejections of less than this, together, do no harm. */
#define LINE_HARMLESS_MS 450
/* Within this time the ranks have a comm again where some died. */
#define LINE_SWIFT_MS 700
/* After its last delay, in virtual time, each living rank has a comm or an error. */
#define LINE_END_MS 120000

enum stage {
	STAGE_CALLING, /* it has a comm */
	STAGE_SHRINKING,
	STAGE_ENDED, /* with an error */
};

struct line_rank {
	int origin;
	bool dead, vanished;
	uint64_t paused_ns, paused_until; /* since when; 0: it is not, NEVER: for good */
	enum stage stage;
	uint64_t wake_ns, since_ns; /* since_ns: of its present stage */
	int line_fd; /* where it is met */
	int comm; /* its present one: an index of line.comms */
	int result; /* 0, or the error with which it ended */
	char error[RD_REASON_SIZE];
	int open[256], open_count; /* its sockets */
	struct line_memory *memory; /* what it has allocated */
	bool children_failed; /* comms that it makes fail */
	int watched[LINE_RANKS + 1], watched_count; /* sockets whose end fails them */
};

/* A comm: while it is made, and after. */
struct line_comm {
	int size, origins[LINE_RANKS]; /* by its ranks; -1: has not come */
	uint32_t port; /* where it meets */
	unsigned gone; /* bits of origins that came, and died or gave up */
	bool go; /* all have come */
	unsigned told; /* bits of origins to which the comm's failure is known, or on its way: */
	int lost[LINE_RANKS], state_of_lost[LINE_RANKS];
	/* As each member knows, by origin: */
	bool broken[LINE_RANKS];
	unsigned char presence[LINE_RANKS][LINE_RANKS];
};

enum sock_kind { KIND_CLOSED, KIND_LISTENER, KIND_STREAM, KIND_EPOLL };

struct mail {
	struct mail *next;
	bool ends;
	int error; /* with which it ends */
	struct rd_control_message message;
};

struct sock {
	enum sock_kind kind;
	int owner; /* the rank */
	uint32_t port; /* of a listener */
	int pending, next_pending; /* a listener's, that are not accepted; -1: none */
	int peer; /* of a stream; -1: none yet, or a stranger's */
	int toward; /* the rank to which it connects */
	bool connected;
	int error; /* with which the attempt to connect ended */
	struct mail *first, *last;
	int arrived; /* of its mails */
	bool readable; /* the first was read */
	bool watched;
	uint32_t events;
	uint64_t mark;
	uint64_t last_ns;
};

struct line_world {
	int size, hosts;
	uint64_t network_ns, wake_ns; /* delays, at most */
	struct faults faults;
	bool fired[FAULTS_MAX];
	uint64_t struck_ns; /* when the latest fault struck */
	struct draw run;
	uint64_t now_ns, events;
	struct rd_event_queue queue;
	struct {
		unsigned side; /* bits of ranks */
		bool rejects; /* between hosts; else nothing passes */
		uint64_t from_ns, until_ns;
	} cuts[FAULTS_MAX];
	int cut_count;
	struct line_rank ranks[LINE_RANKS];
	int current; /* the rank that runs */
	struct sock socks[SOCKETS_MAX];
	int sock_count;
	uint32_t ports;
	struct line_comm comms[COMMS_MAX];
	int comm_count;
	bool trace;
	char failure[600]; /* of a property; "": none */
};

enum line_event {
	EVENT_SYN, /* a stream's attempt to connect reaches the host */
	EVENT_CONNECTED, /* a stream; and so the next two */
	EVENT_REFUSED,
	EVENT_MAIL,
	EVENT_SILENCE, /* a stream: no packet has come for too long */
	EVENT_RESUME, /* rank */
	EVENT_PAUSE, /* rank: paused for as long as heartbeats may take */
	EVENT_CUTS, /* some ranks are cut off for as long */
	EVENT_BREAK, /* comm * LINE_RANKS + a member: it learns that the comm is broken */
	EVENT_REVOKE, /* rank */
};

extern struct line_world line;

/* world.c */
void line_event(enum line_event kind, int subject, uint64_t at_ns);
/* The rank looks at what has changed. */
void line_touch(int rank);
/* Until when these two cannot reach each other; 0: they can. */
uint64_t line_cut(int a, int b);
/* Whether they could not for as long as a heartbeat may take. */
bool line_silent(int a, int b);
/* Whether a router between their hosts resets and refuses. */
bool line_rejects(int a, int b);
uint64_t line_delay(uint64_t most_ns);
void line_trace(int rank, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A property does not hold. The first stands. */
void line_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

static inline struct line_rank *line_self(void)
{
	return &line.ranks[line.current];
}

static inline bool line_acts(const struct line_rank *rank)
{
	return !rank->dead && !rank->paused_until && rank->stage != STAGE_ENDED;
}

/* ranks.c */
void ranks_start(int rank, void (*program)(void));
/* Runs it until it waits. */
void ranks_resume(int rank);
/* The present rank waits until this time, or until it is touched. */
void ranks_wait(uint64_t until_ns);
/* Frees what the rank has left; returns how many pieces. */
int ranks_free(int rank);
int sim_fail(int error, const char *format, ...) __attribute__((format(printf, 2, 3)));
const char *sim_last_error(void);

/* sockets.c */
int socks_listen(int owner);
/* A connection of no rank to this rank's line, of one of four kinds. */
void socks_intrude(int rank, int kind);
void socks_take_event(enum line_event kind, int subject);
/* All of a rank's close. */
void socks_close_all(int rank);
/* All of the rank's streams break. */
void socks_reset(int rank);
/* Streams between ranks that are cut off fail, after a time. */
void socks_begin_silence(void);
/* Resets the streams between ranks of line_rejects(). */
void socks_reject(void);
void socks_finish(void);
/* The port at which this one listens. */
uint32_t socks_port(int fd);
/* The listener of this port: its owner; -1: none listens. */
int socks_owner_of(uint32_t port);
/* Whether the other end of this one has closed, or it has failed. */
bool socks_has_ended(int fd);

/* comms.c */
/* The first comm, which all ranks have. */
void comms_begin(void);
/* The program of a rank: it has a comm, which fails, and shrinks it. */
void comms_program(void);
void comms_take_event(enum line_event kind, int subject);
/* This rank is no longer there: the comms that it has break. presence: as the others see it. */
void comms_lose(int origin, int presence, uint64_t after_ns);
/* Between ranks of line_rejects(), connections are reset. */
void comms_reject(void);
void comms_revoke(int origin);

/* judge.c */
void line_judge(void);

#endif
