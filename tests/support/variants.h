/*
 * Every way of running a call on device memory, on the tests' driver, with buffers there, calls on
 * known numbers, and the check of their results.
 */
#ifndef VARIANTS_H
#define VARIANTS_H

#include "gpu/state.h"
#include "plan/collective.h"
#include "world.h"

/* One variant: threads or processes, EMULATED_GPUS, RONDO_KERNEL. */
struct variant {
	const char *gpus, *kernel;
	bool threads;
	const char *transport;
	enum rd_kernel becomes;
};

#define VARIANTS 11
extern const struct variant variants[VARIANTS];

/* A timeout that ends no call: an expected end has another reason. The world still has a limit. */
#define NEVER_MS 3600000

struct trial {
	const struct variant *variant;
	int size;
	int (*body)(struct rank_env *env);
	int timeout_ms; /* of calls; 0: the default */
};

/* Each trial runs in a process of its own, because a process starts the driver once:
   in_child(run_trial, &trial) is 0 if it went well. A body finds the variant in rank->argument. */
int in_child(int (*run)(void *argument), void *argument);
int run_trial(void *argument);
/* Such a trial: 0 if it went well. timeout_ms: of calls; 0: the default. */
int try_body(
	const struct variant *variant, int size, int (*body)(struct rank_env *env), int timeout_ms);

/* In a test: runs the body by every variant. */
void try_variants(int size, int (*body)(struct rank_env *env), int timeout_ms, bool threads_too);
/* The same by the variants whose ranks are threads. */
void try_threads(int size, int (*body)(struct rank_env *env), int timeout_ms);

/* ---- Values -------------------------------------------------------------------------------- */

/* Element i of a rank's input. Small whole numbers: sums and products are exact in every type. */
float value(int rank, size_t i);
void fill_floats(float *at, int rank, size_t count);

/* The expected element `at` of this rank's output. */
float expected(enum rd_collective collective, rondo_op op, int rank, int size, int root,
	size_t count, size_t at);

struct rd_problem problem_of(const struct rank_env *env, enum rd_collective collective, int root);

/* ---- Bodies -------------------------------------------------------------------------------- */

#define COUNT_MAX 3001

/* Buffers of a rank: device memory, with a guard behind the output. */
struct memory {
	float *in, *out;
	rondo_stream *stream;
};

/* Buffers for `count` elements from and to each rank, or for COUNT_MAX. Like bodies, these report
   and return non-zero on failure, also without a comm. */
int open_room(struct rank_env *env, struct memory *memory, size_t count);
int open_memory(struct rank_env *env, struct memory *memory);
void close_memory(struct memory *memory);

/* Begins a body whose block has the memory, as open_memory() opens it; it is closed at its end. */
#define WITH_MEMORY(name) \
	static int name##_with(struct rank_env *env, struct memory *memory); \
	static int name(struct rank_env *env) \
	{ \
		return with_memory(env, name##_with); \
	} \
	static int name##_with(struct rank_env *env, struct memory *memory)
int with_memory(struct rank_env *env, int (*body)(struct rank_env *env, struct memory *memory));

/* One call, and the check of its output. The root is the last rank. */
int try_call(struct rank_env *env, struct memory *memory, enum rd_collective collective,
	rondo_op op, size_t count, bool in_place, bool on_stream);

/* A body: each collective, with several counts, in place and not, on a stream and not. */
int all_collectives(struct rank_env *env);

int expect_floats(struct rank_env *env, const float *at, size_t count, float wanted);

/* A sum over all ranks on the stream; waits for it. Returns the error of these calls. */
int one_call(struct rank_env *env, struct memory *memory, size_t count);

int expect_error(struct rank_env *env, int err, int wanted);

/* A body: a call that differs among the ranks is a mismatch on each. */
int expect_mismatch(struct rank_env *env, size_t count,
	int (*call_otherwise)(struct rank_env *env, struct memory *memory));

/* A user operation: the first rank's number less all others. */
void subtract(
	void *into, const void *a, const void *b, size_t count, rondo_type type, void *argument);

#endif
