/*
 * Worlds for tests: N ranks, processes or threads, that create a comm, run a body and leave. A body
 * never asserts: it returns 0, or reports a text and returns non-zero; the parent asserts.
 */
#ifndef WORLD_H
#define WORLD_H

#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>

#include "hosts.h"
#include "rondo.h"

/* ThreadSanitizer checks the threads of one process, and is slow. */
#ifdef __SANITIZE_THREAD__
#define ONLY_THREADS true
#else
#define ONLY_THREADS false
#endif

#define WORLD_MAX 17
#define WORLD_TEXT 512

/* The memory of the body's buffers. */
enum world_memory { MALLOCED, REGISTERED, REGISTERED_BUT_FOR_RANK_0 };

struct world {
	int size;
	const char *transport; /* NULL: any; "mixed": two emulated hosts, shm inside, tcp between */
	bool threads;
	enum world_memory memory;
	int timeout_ms; /* of the comm; 0: the default */
	int call_timeout_ms; /* of calls, once all have the comm; 0: timeout_ms */
	int channels; /* 0: the default */
	bool has_no_secret; /* by default the job has one */
	bool quiet; /* ranks may fail: none is reported on stderr */
	size_t piece_size; /* 0: the default */
	const char *algo; /* NULL: the default */
	int limit_ms; /* time of the whole world; 0: 60 s */
	const char *const *interfaces; /* by rank, as RONDO_INTERFACE; NULL: the default */
	const struct hosts *hosts; /* NULL: all ranks are on the test's host */
	int host_of[WORLD_MAX]; /* by rank */
};

/* The environment of one rank of a world. */
struct rank_env {
	const struct world *world;
	rondo_comm *comm; /* NULL when it could not be made */
	int create_error;
	int rank, size;
	void *argument;
	char *text; /* [WORLD_TEXT], read by the parent */
	uint64_t *number; /* read by the parent; for what must be equal everywhere */
	struct gate *gate; /* world_meet()'s */
	int came;
};

/* The end of one rank, for its parent. */
struct rank_outcome {
	int status; /* the body's result, 128 + signal, or -1: still there at the limit */
	char text[WORLD_TEXT];
	uint64_t number;
};

/*
 * Runs body on every rank, between creating and destroying its comm. The body checks for a failure
 * to create; an error of destroy counts as failure unless the body failed. Returns the number of
 * failed ranks; the report of the first is on stderr.
 */
int world_run(const struct world *world, int (*body)(struct rank_env *env), void *argument,
	struct rank_outcome outcomes[WORLD_MAX]);

/* Runs body on such a world (.size = 3); asserts that no rank fails. */
#define WORLD_TRY(body, ...) \
	cr_assert_eq(world_run(&(struct world){ __VA_ARGS__ }, body, NULL, NULL), 0)
/* Runs body on `size` ranks over the transport, the rest by default; asserts that none fails. */
void world_try(int size, const char *transport, int (*body)(struct rank_env *env));

/* Two ranks then have a core each, and more share them. Skips the test where there is but one. */
void world_use_two_cores(void);

/* Runs body, expects that no rank fails, and returns what was written to standard error meanwhile,
   until the next capture. */
const char *world_run_captured(
	const struct world *world, int (*body)(struct rank_env *env), void *argument);

/* The config of a rank of 127.0.0.1, the rest by default. */
struct rondo_config world_config(int rank, int size, int port);

/* Begins to create a comm, beside the caller; asserts that it begins. */
rondo_creation *world_create(const struct rondo_config *config);

/* On the monotonic clock, the same in all processes. */
int64_t world_now_ms(void);

/* Reports the text to the parent and returns 1: `return world_report(rank, "...")`. */
int world_report(struct rank_env *env, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* In a body: a call that must succeed; else it is reported. */
#define TRY(call) \
	do { \
		int err_ = (call); \
		if (err_) \
			return world_report(env, "%s: %s: %s", #call, rondo_error_name(err_), \
				rondo_last_error()); \
	} while (0)

/* In a body: waits until this many ranks are here, for at most 20 s. They have met in the same
   number each time before. Before a rank dies or revokes, where the others' last calls must not
   fail: one rank's call may end before another's, also a barrier. */
void world_meet(struct rank_env *env, int ranks);

/* In a body: 0 if err is `wanted` and its reason holds these words; else returns as
   world_report(). */
int world_expect(struct rank_env *env, const char *call, int err, int wanted, const char *words);

/* In a body: this call must fail with this error and a reason that holds these words. */
#define EXPECT_ERROR(call, error, words) \
	do { \
		if (world_expect(env, #call, (call), error, words)) \
			return 1; \
	} while (0)

/* In a body: all ranks sum rank + 1 in each element, and check the sums. Returns as a body does. */
int world_sum(struct rank_env *env, float *values, size_t count);
/* A body: world_sum() of one element. */
int world_sum_one(struct rank_env *env);

/* In a body: memory where world->memory has it. */
void *world_get_memory(const struct rank_env *env, size_t size);
void world_put_memory(const struct rank_env *env, void *memory);

/* In a body: destroys its comm, before it returns; returns that error. */
int world_leave(struct rank_env *env);

/* Waits for a post, for at most 20 s; false: none came. */
bool world_wait(sem_t *sem);

/* In a body, on all ranks: another comm of the same ranks, over the same transports. Returns as a
   body does. */
int world_second_comm(struct rank_env *env, rondo_comm **comm);

/* Hosts, or a test that is skipped with the reason. */
struct hosts *world_hosts(const struct hosts_shape *shape);

#endif
