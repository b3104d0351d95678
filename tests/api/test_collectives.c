/* ctest label: threads */
/*
 * Every collective, type, operation, count and place, over every transport, against a reference
 * that each rank works out for itself: exact for integers, in float64 for floats.
 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "exec/algorithms.h"
#include "tuner/eligible.h"
#include "comm/comm.h"
#include "elements.h"
#include "exec/reduce.h"
#include "world.h"

enum kind {
	ALL_REDUCE,
	REDUCE,
	BROADCAST,
	REDUCE_SCATTER,
	ALL_GATHER,
	ALL_TO_ALL,
	GATHER,
	SCATTER
};

static const char *const kind_names[] = { "all_reduce", "reduce", "broadcast", "reduce_scatter",
	"all_gather", "all_to_all", "gather", "scatter" };

#define KINDS 8

/* One call, as one rank makes it. */
struct trial {
	enum kind kind;
	rondo_type type;
	rondo_op op;
	size_t count;
	int root;
	bool in_place;
	int misaligned; /* bytes */
	int rank, size;
	const struct tables *tables;
};

/* What all trials of one type, operation and count share. */
struct tables {
	char *inputs[WORLD_MAX]; /* [size * count] elements: what is filled of every rank's input */
	double *total, *slack; /* [2 * count]: of elements 0.., then of this rank's block */
	char *integers; /* the same, as it lies in memory, where the type is an integer's */
};

static bool reduces(enum kind kind)
{
	return kind == ALL_REDUCE || kind == REDUCE || kind == REDUCE_SCATTER;
}

static bool rooted(enum kind kind)
{
	return kind == REDUCE || kind == BROADCAST || kind == GATHER || kind == SCATTER;
}

/* ---- Values -------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

/* What rank `rank` has in element i of its input, before rounding to the type. */
static double float_input(const struct trial *trial, int rank, size_t i)
{
	double unit = (double)(mix((uint64_t)rank << 40 ^ i) >> 11) / 9007199254740992.0;

	return trial->op == RONDO_PROD ? 0.5 + unit : 2 * unit - 1;
}

static uint64_t integer_input(int rank, size_t i)
{
	return mix((uint64_t)rank << 40 ^ i);
}

static bool is_signed(rondo_type type)
{
	return type == RONDO_I8 || type == RONDO_I32 || type == RONDO_I64;
}

static void fill_input(
	const struct trial *trial, struct tables *tables, int rank, size_t first, size_t count)
{
	size_t element = rondo_type_size(trial->type);

	for (size_t i = first; i < first + count; i++)
		element_store(tables->inputs[rank] + i * element, trial->type,
			integer_input(rank, i),
			element_is_float(trial->type) ? float_input(trial, rank, i) : 0);
}

/* All that this rank sends, and what it may get of the others: their first block, and the one that
   is for it. */
static void fill_inputs(const struct trial *trial, struct tables *tables)
{
	for (int rank = 0; rank < trial->size; rank++) {
		fill_input(trial, tables, rank, 0, trial->count);
		fill_input(trial, tables, rank, trial->rank * trial->count, trial->count);
	}
	fill_input(trial, tables, trial->rank, 0, trial->count * trial->size);
}

/* ---- The reference ------------------------------------------------------------------------- */

static uint64_t combine_integers(const struct trial *trial, size_t i)
{
	uint64_t total = element_widen(integer_input(0, i), trial->type);

	for (int rank = 1; rank < trial->size; rank++) {
		uint64_t x = element_widen(integer_input(rank, i), trial->type);
		bool less = is_signed(trial->type) ? (int64_t)x < (int64_t)total : x < total;

		if (trial->op == RONDO_PROD)
			total *= x;
		else if (trial->op == RONDO_MIN)
			total = less ? x : total;
		else if (trial->op == RONDO_MAX)
			total = less ? total : x;
		else if (trial->op > RONDO_AVG)
			total = element_combine_bits(trial->op, total, x);
		else
			total += x;
	}
	total = element_widen(total, trial->type);
	if (trial->op == RONDO_AVG)
		total = is_signed(trial->type) ? (uint64_t)((int64_t)total / trial->size)
					       : total / trial->size;
	return total;
}

