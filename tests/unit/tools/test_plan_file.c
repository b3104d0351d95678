/* Plan files: that of rondo-plan export is read as the same plans, and one that lies is refused. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check/proof.h"
#include "exec/algorithms.h"
#include "plan/calls.h"
#include "plan/export.h"
#include "plan/print.h"
#include "rondo.h"
#include "tuner/eligible.h"

#define RANKS_MAX 9

/* ---- Exact both ways ------------------------------------------------------------------------ */

static char *written(const struct rd_plan_file *file, size_t *size)
{
	char *text = NULL;
	FILE *out = open_memstream(&text, size);

	cr_assert(out);
	plan_file_write(file, out);
	fclose(out);
	return text;
}

static void assert_same_where(struct rd_where a, struct rd_where b, const char *text)
{
	cr_assert_eq(a.memory, b.memory, "%s", text);
	cr_assert_eq(a.chunk, b.chunk, "%s", text);
}

static void assert_same_plan(const struct rd_plan *a, const struct rd_plan *b)
{
	cr_assert_eq(a->parts, b->parts);
	cr_assert_eq(a->scratch_chunks, b->scratch_chunks);
	cr_assert_eq(a->step_count, b->step_count);
	cr_assert_eq(a->direct_access, b->direct_access);
	for (int i = 0; i < a->step_count; i++) {
		const struct rd_step *one = &a->steps[i], *other = &b->steps[i];
		char text[200];

		rd_step_print(one, text, sizeof(text));
		cr_assert_eq(one->kind, other->kind, "%s", text);
		cr_assert_eq(one->last, other->last, "%s", text);
		cr_assert_eq(one->peer, other->peer, "%s", text);
		cr_assert_eq(one->to, other->to, "%s", text);
		cr_assert_eq(one->sender, other->sender, "%s", text);
		cr_assert_eq(one->chunk, other->chunk, "%s", text);
		cr_assert_eq(one->other, other->other, "%s", text);
		assert_same_where(one->from, other->from, text);
		assert_same_where(one->into, other->into, text);
	}
}

static void assert_same_plans(const struct rd_algorithm *algorithm,
	const struct rd_algorithm *again, const struct rd_problem *problem)
{
	struct rd_problem here = *problem, plain = *problem;

	plain.layout = NULL;
	for (int rank = 0; rank < problem->size; rank++) {
		struct rd_plan *one, *other;

		here.rank = plain.rank = rank;
		cr_assert_eq(rd_plan_create(&one, algorithm, &here), 0, "%s", rondo_last_error());
		cr_assert_eq(rd_plan_create(&other, again, &plain), 0, "%s", rondo_last_error());
		assert_same_plan(one, other);
		rd_plan_destroy(one);
		rd_plan_destroy(other);
	}
}

static void check_both_ways(const struct rd_algorithm *algorithm, const struct rd_problem *problem)
{
	struct rd_plan_file *file, *again;
	size_t size, second_size;

	cr_assert_eq(plan_calls_file(&file, algorithm, problem), 0, "%s", rondo_last_error());
	char *text = written(file, &size);

	cr_assert_eq(rd_plan_file_read(&again, "again", text, size), 0, "%s", rondo_last_error());
	assert_same_plans(algorithm, &again->algorithm, problem);
	char *second = written(again, &second_size);

	cr_assert_str_eq(text, second);
	free(text);
	free(second);
	rd_plan_file_destroy(file);
	rd_plan_file_destroy(again);
}

/* Each algorithm, on one host and on two. */
static int check_problem(struct rd_problem problem)
{
	int order[RANKS_MAX], group[RANKS_MAX], checked = 0;
	struct rd_layout layout = {
		.size = problem.size, .group_count = 2, .order = order, .group = group
	};

	for (int rank = 0; rank < problem.size; rank++) {
		order[rank] = problem.size - 1 - rank;
		group[problem.size - 1 - rank] = rank * 2 / problem.size;
	}
	for (int i = 0; rd_algorithms[i]; i++)
		for (int hosts = 1; hosts <= 2; hosts++) {
			problem.layout = hosts == 2 ? &layout : NULL;
			if (!rd_algorithm_claims(rd_algorithms[i], &problem))
				continue;
			check_both_ways(rd_algorithms[i], &problem);
			checked++;
		}
	return checked;
}

