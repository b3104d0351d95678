/* ctest label: threads */
/* User operations, and pre-multiplied sums. Predefined ones are in test_collectives.c. */
#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "elements.h"
#include "world.h"

static void run_everywhere(int (*body)(struct rank_env *env))
{
	struct world threads = { .size = 4, .transport = "shm", .threads = true };
	struct world cut = { .size = 3, .transport = "tcp", .channels = 2, .piece_size = 1000 };
	struct world mapped = { .size = 3, .transport = "shm", .memory = REGISTERED };

	for (int size = 1; size <= 8; size += size < 5 ? 1 : 3)
		world_try(size, "shm", body);
	world_try(2, "tcp", body);
	world_try(5, "mixed", body);
	cr_assert_eq(world_run(&threads, body, NULL, NULL), 0);
	cr_assert_eq(world_run(&cut, body, NULL, NULL), 0);
	cr_assert_eq(world_run(&mapped, body, NULL, NULL), 0);
}

/* ---- One's own: the order of ranks shows in the result --------------------------------------- */

/* x -> factor * x + term, applied one after the other: associative, and not commutative. 12 bytes.
 */
struct line {
	uint32_t factor, term, calls;
};

/* a first, then b. Also counts its calls: one less than ranks. */
static void compose(
	void *into_, const void *a_, const void *b_, size_t count, rondo_type type, void *argument)
{
	struct line *into = into_;
	const struct line *a = a_, *b = b_;

	if (type != RONDO_U8 || *(int *)argument != 4711)
		abort();
	for (size_t i = 0; i < count; i++)
		into[i] = (struct line){ a[i].factor * b[i].factor,
			b[i].factor * a[i].term + b[i].term, a[i].calls + b[i].calls + 1 };
}

static struct line line_of(int rank, size_t i)
{
	return (struct line){ 2 * (uint32_t)(rank + i % 100) + 3, (uint32_t)(7 * i + rank), 0 };
}

static struct line composed(int size, size_t i)
{
	int argument = 4711;
	struct line all = line_of(0, i);

	for (int rank = 1; rank < size; rank++) {
		struct line next = line_of(rank, i);

		compose(&all, &all, &next, 1, RONDO_U8, &argument);
	}
	return all;
}

static void fill_lines(struct line *lines, int rank, size_t count)
{
	for (size_t i = 0; i < count; i++)
		lines[i] = line_of(rank, i);
}

static bool are_composed(const struct line *lines, int size, size_t first, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct line wanted = composed(size, first + i);

		if (memcmp(&lines[i], &wanted, sizeof(wanted)) != 0)
			return false;
	}
	return true;
}

static int compose_counts(
	struct rank_env *env, rondo_op op, struct line *in, struct line *out, size_t count)
{
	int size = env->size, rank = env->rank, root = (int)(count % size);
	size_t bytes = count * sizeof(*in), counts[8], first = 0;

	fill_lines(in, rank, count * size);
	TRY(rondo_all_reduce(env->comm, in, out, bytes, RONDO_U8, op, NULL));
	if (!are_composed(out, size, 0, count))
		return world_report(env, "all_reduce of %zu is wrong", count);
	memcpy(out, in, bytes);
	TRY(rondo_all_reduce(env->comm, out, out, bytes, RONDO_U8, op, NULL));
	if (!are_composed(out, size, 0, count))
		return world_report(env, "all_reduce of %zu in place is wrong", count);
	TRY(rondo_reduce(env->comm, in, out, bytes, RONDO_U8, op, root, NULL));
	if (rank == root && !are_composed(out, size, 0, count))
		return world_report(env, "reduce of %zu to %d is wrong", count, root);
	TRY(rondo_reduce_scatter(env->comm, in, out, bytes, RONDO_U8, op, NULL));
	if (!are_composed(out, size, rank * count, count))
		return world_report(env, "reduce_scatter of %zu is wrong", count);
	for (int k = 0; k < size; k++) {
		counts[k] = k % 2 ? bytes : 0;
		first += k < rank ? counts[k] / sizeof(*in) : 0;
	}
	TRY(rondo_reduce_scatter_v(env->comm, in, out, counts, RONDO_U8, op, NULL));
	if (!are_composed(out, size, first, rank % 2 ? count : 0))
		return world_report(env, "reduce_scatter_v of %zu is wrong", count);
	return 0;
}

static int compose_all(struct rank_env *env)
{
	static const size_t counts[] = { 0, 1, 7, 1000, 30001 };
	static int argument = 4711;
	size_t bytes = 30001 * sizeof(struct line) * env->size;
	struct line *in = world_get_memory(env, bytes), *out = world_get_memory(env, bytes);
	rondo_op other, op;
	int wrong = 0;

	TRY(rondo_op_create(env->comm, &other, compose, 1, NULL));
	TRY(rondo_op_create(env->comm, &op, compose, sizeof(struct line), &argument));
	TRY(rondo_op_destroy(env->comm, other));
	for (int i = 0; i < 5 && !wrong; i++)
		wrong = compose_counts(env, op, in, out, counts[i]);
	world_put_memory(env, in);
	world_put_memory(env, out);
	return wrong;
}