/* As the type has rounded it on its way into memory. */
static double rounded_input(const struct trial *trial, int rank, size_t i)
{
	return element_float(
		trial->tables->inputs[rank] + i * rondo_type_size(trial->type), trial->type);
}

/* The exact result, and how far rounding after each combination may lead from it. */
static double combine_floats(const struct trial *trial, size_t i, double *slack)
{
	static const double epsilons[RONDO_TYPE_COUNT] = { [RONDO_F16] = 0x1p-11,
		[RONDO_BF16] = 0x1p-8,
		[RONDO_F32] = 0x1p-24,
		[RONDO_F64] = 0x1p-53,
		[RONDO_F8E4M3] = 0x1p-4,
		[RONDO_F8E5M2] = 0x1p-3 };
	/* The smallest numbers of a narrow type are rounded absolutely. */
	static const double leasts[RONDO_TYPE_COUNT] = {
		[RONDO_F16] = 0x1p-24, [RONDO_F8E4M3] = 0x1p-10, [RONDO_F8E5M2] = 0x1p-17
	};
	double total = rounded_input(trial, 0, i), magnitude = fabs(total);

	for (int rank = 1; rank < trial->size; rank++) {
		double x = rounded_input(trial, rank, i);

		if (trial->op == RONDO_PROD)
			total *= x;
		else if (trial->op == RONDO_MIN)
			total = fmin(total, x);
		else if (trial->op == RONDO_MAX)
			total = fmax(total, x);
		else
			total += x;
		magnitude += fabs(x);
	}
	if (trial->op == RONDO_PROD)
		magnitude = fabs(total);
	if (trial->op == RONDO_AVG) {
		total /= trial->size;
		magnitude /= trial->size;
	}
	*slack = (trial->size + 1) * (epsilons[trial->type] * magnitude + leasts[trial->type]);
	if (trial->op == RONDO_MIN || trial->op == RONDO_MAX || trial->size == 1)
		*slack = 0;
	return total;
}

/* Reference results for the elements from `first` on, into the tables from `at` on. */
static void combine(const struct trial *trial, struct tables *tables, size_t first, size_t at)
{
	size_t element = rondo_type_size(trial->type);

	for (size_t i = 0; i < trial->count; i++) {
		if (element_is_float(trial->type))
			tables->total[at + i] =
				combine_floats(trial, first + i, &tables->slack[at + i]);
		else
			element_store(tables->integers + (at + i) * element, trial->type,
				combine_integers(trial, first + i), 0);
	}
}

/* What a block of the result must be, bit for bit; NULL where rounding has a say. */
static const char *expected(const struct trial *trial, size_t block)
{
	const struct tables *tables = trial->tables;
	size_t own = trial->rank * trial->count * rondo_type_size(trial->type);

	switch (trial->kind) {
	case ALL_GATHER:
	case GATHER:
		return tables->inputs[block];
	case ALL_TO_ALL:
		return tables->inputs[block] + own;
	case SCATTER:
		return tables->inputs[trial->root] + own;
	case BROADCAST:
		return tables->inputs[trial->root];
	case REDUCE_SCATTER:
		if (!element_is_float(trial->type))
			return tables->integers + trial->count * rondo_type_size(trial->type);
		return NULL;
	default:
		return element_is_float(trial->type) ? NULL : tables->integers;
	}
}

/* How many bytes are the same, from the first on. */
static size_t same_bytes(const char *a, const char *b, size_t size)
{
	size_t i = 0;

	if (memcmp(a, b, size) == 0)
		return size;
	while (a[i] == b[i])
		i++;
	return i;
}

