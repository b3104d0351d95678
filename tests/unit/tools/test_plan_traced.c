/* Calls of a trace become problems, with the layout in which they ran. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "plan/traced.h"
#include "rondo.h"

#define RANKS 4

static struct plan_problem made;

/* The place and the group of each rank on channel 0; on channel 1, where the call ran as well. */
struct layout {
	int places[2][RANKS], groups[RANKS];
	int ranks; /* that the trace has */
	const char *collective;
};

static struct plan_trace *write_and_read(const struct layout *layout)
{
	char path[] = "/tmp/rondo_plan_traced_XXXXXX";
	struct plan_trace *trace;
	FILE *file = fdopen(mkstemp(path), "w");

	fprintf(file, "[\n");
	for (int rank = 0; rank < layout->ranks; rank++) {
		fprintf(file,
			"{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%d,\"args\":"
			"{\"comm\":\"3f\",\"rank\":%d,\"ranks\":%d}},\n",
			rank, rank, RANKS);
		for (int channel = 0; channel < 2; channel++)
			fprintf(file,
				"{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%d,\"tid\":%d,"
				"\"args\":{\"place\":%d,\"group\":%d}},\n",
				rank, channel, layout->places[channel][rank], layout->groups[rank]);
	}
	fprintf(file,
		"{\"name\":\"send\",\"cat\":\"%s\",\"ph\":\"X\",\"pid\":0,\"tid\":1,"
		"\"ts\":0.000,\"dur\":0.000,\"args\":{\"call\":9,\"algorithm\":\"binomial\","
		"\"root\":2,\"target\":2,\"block_bytes\":5000,\"piece\":0,\"step\":0,\"chunk\":0,"
		"\"peer\":-1,\"to\":1,\"bytes\":640,\"wait_us\":0.000,\"work_us\":0.000}},\n",
		layout->collective);
	fclose(file);
	cr_assert_eq(plan_trace_read(&trace, path), 0, "%s", rondo_last_error());
	unlink(path);
	return trace;
}

/* Hosts in turn: ranks 0 and 2, then 1 and 3. */
Test(plan_traced, a_call_has_its_ranks_in_their_order)
{
	static const struct layout layout = { { { 0, 2, 1, 3 }, { 0, 2, 1, 3 } }, { 0, 1, 0, 1 },
		RANKS, "broadcast" };
	static const int order[RANKS] = { 0, 2, 1, 3 };
	struct plan_trace *trace = write_and_read(&layout);
	struct plan_options options = { 0 };
	char name[PLAN_CALL_NAME_SIZE];

	cr_assert_eq(plan_traced_make(&made, &options, trace, trace->calls), 0, "%s",
		rondo_last_error());
	cr_expect_str_eq(options.algorithm, "binomial");
	cr_expect_eq(options.size, 5000);
	cr_expect_eq(options.piece_size, 640);
	cr_expect_eq(made.problem.collective, RD_BROADCAST);
	cr_expect_eq(made.problem.size, RANKS);
	cr_expect_eq(made.problem.root, 2);
	cr_expect_eq(made.problem.layout->group_count, 2);
	for (int i = 0; i < RANKS; i++) {
		cr_expect_eq(made.problem.layout->order[i], order[i]);
		cr_expect_eq(made.problem.layout->group[i], layout.groups[i]);
	}
	cr_expect_str_eq(plan_traced_name(trace, trace->calls, name), "call 9 of comm 3f");
	plan_trace_destroy(trace);
}

Test(plan_traced, what_no_simulation_has_is_refused)
{
	static const struct {
		struct layout layout;
		const char *reason;
	} wrong[] = {
		{ { { { 0, 1, 2 }, { 0, 1, 2 } }, { 0 }, 3, "broadcast" },
			"call 9 of comm 3f: the trace lacks lines of rank 3 of 4" },
		{ { { { 0, 1, 2, 3 }, { 0, 2, 1, 3 } }, { 0 }, RANKS, "broadcast" },
			"its channels have different orders of ranks" },
		{ { { { 0, 1, 1, 3 }, { 0, 1, 1, 3 } }, { 0 }, RANKS, "broadcast" },
			"\"place\" and \"group\" of its ranks contradict each other" },
		{ { { { 0, 1, 2, 3 }, { 0, 1, 2, 3 } }, { 0, 1, 0, 1 }, RANKS, "broadcast" },
			"\"place\" and \"group\" of its ranks contradict each other" },
		{ { { { 0, 1, 2, 3 }, { 0, 1, 2, 3 } }, { 1, 1, 1, 1 }, RANKS, "broadcast" },
			"\"place\" and \"group\" of its ranks contradict each other" },
		{ { { { 0, 1, 2, 3 }, { 0, 1, 2, 3 } }, { 0 }, RANKS, "transfer" },
			"a transfer has two ranks" },
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		struct plan_trace *trace = write_and_read(&wrong[i].layout);
		struct plan_options options = { 0 };

		cr_expect_lt(plan_traced_make(&made, &options, trace, trace->calls), 0);
		cr_expect(strstr(rondo_last_error(), wrong[i].reason), "'%s', not '%s'",
			rondo_last_error(), wrong[i].reason);
		plan_trace_destroy(trace);
	}
}

Test(plan_traced, an_algorithm_that_cannot_run_is_refused)
{
	static const struct {
		const char *name;
		int groups;
		const char *reason;
	} wrong[] = {
		{ "mine", 1,
			"there is no algorithm 'mine': give the --plugin of the run, or its plan "
			"file behind the trace" },
		{ "two_shot", 2, "two_shot has direct access, and works within one host" },
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		struct plan_options options = { .algorithm = wrong[i].name,
			.collective = RD_ALL_REDUCE,
			.ranks = RANKS,
			.hosts = wrong[i].groups };
		const struct rd_algorithm *algorithm;

		plan_problem_lay(&made, &options);
		made.layout.group_count = wrong[i].groups;
		cr_expect_lt(plan_traced_algorithm(&algorithm, &made, &options), 0);
		cr_expect_str_eq(rondo_last_error(), wrong[i].reason);
	}
}