Test(plan_file, has_the_plans_of_every_algorithm_exactly, .timeout = 240)
{
	int checked = 0;

	for (int size = 2; size <= RANKS_MAX; size++)
		for (int c = 0; c < RD_COLLECTIVE_COUNT; c++) {
			struct rd_problem problem = { .collective = c, .size = size };

			if (rd_collective_has_root(c))
				problem.root = size - 1;
			checked += check_problem(problem);
		}
	cr_assert_gt(checked, 300);
}

/* ---- Each root ------------------------------------------------------------------------------ */

Test(plan_file, serves_each_root, .timeout = 120)
{
	static const char *const names[] = { "binomial", "linear", "tree", "ring", "two_shot" };

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		for (int c = 0; c < RD_COLLECTIVE_COUNT; c++) {
			const struct rd_algorithm *algorithm = rd_algorithm_called(names[i]);
			struct rd_problem problem = { .collective = c, .size = 5, .root = 3 };
			struct rd_plan_file *file;

			if (!rd_collective_has_root(c) || c == RD_TRANSFER ||
				!rd_algorithm_claims(algorithm, &problem))
				continue;
			cr_assert_eq(plan_calls_file(&file, algorithm, &problem), 0);
			for (problem.root = 0; problem.root < 5; problem.root++)
				cr_expect_eq(rd_prove(&file->algorithm, &problem), 0, "%s: %s",
					names[i], rondo_last_error());
			rd_plan_file_destroy(file);
		}
}

Test(plan_file, serves_its_number_of_ranks_alone)
{
	struct rd_problem problem = { .collective = RD_ALL_REDUCE, .size = 4 };
	struct rd_plan_file *file;

	cr_assert_eq(plan_calls_file(&file, rd_algorithm_called("ring"), &problem), 0);
	cr_assert_str_eq(file->name, "ring_4");
	cr_assert(rd_algorithm_claims(&file->algorithm, &problem));
	problem.size = 5;
	cr_assert_not(rd_algorithm_claims(&file->algorithm, &problem));
	problem.size = 4;
	problem.collective = RD_ALL_GATHER;
	cr_assert_not(rd_algorithm_claims(&file->algorithm, &problem));
	rd_plan_file_destroy(file);
}

/* ---- Files that lie ------------------------------------------------------------------------- */

#define HEAD \
	"{\"format\": \"rondo-plan-file 1\", \"name\": \"mine\", \"collective\": \"all_reduce\",\n"

static void expect_refused(const char *text, const char *why)
{
	struct rd_plan_file *file;

	cr_expect_eq(rd_plan_file_read(&file, "f", text, strlen(text)), RONDO_INVALID, "%s", text);
	cr_expect_null(file);
	cr_expect_str_eq(rondo_last_error(), why, "%s: %s", text, rondo_last_error());
}

/* A file of two ranks, whose plans these are. */
static void expect_plans_refused(const char *plans, const char *why)
{
	char text[1000];

	snprintf(text, sizeof(text), HEAD "\"ranks\": 2, \"parts\": 2, \"plans\":\n%s}", plans);
	expect_refused(text, why);
}

Test(plan_file, with_wrong_members_is_refused)
{
	expect_refused("[]", "f:1: a plan file is an object, not an array");
	expect_refused("{}", "f:1: \"format\" is a string, and is missing");
	expect_refused("{\"format\": \"rondo-plan 1\"}",
		"f:1: \"format\" is \"rondo-plan-file 1\", not \"rondo-plan 1\"");
	expect_refused(
		HEAD "\"rank\": 2}", "f:2: a plan file has no \"rank\"; did you mean ranks?");
	expect_refused(HEAD "\"ranks\": 2,\n\"ranks\": 3}", "f:3: \"ranks\" is here twice");
	expect_refused(HEAD "\"plans\": []}",
		"f:1: \"ranks\" is a whole number from 1 to 1024, and is missing");
	expect_refused(HEAD "\"ranks\": 0}", "f:2: \"ranks\" is a whole number from 1 to 1024");
	expect_refused(
		HEAD "\"ranks\": 2, \"root\": 1}", "f:2: \"root\" is a whole number from 0 to 0");
	expect_refused(HEAD "\"ranks\": 2,\n\"parts\": 8388608, \"plans\": "
			    "[[[\"send\", 1, 0]], [[\"recv\", 0, 0]]]}",
		"f:3: 8388608 parts are too many: the 2 steps of all ranks leave some out");
	expect_refused(HEAD "\"ranks\": 1, \"parts\": 1025, \"plans\": [[]]}",
		"f:2: 1025 parts are too many: the 0 steps of all ranks leave some out");
	expect_refused(HEAD "\"ranks\": 2, \"parts\": 99999999}",
		"f:2: \"parts\" is a whole number from 1 to 8388608");
	expect_refused(HEAD "\"ranks\": 2, \"least_bytes\": 9, \"most_bytes\": 8}",
		"f:2: \"most_bytes\" is a whole number from 9 to 9223372036854775807");
	expect_refused("{\"format\": \"rondo-plan-file 1\", \"name\": \"Mine\"}",
		"f:1: \"name\" has 1 to 15 small letters, digits and _, unlike \"Mine\"");
	expect_refused(
		"{\"format\": \"rondo-plan-file 1\", \"name\": \"m\", \"collective\": \"al\"}",
		"f:1: \"al\" is no collective");
	expect_refused("{\"format\": \"rondo-plan-file 1\", \"name\": \"m\", \"collective\":\n"
		       "\"all_to_all\", \"ranks\": 1024}",
		"f:1: all_to_all of 1024 ranks has too many blocks");
}