/* How many floats are right, from the first on. */
static size_t right_floats(const struct trial *trial, const char *out)
{
	size_t size = rondo_type_size(trial->type);
	size_t first = trial->kind == REDUCE_SCATTER ? trial->count : 0, i = 0;
	const double *total = trial->tables->total + first, *slack = trial->tables->slack + first;

	while (i < trial->count &&
		fabs(element_float(out + i * size, trial->type) - total[i]) <= slack[i])
		i++;
	return i;
}

/* How many elements of a block of the result are right, from the first on. */
static size_t right_elements(const struct trial *trial, const char *out, size_t block)
{
	size_t size = rondo_type_size(trial->type);
	const char *at = out + block * trial->count * size, *want = expected(trial, block);

	return want ? same_bytes(at, want, trial->count * size) / size : right_floats(trial, at);
}

/* ---- One trial ----------------------------------------------------------------------------- */

static size_t in_blocks(const struct trial *trial)
{
	bool root = trial->rank == trial->root;

	switch (trial->kind) {
	case REDUCE_SCATTER:
	case ALL_TO_ALL:
		return trial->size;
	case SCATTER:
		return root ? trial->size : 0;
	case BROADCAST:
		return root;
	default:
		return 1;
	}
}

static size_t out_blocks(const struct trial *trial)
{
	bool root = trial->rank == trial->root;

	switch (trial->kind) {
	case ALL_GATHER:
	case ALL_TO_ALL:
		return trial->size;
	case GATHER:
		return root ? trial->size : 0;
	case REDUCE:
		return root;
	default:
		return 1;
	}
}

static int call(const struct trial *t, rondo_comm *comm, const void *in, void *out)
{
	switch (t->kind) {
	case ALL_REDUCE:
		return rondo_all_reduce(comm, in, out, t->count, t->type, t->op, NULL);
	case REDUCE:
		return rondo_reduce(comm, in, out, t->count, t->type, t->op, t->root, NULL);
	case BROADCAST:
		return rondo_broadcast(comm, in, out, t->count, t->type, t->root, NULL);
	case REDUCE_SCATTER:
		return rondo_reduce_scatter(comm, in, out, t->count, t->type, t->op, NULL);
	case ALL_GATHER:
		return rondo_all_gather(comm, in, out, t->count, t->type, NULL);
	case ALL_TO_ALL:
		return rondo_all_to_all(comm, in, out, t->count, t->type, NULL);
	case GATHER:
		return rondo_gather(comm, in, out, t->count, t->type, t->root, NULL);
	case SCATTER:
		return rondo_scatter(comm, in, out, t->count, t->type, t->root, NULL);
	}
	return RONDO_INVALID;
}

#define GUARD 64

/* Room for the larger of input and output, with guards around it that must stay as they are. */
static char *guarded(char *memory, size_t bytes)
{
	memset(memory, 0x5a, bytes + 2 * GUARD + 8);
	return memory + GUARD;
}

static bool guards_stand(const char *memory, const char *buffer, size_t bytes)
{
	for (const char *at = memory; at < buffer; at++)
		if (*at != 0x5a)
			return false;
	for (const char *at = buffer + bytes; at < buffer + bytes + GUARD; at++)
		if (*at != 0x5a)
			return false;
	return true;
}

static uint64_t hash_bytes(uint64_t hash, const char *bytes, size_t size)
{
	for (size_t i = 0; i < size; i += 8) {
		uint64_t word = 0;

		memcpy(&word, bytes + i, size - i < 8 ? size - i : 8);
		hash = mix(hash ^ word) + i;
	}
	return hash;
}

struct memory {
	char *in, *out;
};

