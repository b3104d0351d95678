/*
 * The ranks with which the contract suite tries a transport. A fixture is one rank's endpoint and
 * its links. Its calls wait (bounded) where the contract's calls do not.
 *
 * The fixtures of one test live in one thread (fixtures_open), or one a thread or a forked process
 * (fixture_pair). The first failure of any of them goes to their shared report: a forked child must
 * not assert.
 */
#ifndef FIXTURE_H
#define FIXTURE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "topo/place.h"
#include "rondo/transport.h"
#include "base/settings.h"

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

#define FIXTURE_RANKS_MAX 8
#define FIXTURE_CHANNELS_MAX 2

extern int fixture_wait_ms; /* longest wait for anything that must come: 20000 */
extern const char *fixture_address; /* MASTER_ADDR; NULL: the loopback */
/* RD_PSK_SIZE bytes: ranks act as on different hosts, with this key. NULL: a test sets none. */
extern const unsigned char *fixture_psk;

extern bool
	fixture_shares; /* endpoints wake sleepers by what a job shares: the library's own can */

/* State that the ranks of a case share, also across fork. */
struct shared {
	_Atomic int failed; /* 1: report is being written; 2: written */
	char report[512];
	_Atomic int stage; /* for scripts that wait for each other */
	_Atomic int met; /* number of fixtures that have stored their card */
	_Atomic size_t message_max; /* the least of all ready links; 0: none is ready */
	_Atomic int ready; /* number of fixtures whose links are ready */
	size_t card_sizes[FIXTURE_RANKS_MAX];
	unsigned char cards[FIXTURE_RANKS_MAX][RD_CARD_MAX];
	pid_t child; /* the forked side; 0: sides are threads */
};

struct shape {
	int size, channels, slots;
	size_t piece;
	uint64_t comm_id; /* 0: a default */
	bool sleepy; /* fixture_pair: sleep, not spin, until the links are ready */
	struct rd_shared *const *jobs; /* of each rank; NULL: none that outlives its endpoint */
};

extern const struct shape shape_small; /* two ranks, one channel, three slots of 4 KiB */

struct fixture {
	const struct rd_transport *transport;
	struct shared *shared;
	struct rd_settings settings;
	struct rd_local local;
	struct rd_endpoint *endpoint;
	unsigned char card[RD_CARD_MAX];
	size_t card_size;
	struct rd_link *links[FIXTURE_RANKS_MAX][FIXTURE_CHANNELS_MAX];
	bool counted; /* in shared->ready */
	struct fixture *all; /* the fixtures in this thread, this one among them */
	int all_count;
};

/*
 * Unless `holds`, ends the case with a reason. To be called in the process that runs the case
 * alone. The program provides case_failed(), which does not return: a Criterion test fails, and
 * rondo-check reports (fixture_criterion.c, tools/check).
 */
void require(bool holds, const char *format, ...) __attribute__((format(printf, 2, 3)));
_Noreturn void case_failed(const char *reason);

struct shared *shared_create(void);
void shared_destroy(struct shared *shared);
/* Destroys, and requires that no rank has failed. */
void shared_end(struct shared *shared);

/* Records a failure unless `holds`; the first one stays. Returns holds. */
bool ok(struct fixture *fixture, bool holds, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
bool failed(const struct fixture *fixture);

uint64_t now_ms(void);

/* Initialises a fixture that listens. `all` is the fixture alone. False: recorded; to be closed in
   any case. */
bool fixture_listen(struct fixture *fixture, struct shared *shared, const char *transport, int rank,
	const struct shape *shape);
/* Opens every channel to the peer with this card. */
bool fixture_open(struct fixture *fixture, int peer, const unsigned char *card, size_t card_size);
/* Waits until all links in this thread are ready. */
bool fixture_until_ready(struct fixture *fixture);
/* Returns `size`, or the least message_max of all ranks' links if that is less. Beyond 64 bytes,
   waits until all ranks' links are ready. */
size_t fixture_fit(struct fixture *fixture, size_t size);
/* Advances every endpoint in this thread once. Returns whether something moved. */
bool fixture_advance_all(struct fixture *fixture);
/* The same; yields when nothing moved. */
void fixture_advance(struct fixture *fixture);
/* Advances, and returns true until the deadline; then records that `what` did not come. */
bool fixture_wait(struct fixture *fixture, uint64_t deadline_ms, const char *what);
void fixture_close(struct fixture *fixture);

/* Opens shape->size fixtures in this thread, all linked to each other; a single one to itself. */
bool fixtures_open(struct fixture *fixtures, struct shared *shared, const char *transport,
	const struct shape *shape);
void fixtures_close(struct fixture *fixtures);

/*
 * Sleeps in epoll_wait() as a driver does, until look(fixture, argument) returns true. A sleep that
 * lasts although look() would return true is a failure: a wake-up was lost.
 */
typedef bool condition(struct fixture *fixture, void *argument);
bool sleep_until(struct fixture *fixture, condition *look, void *argument);

/* Both ends of one link, in one thread: two ranks, or one rank twice. */
struct ends {
	struct shared *shared;
	struct fixture fixtures[2];
	struct fixture *fixture; /* for calls that need one of the two */
	struct rd_link *from, *to;
	size_t most; /* maximum bytes of a message: shape.piece, or message_max if that is less */
};

/* False: a failure has been recorded. The ends are to be closed in any case. */
bool ends_open(struct ends *ends, const char *transport, struct shape shape);
/* Requires that no rank has failed. */
void ends_close(struct ends *ends);

/*
 * Runs one script as rank 0 and the other as rank 1, linked to each other: as threads, or as
 * processes with rank 1 forked. Requires that neither failed. A script may close its fixture
 * itself. In a process, it may also kill the process with SIGKILL.
 */
typedef void script(struct fixture *fixture, struct rd_link **links);
enum sides { THREADS, PROCESSES };
void fixture_pair(const char *transport, const struct shape *shape, enum sides sides, script *zero,
	script *one);

#endif