Test(operations, of_ones_own_combine_ranks_in_their_order, .timeout = 240)
{
	run_everywhere(compose_all);
}

/* a - b, in the call's type: not associative. Its argument is at an odd address. */
static void subtract(
	void *into, const void *a, const void *b, size_t count, rondo_type type, void *argument)
{
	(void)argument;
	for (size_t i = 0; i < count && type == RONDO_F64; i++) {
		double x, y;

		memcpy(&x, (const char *)a + 8 * i, 8);
		memcpy(&y, (const char *)b + 8 * i, 8);
		x -= y;
		memcpy((char *)into + 8 * i, &x, 8);
	}
}

static int subtract_all(struct rank_env *env)
{
	char data[8 * 50 + 1];
	rondo_op op;
	rondo_stream *stream = NULL;

	for (int i = 0; i < 50; i++)
		memcpy(data + 1 + 8 * i, &(double){ 100 * i + env->rank }, 8);
	TRY(rondo_stream_create(&stream));
	TRY(rondo_op_create(env->comm, &op, subtract, 0, NULL));
	TRY(rondo_all_reduce(env->comm, data + 1, data + 1, 50, RONDO_F64, op, stream));
	/* Calls under way keep their operations. */
	TRY(rondo_op_destroy(env->comm, op));
	TRY(rondo_stream_synchronize(stream));
	rondo_stream_destroy(stream);
	for (int i = 0; i < 50; i++) {
		double wanted = 100 * i, got;

		for (int rank = 1; rank < env->size; rank++)
			wanted -= 100 * i + rank;
		memcpy(&got, data + 1 + 8 * i, 8);
		if (got != wanted)
			return world_report(env, "%g instead of %g", got, wanted);
	}
	return 0;
}

Test(operations, need_not_be_associative_and_may_be_destroyed_while_they_run, .timeout = 60)
{
	world_try(1, NULL, subtract_all);
	world_try(4, "shm", subtract_all);
	world_try(3, "tcp", subtract_all);
}

/* ---- Pre-multiplied sums --------------------------------------------------------------------- */

#define COUNT 5003

static int multiply_i32(struct rank_env *env)
{
	int size = env->size, rank = env->rank, factor = 3 * rank + 2;
	int32_t *in = world_get_memory(env, 4 * COUNT * size);
	int32_t *out = world_get_memory(env, 4 * COUNT * size);
	size_t counts[8], begin = 0;
	rondo_op op;

	TRY(rondo_op_create_premul(env->comm, &op, &factor, RONDO_I32));
	factor = 0;
	for (int kind = 0; kind < 5; kind++) {
		size_t first = 0, count = COUNT;
		bool mine = true;

		for (int i = 0; i < COUNT * size; i++)
			in[i] = i + rank;
		switch (kind) {
		case 0:
			TRY(rondo_all_reduce(env->comm, in, out, COUNT, RONDO_I32, op, NULL));
			break;
		case 1:
			memcpy(out, in, 4 * COUNT);
			TRY(rondo_all_reduce(env->comm, out, out, COUNT, RONDO_I32, op, NULL));
			break;
		case 2:
			TRY(rondo_reduce(env->comm, in, out, COUNT, RONDO_I32, op, size - 1, NULL));
			mine = rank == size - 1;
			break;
		case 3:
			TRY(rondo_reduce_scatter(env->comm, in, out, COUNT, RONDO_I32, op, NULL));
			first = (size_t)rank * COUNT;
			break;
		case 4:
			for (int k = 0; k < size; k++) {
				counts[k] = 100 * k;
				begin += k < rank ? counts[k] : 0;
			}
			TRY(rondo_reduce_scatter_v(
				env->comm, in, out, counts, RONDO_I32, op, NULL));
			first = begin;
			count = counts[rank];
		}
		for (size_t i = 0; i < count && mine; i++) {
			int wanted = 0;

			for (int k = 0; k < size; k++)
				wanted += (3 * k + 2) * ((int)(first + i) + k);
			if (out[i] != wanted)
				return world_report(env, "kind %d: element %zu is %d, not %d", kind,
					i, out[i], wanted);
		}
		for (int i = 0; i < COUNT * size; i++)
			if (in[i] != i + rank)
				return world_report(env, "kind %d changed its input", kind);
	}
	world_put_memory(env, in);
	world_put_memory(env, out);
	return 0;
}

Test(operations, premultiplied_sums_weigh_each_rank, .timeout = 120)
{
	run_everywhere(multiply_i32);
}