static int try(struct rank_env *env, const struct trial *trial, struct memory *memory)
{
	size_t block = trial->count * rondo_type_size(trial->type);
	size_t in_size = in_blocks(trial) * block, out_size = out_blocks(trial) * block;
	char *out =
		guarded(memory->out, in_size > out_size ? in_size : out_size) + trial->misaligned;
	char *in = memory->in + trial->misaligned;
	char *result = out;

	if (trial->in_place) {
		in = out + (in_size < out_size ? trial->rank * block : 0);
		result = out + (in_size > out_size ? trial->rank * block : 0);
		if (in_size == 0 || out_size == 0)
			in = result = out;
	}
	memcpy(in, trial->tables->inputs[trial->rank], in_size);

	int err = call(trial, env->comm, in, result);

	if (err)
		return world_say(env, "%s of %zu %s %s root %d%s: %s: %s", kind_names[trial->kind],
			trial->count, rondo_type_name(trial->type), rondo_op_name(trial->op),
			trial->root, trial->in_place ? " in place" : "", rondo_error_name(err),
			rondo_last_error());
	for (size_t i = 0; i < out_blocks(trial); i++) {
		size_t right = right_elements(trial, result, i);

		if (right < trial->count)
			return world_say(env, "%s of %zu %s %s root %d%s: element %zu is wrong",
				kind_names[trial->kind], trial->count, rondo_type_name(trial->type),
				rondo_op_name(trial->op), trial->root,
				trial->in_place ? " in place" : "", i * trial->count + right);
	}
	if (!guards_stand(
		    memory->out, out, trial->in_place && in_size > out_size ? in_size : out_size))
		return world_say(env, "%s of %zu %s wrote beside its buffer",
			kind_names[trial->kind], trial->count, rondo_type_name(trial->type));
	if (trial->kind == ALL_REDUCE || trial->kind == ALL_GATHER || trial->kind == BROADCAST)
		*env->number = hash_bytes(*env->number, result, out_size);
	return 0;
}

/* ---- All of them --------------------------------------------------------------------------- */

static int try_places(struct rank_env *env, struct trial trial, struct memory *memory)
{
	for (int in_place = 0; in_place < 2; in_place++) {
		trial.in_place = in_place;
		trial.misaligned = (trial.count + trial.op + in_place) % 3 == 1 ? 1 : 0;

		int wrong = try(env, &trial, memory);

		if (wrong)
			return wrong;
	}
	return 0;
}

static int try_kinds(struct rank_env *env, struct trial trial, struct memory *memory)
{
	for (int kind = 0; kind < KINDS; kind++) {
		trial.kind = kind;
		trial.root = rooted(kind) ? (trial.type + trial.op) % trial.size : 0;
		if (!reduces(kind) && trial.op != RONDO_SUM)
			continue;

		int wrong = try_places(env, trial, memory);

		if (wrong)
			return wrong;
	}
	return 0;
}

/* Much data is for a type of each size: the others of that size go the same ways. Of a world of one
   algorithm, the types and operations are other worlds' business. */
static bool passes_over(const struct rank_env *env, size_t count, rondo_type type, rondo_op op)
{
	bool is_one_of_its_size =
		type == RONDO_I8 || type == RONDO_BF16 || type == RONDO_F32 || type == RONDO_I64;

	if (count > 1023 && !is_one_of_its_size)
		return true;
	return env->world->algo &&
	       ((type != RONDO_I32 && type != RONDO_F32 && type != RONDO_BF16) ||
		       (op != RONDO_SUM && op != RONDO_AVG));
}

static int try_count(
	struct rank_env *env, struct trial trial, struct memory *memory, struct tables *tables)
{
	trial.tables = tables;
	for (int type = 0; type < RONDO_TYPE_COUNT; type++) {
		for (int op = 0; op < RONDO_OP_COUNT; op++) {
			if (passes_over(env, trial.count, type, op))
				continue;
			trial.type = type;
			trial.op = op;
			if (!rondo_op_applies(op, type))
				continue;
			/* A product's inputs keep near 1; all other operations share theirs. */
			if (op == RONDO_SUM || op == RONDO_PROD || op == RONDO_PROD + 1)
				fill_inputs(&trial, tables);
			combine(&trial, tables, 0, 0);
			combine(&trial, tables, trial.rank * trial.count, trial.count);

			int wrong = try_kinds(env, trial, memory);

			if (wrong)
				return wrong;
		}
	}
	return 0;
}

