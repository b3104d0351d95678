/*
 * Plan files: the plans of all ranks of one collective, as JSON. docs/rondo-plan.md describes them,
 * and docs/plan-file.schema.json is their schema. A step of a file is a call of rondo/algorithm.h,
 * not a finished step. So a file names no memory, and Rondo finishes its plans as it does others.
 */
#ifndef RD_PLAN_FILE_H
#define RD_PLAN_FILE_H

#include "plan/plan.h"

#define RD_FILE_FORMAT "rondo-plan-file 1"
#define RD_FILE_NAME_SIZE 16
#define RD_FILE_RANKS_MAX 1024
#define RD_FILE_STEPS_MAX 1000000 /* of all ranks together */
#define RD_FILE_CHUNKS_MAX (1 << 24) /* of all ranks together, where each has every chunk */

/*
 * X(name, numbers): a call, and a letter for each number behind it: p another rank, r any rank,
 * a any rank or -1, c a chunk. Calls with a capital need direct access.
 */
#define RD_FILE_CALLS(X) \
	X(send, "pc") \
	X(recv, "pc") \
	X(recv_reduce, "pc") \
	X(recv_reduce_last, "pc") \
	X(recv_merge, "c") \
	X(fetch, "Pc") \
	X(combine, "Ac") \
	X(combine_aside, "C") \
	X(expect, "C") \
	X(signal, "P") \
	X(await, "P") \
	X(swap, "Pcc") \
	X(spread, "Rc")

enum rd_file_call {
#define RD_FILE_ENUM(name, numbers) RD_FILE_##name,
	RD_FILE_CALLS(RD_FILE_ENUM)
#undef RD_FILE_ENUM
		RD_FILE_CALL_COUNT
};

#define RD_FILE_NUMBERS 3

struct rd_file_step {
	enum rd_file_call call;
	int numbers[RD_FILE_NUMBERS];
};

struct rd_plan_file {
	char name[RD_FILE_NAME_SIZE];
	struct rd_problem problem; /* rank and layout do not count */
	int parts;
	int64_t least_bytes, most_bytes; /* of a block */
	int *firsts; /* [ranks + 1]: indices of steps */
	struct rd_file_step *steps; /* those of rank 0, then of rank 1, ... */
	int ranks, step_count, capacity; /* that are written */
	uint64_t hash; /* of the file's bytes */
	struct rd_algorithm algorithm; /* writes the plans; rd_plan_file_seal() makes it */
};

/* Returns the name of a call, and its numbers as in RD_FILE_CALLS. */
const char *rd_file_call_name(enum rd_file_call call);
const char *rd_file_call_numbers(enum rd_file_call call);

/*
 * Make a file. The first takes name, problem, parts and range from `file`, whose other members are
 * zeros. Steps are added for rank 0 first, and each rank is ended. The last makes the algorithm;
 * `file` stays where it is from then on. RONDO_MEMORY; RONDO_INVALID beyond RD_FILE_STEPS_MAX.
 */
int rd_plan_file_begin(struct rd_plan_file *file);
int rd_plan_file_add(struct rd_plan_file *file, struct rd_file_step step);
void rd_plan_file_end_rank(struct rd_plan_file *file);
void rd_plan_file_seal(struct rd_plan_file *file, bool direct_access);
/* Frees the file, which rd_plan_file_read() or calloc() made. NULL does nothing. */
void rd_plan_file_destroy(struct rd_plan_file *file);

/*
 * Decodes a file. `name` stands for it in reasons. RONDO_INVALID, with the line and what is wrong
 * there; RONDO_MEMORY. The plans are not proved: rd_prove() does that.
 */
int rd_plan_file_read(struct rd_plan_file **file, const char *name, const char *text, size_t size);
/* The same for the file at a path. RONDO_SYSTEM where it cannot be read. */
int rd_plan_file_load(struct rd_plan_file **file, const char *path);

/* The file whose plans the algorithm writes for this collective; NULL: it is of another kind. */
const struct rd_plan_file *rd_plan_file_of(
	const struct rd_algorithm *algorithm, enum rd_collective collective);

/* Whether a plan file is behind the algorithm. */
bool rd_algorithm_is_file(const struct rd_algorithm *algorithm);

/*
 * Whether an algorithm claims a problem: by write[] and may_run(), or by its file. A file serves
 * each root: its ranks are counted from there.
 */
bool rd_algorithm_claims(const struct rd_algorithm *algorithm, const struct rd_problem *problem);

#endif
