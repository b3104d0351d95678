/* Rows of the CSV of NCCL's tuner plug-in: reading, what is left out, and the picker's choices. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bootstrap/control_message.h"
#include "text.h"
#include "exec/algorithms.h"
#include "tuner/pick.h"
#include "tuner/tuner_rows.h"
#include "world.h"

#define HEADER "collective_type,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks\n"

static struct rd_tuner_rows rows;

static void read_rows(const char *text, int hosts, int ranks)
{
	char wrong[200] = "";
	int line = 0;

	cr_assert(
		rd_tuner_rows_read(&rows, text, "t.csv", hosts, ranks, &line, wrong, sizeof(wrong)),
		"line %d: %s", line, wrong);
}

Test(tuner_rows, a_file_in_nccls_form_is_read_and_printed_as_the_same)
{
	struct rd_tuner_rows again;
	char text[RD_TUNER_TEXT_SIZE], second[RD_TUNER_TEXT_SIZE], wrong[200];
	int line;

	read_rows("# small calls\n\n" HEADER "allreduce,0,65536,tree,simple,2,1,-1,-1,-1\r\n"
		  "  allgather , 0 , 4294967295 , ring , ll128 , -1 , -1 , 8 , 1 , 0\n"
		  "broadcast,0,32768,ring,simple,-1,1,-1",
		4, 8);
	cr_assert_eq(rows.count, 3);
	cr_expect_str_eq(rows.rows[0].algorithm->name, "tree");
	cr_expect_eq(rows.rows[0].channels, 2);
	cr_expect_eq(rows.rows[1].ranks, 8);
	rd_tuner_rows_print(&rows, text, sizeof(text));
	cr_assert(rd_tuner_rows_read(&again, text, NULL, 4, 8, &line, wrong, sizeof(wrong)));
	rd_tuner_rows_print(&again, second, sizeof(second));
	cr_expect_str_eq(text, second);
	cr_expect_eq(again.count, 3);
}

Test(tuner_rows, the_first_row_that_fits_a_call_holds)
{
	read_rows("allreduce,0,1000,tree,ll,-1,2,-1\nallreduce,0,1000,ring,ll,-1,-1,-1\n"
		  "allgather,8000,16000,ring,ll,-1,-1,8\n",
		4, 8);
	cr_expect_eq(rd_tuner_rows_find(&rows, RD_ALL_REDUCE, 1000, 2, 8), 0);
	cr_expect_eq(rd_tuner_rows_find(&rows, RD_ALL_REDUCE, 0, 1, 4), 1);
	cr_expect_eq(rd_tuner_rows_find(&rows, RD_ALL_REDUCE, 1001, 2, 8), -1);
	cr_expect_eq(rd_tuner_rows_find(&rows, RD_REDUCE, 100, 2, 8), -1);
	/* NCCL counts the blocks of all ranks in an all-gather. */
	cr_expect_eq(rd_tuner_rows_find(&rows, RD_ALL_GATHER, 999, 1, 8), -1);
	cr_expect_eq(rd_tuner_rows_find(&rows, RD_ALL_GATHER, 1000, 1, 8), 2);
	cr_expect_eq(rd_tuner_rows_find(&rows, RD_ALL_GATHER, 2000, 1, 8), 2);
	cr_expect_eq(rd_tuner_rows_find(&rows, RD_ALL_GATHER, UINT64_MAX, 1, 8), -1);
	cr_expect_eq(rd_tuner_rows_find(&rows, RD_ALL_GATHER, 1000, 1, 7), -1);
}

Test(tuner_rows, rows_that_rondo_cannot_apply_are_left_out_with_their_line)
{
	static const char *const reasons[] = {
		"t.csv: line 1 is left out: Rondo has no algorithm \"nvls\"\n",
		"t.csv: line 2 is left out: Rondo has no algorithm \"-1\"\n",
		"t.csv: line 3 is left out: Rondo has no collective \"allpair\"\n",
		"t.csv: line 4 is left out: it is for 4 calls at once\n",
		"t.csv: line 5 is left out: it is for registered buffers alone\n",
	};
	const char *log;

	captured_stderr_begin();
	read_rows("allreduce,0,1,nvls,ll,-1,-1,-1\nallreduce,0,1,-1,-1,64,-1,-1\n"
		  "allpair,0,1,ring,ll,-1,-1,-1\nallreduce,0,1,ring,ll,-1,-1,-1,4,-1\n"
		  "allreduce,0,1,ring,ll,-1,-1,-1,-1,1\n"
		  "allreduce,0,1,ring,ll,-1,3,-1\nallreduce,0,1,ring,ll,-1,-1,9\n"
		  "allreduce,0,1,tree,ll,-1,2,8\n",
		2, 8);
	log = captured_stderr_end();
	cr_expect_eq(rows.count, 1);
	for (size_t i = 0; i < sizeof(reasons) / sizeof(*reasons); i++)
		cr_expect(strstr(log, reasons[i]), "%s", log);
	/* Rows for larger jobs need no word. */
	cr_expect_null(strstr(log, "line 6"));
}