/* Much data is for gcc without sanitizers: in the other variants more of the same shows nothing
   new, and sanitizers look at every access of it. */
#if defined(__clang__) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MOST 4099
#else
#define MOST 65537
#endif

static const size_t counts[] = { 0, 1, 7, 64, 1023, MOST };

static bool is_registered(const struct rank_env *env)
{
	return env->world->memory == REGISTERED ||
	       (env->world->memory == REGISTERED_BUT_FOR_RANK_0 && env->rank != 0);
}

static char *get_memory(const struct rank_env *env, size_t size)
{
	void *memory = NULL;

	if (!is_registered(env))
		return malloc(size);
	rondo_mem_alloc(&memory, size);
	return memory;
}

static void put_memory(const struct rank_env *env, char *memory)
{
	if (is_registered(env))
		rondo_mem_free(memory);
	else
		free(memory);
}

static int try_everything(struct rank_env *env)
{
	size_t most = counts[sizeof(counts) / sizeof(*counts) - 1] * 8;
	size_t all = most * env->size;
	struct memory memory = { get_memory(env, all + 8), get_memory(env, all + 2 * GUARD + 8) };
	struct tables tables = {
		.total = malloc(2 * most), .slack = malloc(2 * most), .integers = malloc(2 * most)
	};
	struct trial trial = { .rank = env->rank, .size = env->size };
	int wrong = 0;

	for (int rank = 0; rank < env->size; rank++)
		tables.inputs[rank] = malloc(all);
	if (!env->comm)
		wrong = world_say(env, "create: %s: %s", rondo_error_name(env->create_error),
			rondo_last_error());
	for (size_t i = 0; i < sizeof(counts) / sizeof(*counts) && !wrong; i++) {
		trial.count = env->world->algo && counts[i] > 4099 ? 4099 : counts[i];
		wrong = try_count(env, trial, &memory, &tables);
	}
	for (int rank = 0; rank < env->size; rank++)
		free(tables.inputs[rank]);
	free(tables.total);
	free(tables.slack);
	free(tables.integers);
	put_memory(env, memory.in);
	put_memory(env, memory.out);
	return wrong;
}

static bool has_run(const rondo_comm *comm, enum rd_collective collective, const char *algorithm)
{
	for (struct rd_prepared *prepared = comm->prepared[collective]; prepared;
		prepared = prepared->next)
		if (strcmp(prepared->plans[0]->algorithm, algorithm) == 0)
			return true;
	return false;
}

/* And the algorithm that was asked for was at work wherever it can be. */
static int try_algorithm(struct rank_env *env)
{
	const struct rd_algorithm *algorithm = rd_algorithm_named(env->world->algo);
	int wrong = try_everything(env);

	if (!wrong && rondo_barrier(env->comm, NULL))
		wrong = world_say(env, "barrier: %s", rondo_last_error());
	for (int c = 0; c < RD_COLLECTIVE_COUNT && !wrong; c++) {
		struct rd_problem problem = { c, env->rank, env->size, 0, 0,
			env->comm->layouts[0] };

		if (c != RD_TRANSFER && rd_algorithm_can(algorithm, &problem) &&
			!has_run(env->comm, c, algorithm->name))
			wrong = world_say(
				env, "%s was not by %s", rd_collective_name(c), algorithm->name);
	}
	return wrong;
}