/* Every type takes its factor: small numbers, exact in all of them. */
static int multiply_each(struct rank_env *env)
{
	for (int type = 0; type < RONDO_BOOL; type++) {
		unsigned char factor[8] = { 0 }, in[8] = { 0 }, out[8], wanted[8] = { 0 };
		double sum = 0;
		rondo_op op;
		unsigned char *const into[] = { factor, in, wanted };

		for (int k = 0; k < env->size; k++)
			sum += (k + 1) * (k + 2);

		const double numbers[] = { env->rank + 1, env->rank + 2, sum };

		for (int i = 0; i < 3; i++)
			element_store(into[i], type, (uint64_t)numbers[i], numbers[i]);

		TRY(rondo_op_create_premul(env->comm, &op, factor, type));
		TRY(rondo_all_reduce(env->comm, in, out, 1, type, op, NULL));
		if (memcmp(out, wanted, rondo_type_size(type)) != 0)
			return world_report(env, "%s is wrong", rondo_type_name(type));
	}
	return 0;
}

Test(operations, premultiplied_sums_are_right_for_every_type, .timeout = 60)
{
	world_try(3, "shm", multiply_each);
}

/* ---- Complex numbers ------------------------------------------------------------------------- */

/* Few numbers meet at once; partial sums of many travel. Both parts leave the range in the sum. */
static int average_greatest(struct rank_env *env)
{
	static const size_t counts[] = { 1, 50001 };
	static float values[100002];

	for (size_t n = 0; n < 2; n++) {
		for (size_t i = 0; i < 2 * counts[n]; i++)
			values[i] = i % 2 ? -FLT_MAX : FLT_MAX;
		TRY(rondo_all_reduce(
			env->comm, values, values, counts[n], RONDO_COMPLEX64, RONDO_AVG, NULL));
		for (size_t i = 0; i < 2 * counts[n]; i++)
			if (!isfinite(values[i]) || fabsf(values[i]) < FLT_MAX * (1 - 0x1p-21f) ||
				(values[i] < 0) != i % 2)
				return world_report(env, "part %zu of %zu numbers is %g", i,
					counts[n], (double)values[i]);
	}
	return 0;
}

Test(operations, averages_of_complex_numbers_stay_in_range, .timeout = 60)
{
	world_try(3, "shm", average_greatest);
}

/* ---- Refusals -------------------------------------------------------------------------------- */

static int differ(struct rank_env *env)
{
	double factor = 2, x = 1;
	rondo_op own, weighed;

	TRY(rondo_op_create(env->comm, &own, subtract, 0, NULL));
	TRY(rondo_op_create_premul(env->comm, &weighed, &factor, RONDO_F64));

	int err = rondo_all_reduce(env->comm, &x, &x, 1, RONDO_F64,
		env->rank == 1           ? weighed
		: *(bool *)env->argument ? own
					 : RONDO_SUM,
		NULL);

	world_report(env, "%s", rondo_last_error());
	return err == RONDO_MISMATCH ? 0 : 1;
}

Test(operations, that_differ_between_ranks_are_named_on_every_rank, .timeout = 60)
{
	struct world world = { .size = 2, .timeout_ms = 20000 };
	struct rank_outcome outcomes[WORLD_MAX];

	for (int own = 0; own < 2; own++) {
		cr_assert_eq(world_run(&world, differ, &(bool){ own }, outcomes), 0);
		for (int i = 0; i < 2; i++) {
			cr_assert(
				strstr(outcomes[i].text,
					"rank 1 all_reduce #1 of 1 f64 with pre-multiplied sum #2"),
				"%s", outcomes[i].text);
			cr_assert(
				strstr(outcomes[i].text, own ? "rank 0 all_reduce #1 of 1 f64 with "
							       "operation #1"
							     : "rank 0 all_reduce #1 of 1 f64 sum"),
				"%s", outcomes[i].text);
		}
	}
}