Test(tuner_rows, a_malformed_file_is_refused_with_its_line)
{
	static const char *const cases[][2] = {
		{ "allreduce,0,1,ring,ll,-1,-1", "a row has 8 to 10 fields" },
		{ "allreduce,0,1,ring,ll,-1,-1,-1,-1,-1,-1", "a row has 8 to 10 fields" },
		{ "allreduce,-1,1,ring,ll,-1,-1,-1", "\"-1\" is no whole number from 0" },
		{ "allreduce,0,1K,ring,ll,-1,-1,-1", "\"1K\" is no whole number from 0" },
		{ "allreduce,0,1,ring,ll,,-1,-1", "\"\" is no whole number from -1 to 1024" },
		{ "allreduce,0,1,ring,ll,-1,-2,-1", "\"-2\" is no whole number from -1" },
		{ "allreduce,0,1,ring,ll,-1,-1,-1,-1,2", "\"2\" is no whole number from -1 to 1" },
	};
	char text[256], wrong[200];
	int line;

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		snprintf(text, sizeof(text), HEADER "%s\n", cases[i][0]);
		cr_expect(
			!rd_tuner_rows_read(&rows, text, NULL, 1, 2, &line, wrong, sizeof(wrong)));
		cr_expect_eq(line, 2);
		cr_expect(strstr(wrong, cases[i][1]), "%s: %s", cases[i][0], wrong);
		cr_expect_eq(rows.count, 0);
	}
	memset(text, 'a', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	cr_expect(!rd_tuner_rows_read(&rows, text, NULL, 1, 2, &line, wrong, sizeof(wrong)));
	cr_expect(strstr(wrong, "more than 119 characters"), "%s", wrong);
}

/* All rows fit into a message beside the longest text of costs. */
Test(tuner_rows, more_rows_than_are_sent_are_left_out)
{
	static char text[200 * 110];
	struct rd_costs costs;
	const char *log;
	int length = 0;

	for (int i = 0; i < 100; i++)
		length += sprintf(text + length,
			"reduce_scatter,%lld,9223372036854775807,hierarchical,simple,1024,%d,%d\n",
			9000000000000000000ll + i, INT32_MAX, INT32_MAX);
	captured_stderr_begin();
	read_rows(text, INT32_MAX, INT32_MAX);
	log = captured_stderr_end();
	cr_expect_geq(rows.count, 10);
	cr_expect_lt(rd_tuner_rows_print(&rows, NULL, 0), RD_TUNER_TEXT_SIZE);
	cr_expect(strstr(log, "line 100 is left out: there are too many rows"), "%s", log);
	memset(&costs, 0xff, sizeof(costs));
	rd_costs_bound(&costs);
	cr_expect_leq(rd_costs_print(&costs, NULL, 0), RD_COSTS_SIZE - RD_TUNER_TEXT_SIZE - 8);
}

Test(tuner_rows, a_csv_is_told_from_a_file_of_costs)
{
	cr_expect(rd_tuner_is_csv("# a, b\n \n" HEADER));
	cr_expect(rd_tuner_is_csv("\r\nallreduce,0\n"));
	cr_expect_not(rd_tuner_is_csv("[host1, 8 ranks on 1 host]\nnear_way_ns 1,2\n"));
	cr_expect_not(rd_tuner_is_csv("hello\nallreduce,0\n"));
	cr_expect_not(rd_tuner_is_csv(""));
}

/* ---- Choices -------------------------------------------------------------------------------- */

static struct rd_choice choice_of(const struct rd_tuner_config *config, uint64_t bytes)
{
	struct rd_picker *picker = rd_picker_create(config);
	struct rd_choice *choice, copy;