static void run_everything(const struct world *world)
{
	struct rank_outcome outcomes[WORLD_MAX];

	cr_assert_eq(
		world_run(world, world->algo ? try_algorithm : try_everything, NULL, outcomes), 0);
	for (int i = 1; i < world->size; i++)
		cr_assert_eq(outcomes[i].number, outcomes[0].number,
			"ranks 0 and %d of %d hold different bits", i, world->size);
}

static struct world worlds[] = {
	{ .size = 1, .transport = NULL },
	{ .size = 2, .transport = "shm" },
	{ .size = 3, .transport = "shm" },
	{ .size = 4, .transport = "shm" },
	{ .size = 5, .transport = "shm" },
	{ .size = 8, .transport = "shm" },
	{ .size = 2, .transport = "tcp" },
	{ .size = 3, .transport = "tcp" },
	{ .size = 4, .transport = "tcp" },
	{ .size = 5, .transport = "tcp" },
	{ .size = 8, .transport = "tcp" },
	{ .size = 2, .transport = "mixed" },
	{ .size = 3, .transport = "mixed" },
	{ .size = 4, .transport = "mixed" },
	{ .size = 5, .transport = "mixed" },
	{ .size = 8, .transport = "mixed" },
	{ .size = 4, .transport = "shm", .channels = 3, .piece_size = 1000 },
	{ .size = 4, .transport = "tcp", .channels = 2, .piece_size = 4096 },
	{ .size = 5, .transport = "mixed", .channels = 3, .piece_size = 1000 },
	{ .size = 4, .transport = "mixed", .threads = true },
	{ .size = 2, .transport = "shm", .memory = REGISTERED },
	{ .size = 5, .transport = "shm", .memory = REGISTERED },
	{ .size = 3, .transport = "shm", .memory = REGISTERED, .threads = true },
	{ .size = 3, .transport = "shm", .memory = REGISTERED_BUT_FOR_RANK_0 },
};

/* The worlds are named by number: a parameter must not hold pointers that move. */
ParameterizedTestParameters(collectives, are_right_for_every_type_operation_count_and_place)
{
	static int numbers[sizeof(worlds) / sizeof(*worlds)];

	size_t count = 0;

	for (size_t i = 0; i < sizeof(worlds) / sizeof(*worlds); i++) {
		if (worlds[i].threads || !ONLY_THREADS)
			numbers[count++] = (int)i;
	}
	return cr_make_param_array(int, numbers, count);
}

ParameterizedTest(int *number, collectives, are_right_for_every_type_operation_count_and_place,
	.timeout = 300)
{
	struct world world = worlds[*number];

	world.limit_ms = 240000;
	run_everything(&world);
}

/* Hosts of three ranks and of two, or of two and two; over links that two channels share. For
   direct access one host, and memory that all of it reaches. */
static struct world worlds_of_an_algorithm[][2] = {
	{
		{ .size = 5, .transport = "mixed", .channels = 2, .piece_size = 1024 },
		{ .size = 4, .transport = "mixed" },
	},
	{
		{ .size = 5,
			.transport = "shm",
			.channels = 2,
			.piece_size = 1024,
			.memory = REGISTERED },
		{ .size = 4, .transport = "shm", .memory = REGISTERED },
	},
};

ParameterizedTestParameters(collectives, are_right_by_every_algorithm)
{
	static int numbers[2 * RD_ALGORITHMS_KNOWN];
	size_t count = 0;

	for (int i = 0; rd_algorithms[i] && !ONLY_THREADS; i++)
		for (int w = 0; w < 2; w++)
			numbers[count++] = 2 * i + w;
	return cr_make_param_array(int, numbers, count);
}

ParameterizedTest(int *number, collectives, are_right_by_every_algorithm, .timeout = 300)
{
	const struct rd_algorithm *algorithm = rd_algorithms[*number / 2];
	struct world world = worlds_of_an_algorithm[algorithm->direct_access][*number % 2];

	world.algo = algorithm->name;
	world.limit_ms = 240000;
	run_everything(&world);
}