static int call_wrongly(struct rank_env *env)
{
	rondo_comm *comm = env->comm;
	unsigned char bytes[5000] = { 0 }, more[5000];
	float factor = 2;
	rondo_op op, opaque, weighed, large;

	EXPECT_ERROR(rondo_op_create(NULL, &op, subtract, 0, NULL), RONDO_INVALID, "comm is NULL");
	EXPECT_ERROR(rondo_op_create(comm, NULL, subtract, 0, NULL), RONDO_INVALID, "op is NULL");
	EXPECT_ERROR(rondo_op_create(comm, &op, NULL, 0, NULL), RONDO_INVALID, "combine is NULL");
	EXPECT_ERROR(
		rondo_op_create(comm, &op, subtract, 4097, NULL), RONDO_INVALID, "at most 4096");
	EXPECT_ERROR(rondo_op_create_premul(comm, &op, NULL, RONDO_F32), RONDO_INVALID,
		"factor is NULL");
	EXPECT_ERROR(
		rondo_op_create_premul(comm, &op, &factor, 77), RONDO_INVALID, "77 is no type");
	EXPECT_ERROR(rondo_op_create_premul(comm, &op, &factor, RONDO_COMPLEX128), RONDO_INVALID,
		"a factor cannot be complex128");
	EXPECT_ERROR(
		rondo_op_destroy(comm, RONDO_OP_OWN), RONDO_INVALID, "was not made on this comm");
	TRY(rondo_op_create(comm, &opaque, compose, 12, NULL));
	TRY(rondo_op_create(comm, &large, compose, 2500, NULL));
	TRY(rondo_op_create_premul(comm, &weighed, &factor, RONDO_F32));
	EXPECT_ERROR(rondo_all_reduce(comm, bytes, more, 12, RONDO_I32, opaque, NULL),
		RONDO_INVALID, "type must be u8");
	EXPECT_ERROR(rondo_all_reduce(comm, bytes, more, 13, RONDO_U8, opaque, NULL), RONDO_INVALID,
		"a multiple");
	EXPECT_ERROR(rondo_reduce_scatter_v(
			     comm, bytes, more, (size_t[]){ 12, 13 }, RONDO_U8, opaque, NULL),
		RONDO_INVALID, "a multiple");
	EXPECT_ERROR(rondo_all_reduce(comm, bytes, more, 2500, RONDO_U8, large, NULL),
		RONDO_UNSUPPORTED, "RONDO_PIECE");
	EXPECT_ERROR(rondo_all_reduce(comm, bytes, more, 3, RONDO_I32, weighed, NULL),
		RONDO_INVALID, "the operation's factor is f32, the call's type i32");
	EXPECT_ERROR(rondo_all_reduce(comm, bytes, more, 3, RONDO_F32, RONDO_BXOR, NULL),
		RONDO_INVALID, "bxor is for integers, not for f32");
	EXPECT_ERROR(rondo_all_reduce(comm, bytes, more, 3, RONDO_COMPLEX64, RONDO_MAX, NULL),
		RONDO_INVALID, "all_reduce: max is not for complex64");
	EXPECT_ERROR(rondo_all_reduce(comm, bytes, more, 3, RONDO_BOOL, RONDO_AVG, NULL),
		RONDO_INVALID, "all_reduce: avg is not for bool");
	EXPECT_ERROR(rondo_all_reduce(comm, bytes, more, 3, RONDO_F32, RONDO_OP_COUNT, NULL),
		RONDO_INVALID, "is no operation");
	TRY(rondo_op_destroy(comm, opaque));
	EXPECT_ERROR(rondo_all_reduce(comm, bytes, more, 12, RONDO_U8, opaque, NULL), RONDO_INVALID,
		"is no operation");
	TRY(rondo_group_start());
	EXPECT_ERROR(rondo_all_reduce(comm, bytes, more, 3, RONDO_I32, weighed, NULL),
		RONDO_INVALID, "factor");
	EXPECT_ERROR(rondo_group_end(), RONDO_INVALID, "factor");
	/* The refused calls have harmed nothing. */
	TRY(rondo_all_reduce(comm, bytes, more, 12, RONDO_U8, RONDO_BOR, NULL));
	return 0;
}

Test(operations, that_cannot_be_done_are_refused_and_harm_nothing, .timeout = 60)
{
	WORLD_TRY(call_wrongly, .size = 2, .piece_size = 2048);
}

Test(operations, say_which_types_they_are_for)
{
	cr_assert(rondo_op_applies(RONDO_SUM, RONDO_BF16));
	cr_assert(rondo_op_applies(RONDO_LXOR, RONDO_U64));
	cr_assert(rondo_op_applies(RONDO_BAND, RONDO_I16));
	cr_assert_not(rondo_op_applies(RONDO_BAND, RONDO_F8E5M2));
	cr_assert(rondo_op_applies(RONDO_BXOR, RONDO_BOOL));
	cr_assert_not(rondo_op_applies(RONDO_AVG, RONDO_BOOL));
	cr_assert(rondo_op_applies(RONDO_AVG, RONDO_COMPLEX64));
	cr_assert_not(rondo_op_applies(RONDO_MAX, RONDO_COMPLEX128));
	cr_assert_not(rondo_op_applies(RONDO_LXOR, RONDO_F16));
	cr_assert_not(rondo_op_applies(RONDO_OP_OWN, RONDO_U8));
	cr_assert_not(rondo_op_applies(RONDO_SUM, RONDO_TYPE_COUNT));
	cr_assert_str_eq(rondo_op_name(RONDO_BAND), "band");
	cr_assert_str_eq(rondo_op_name(RONDO_OP_OWN), "?");
}