	cr_assert(picker);
	/* Another size of the class first: its choice is not this one's. */
	cr_assert_eq(rd_picker_choose(picker, RD_ALL_REDUCE, bytes + 1, RD_WHOLE, false, &choice),
		0, "%s", rondo_last_error());
	cr_assert_eq(rd_picker_choose(picker, RD_ALL_REDUCE, bytes, RD_WHOLE, false, &choice), 0,
		"%s", rondo_last_error());
	copy = *choice;
	rd_picker_destroy(picker);
	return copy;
}

Test(tuner_rows, the_picker_takes_the_algorithm_and_the_channels_of_a_row)
{
	struct rd_tuner_config config = { .size = 8,
		.channels = 4,
		.piece_size = 128 << 10,
		.exchange_size = 32,
		.rows = &rows,
		.algo = "" };
	struct rd_choice choice;

	rd_costs_default(&config.costs);
	read_rows("allreduce,0,1000,ring,ll,3,-1,-1\nallreduce,1001,2000,tree,ll,64,-1,-1\n"
		  "allreduce,2001,3000,two_shot,ll,-1,-1,-1\n",
		1, 8);
	choice = choice_of(&config, 1000);
	cr_expect_str_eq(choice.algorithm->name, "ring");
	cr_expect_eq(choice.channels, 3);
	choice = choice_of(&config, 2000);
	cr_expect_str_eq(choice.algorithm->name, "tree");
	cr_expect_eq(choice.channels, 4);
	/* Not one that needs mapped memory, where there is none. */
	cr_expect_not(choice_of(&config, 3000).algorithm->direct_access);
	config.algo = "one_round";
	cr_expect_str_eq(choice_of(&config, 1000).algorithm->name, "one_round");
}

/* ---- A world -------------------------------------------------------------------------------- */

static bool is_chosen(rondo_comm *comm, size_t count, const char *name)
{
	struct rondo_way ways[RD_ALGORITHMS_KNOWN];
	int ways_count =
		rondo_explain(comm, "all_reduce", count, RONDO_U8, 0, ways, RD_ALGORITHMS_KNOWN);

	for (int i = 0; i < ways_count; i++)
		if (ways[i].chosen)
			return strcmp(ways[i].algorithm, name) == 0;
	return false;
}

/* Also in a group, which has fewer ranks. */
static int check_choices(struct rank_env *env)
{
	static const int pair[] = { 0, 1 };
	uint8_t values[2000] = { 1 };
	rondo_comm *group = NULL;
	int err;

	if (!env->comm)
		return world_report(env, "no comm: %s", rondo_last_error());
	if (!is_chosen(env->comm, 1000, "ring") || !is_chosen(env->comm, 1001, "halving"))
		return world_report(env, "other algorithms are chosen");
	err = rondo_all_reduce(env->comm, values, values, 1001, RONDO_U8, RONDO_SUM, NULL);
	if (err || values[0] != env->size)
		return world_report(env, "the sum is %d: %s", values[0], rondo_last_error());
	if (env->rank > 1)
		return 0;
	err = rondo_comm_create_group(env->comm, pair, 2, 7, &group);
	if (err || !is_chosen(group, 1000, "halving"))
		return world_report(env, "not in the group: %s", rondo_last_error());
	rondo_comm_destroy(group);
	return 0;
}

Test(tuner_rows, ranks_and_groups_choose_by_the_file_of_rank_0, .timeout = 60)
{
	static const char csv[] = "allreduce,0,1000,ring,ll,-1,-1,3\n"
				  "allreduce,1001,2000,halving,ll,-1,1,3\n"
				  "allreduce,0,2000,halving,ll,-1,-1,2\n";
	struct world world = { .size = 3, .transport = "shm" };
	struct rank_outcome outcomes[WORLD_MAX];
	char path[] = "/tmp/rondo-rows-XXXXXX", after[sizeof(csv) + 1] = "";
	int fd = mkstemp(path);

	cr_assert(fd >= 0 && write(fd, csv, sizeof(csv) - 1) == sizeof(csv) - 1);
	setenv("RONDO_TUNE_FILE", path, 1);
	captured_stderr_begin();
	cr_expect_eq(world_run(&world, check_choices, NULL, outcomes), 0);
	cr_expect_str_empty(captured_stderr_end());
	cr_expect_eq(pread(fd, after, sizeof(after), 0), sizeof(csv) - 1);
	cr_expect_str_eq(after, csv);
	close(fd);
	unlink(path);
}