Test(plan_file, with_wrong_steps_is_refused_at_the_place)
{
	expect_plans_refused(
		"[[]]", "f:3: \"plans\" is an array with a plan for each of the 2 ranks");
	expect_plans_refused(
		"[[],\n{}]", "f:4: rank 1: its plan is an array of steps, not an object");
	expect_plans_refused("[[\n[\"send\", 1, 0],\n[\"sent\", 1, 0]], []]",
		"f:5: rank 0, step 1: there is no step \"sent\"; did you mean send?");
	expect_plans_refused(
		"[[[1]], []]", "f:3: rank 0, step 0: a step is an array that begins with a string");
	expect_plans_refused(
		"[[[\"send\", 1]], []]", "f:3: rank 0, step 0: send wants 2 numbers, not 1");
	expect_plans_refused(
		"[[[\"send\", 2, 0]], []]", "f:3: rank 0, step 0: send wants a rank from 0 to 1");
	expect_plans_refused("[[[\"send\", 0, 0]], []]",
		"f:3: rank 0, step 0: send wants another rank than its own");
	expect_plans_refused(
		"[[[\"send\", 1, 2]], []]", "f:3: rank 0, step 0: send wants a chunk from 0 to 1");
	expect_plans_refused("[[[\"send\", 1, [[0]]]], []]",
		"f:3: rank 0, step 0: send wants a chunk from 0 to 1");
	expect_plans_refused("[[[\"signal\", 1]], []]",
		"f:3: rank 0, step 0: signal wants \"direct_access\": true");
}

Test(plan_file, of_a_million_steps_and_one_is_refused)
{
	static char text[16 << 20];
	size_t length = (size_t)snprintf(
		text, sizeof(text), HEAD "\"ranks\": 2, \"plans\": [[[\"send\",1,0]");
	struct rd_plan_file *file;

	for (int i = 0; i < RD_FILE_STEPS_MAX; i++)
		length += (size_t)snprintf(text + length, sizeof(text) - length, ",[\"send\",1,0]");
	length += (size_t)snprintf(text + length, sizeof(text) - length, "], []]}");
	cr_assert_eq(rd_plan_file_read(&file, "f", text, length), RONDO_INVALID);
	cr_assert_str_eq(rondo_last_error(), "f:2: rank 0, step 1000000: a plan file has at most "
					     "1000000 steps, of all ranks");
}

/* ---- Plans that do not hold ----------------------------------------------------------------- */

static void expect_disproved(const char *plans, const char *why)
{
	struct rd_problem problem = { .collective = RD_ALL_REDUCE, .size = 2 };
	struct rd_plan_file *file;
	char text[1000];

	snprintf(text, sizeof(text), HEAD "\"ranks\": 2, \"plans\": %s}", plans);
	cr_assert_eq(
		rd_plan_file_read(&file, "f", text, strlen(text)), 0, "%s", rondo_last_error());
	cr_expect_eq(rd_prove(&file->algorithm, &problem), RONDO_INVALID);
	cr_expect(strstr(rondo_last_error(), why), "%s: %s", plans, rondo_last_error());
	rd_plan_file_destroy(file);
}

Test(plan_file, with_plans_that_do_not_hold_is_disproved)
{
	expect_disproved("[[], []]", "mine, all_reduce, 2 ranks");
	expect_disproved(
		"[[[\"recv\", 1, 0], [\"send\", 1, 0]], [[\"recv\", 0, 0], [\"send\", 0, 0]]]",
		"wait");
	expect_disproved(
		"[[[\"send\", 1, 0]], [[\"recv_reduce_last\", 0, 0], [\"send\", 0, 0]]]", "rank 0");
}
