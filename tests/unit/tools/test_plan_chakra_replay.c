/* rondo-plan replay of Chakra's execution traces: collectives, and computations between them. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chakra_files.h"
#include "plan/chakra.h"
#include "plan/program.h"
#include "rondo.h"

#define RANKS 3
#define CALLS 5

static struct plan_problem made;

static void init(void)
{
	chakra_files_begin();
	rd_costs_default(&made.costs);
}

TestSuite(plan_chakra_replay, .init = init, .fini = tree_end, .timeout = 120);

/* ---- Programs ------------------------------------------------------------------------------- */

static struct plan_options replay = { .source = name, .piece_size = 128 << 10 };

static FILE *begin_file(int rank)
{
	FILE *file = fopen(path_of(rank), "w");

	cr_assert(file);
	chakra_begin(file);
	return file;
}

static void put_comp(FILE *file, uint64_t id, uint64_t dep, uint64_t us)
{
	struct chakra_node node = CHAKRA_NODE;

	node.id = id;
	node.name = "compute";
	node.type = CHAKRA_COMP;
	node.duration_us = us;
	node.ctrl_deps = &dep;
	node.ctrl_dep_count = dep > 0;
	chakra_put(&node, file);
}

static void put_coll(FILE *file, uint64_t id, uint64_t dep, int comm_type, int64_t size)
{
	struct chakra_node node = CHAKRA_NODE;

	node.id = id;
	node.name = "";
	node.type = CHAKRA_COLL;
	node.data_deps = &dep;
	node.data_dep_count = dep > 0;
	node.comm_type = comm_type;
	node.comm_size = size;
	chakra_put(&node, file);
}

static const struct {
	int comm_type;
	int64_t size; /* of the node */
	int64_t block;
} calls[CALLS] = { { CHAKRA_ALL_REDUCE, 5 << 20, 5 << 20 }, { CHAKRA_ALL_GATHER, 999, 999 },
	{ CHAKRA_REDUCE_SCATTER, 3 << 20, 1 << 20 }, { CHAKRA_ALL_TO_ALL, 100, 34 },
	{ CHAKRA_BARRIER, -1, 0 } };

/* Microseconds of a rank's computation before a call. */
static int gap_us(int rank, int k)
{
	return (7 * rank + 3 * k) % 11 * 10;
}

/* In each file, later nodes come first. */
static void write_program(void)
{
	for (int rank = 0; rank < RANKS; rank++) {
		FILE *file = begin_file(rank);

		for (int k = CALLS - 1; k >= 0; k--) {
			uint64_t id = 2 * (uint64_t)k + 1;

			put_coll(file, id + 1, id, calls[k].comm_type, calls[k].size);
			put_comp(file, id, id - 1, (uint64_t)gap_us(rank, k));
		}
		fclose(file);
	}
}

/* The same program as Rondo's own trace, by the same algorithms. */
static const char *write_trace(const struct plan_trace *like)
{
	static char path[PATH_MAX + 8];
	int now_us[RANKS] = { 0 };

	snprintf(path, sizeof(path), "%s.json", name);
	FILE *file = fopen(path, "w");

	fprintf(file, "[\n");
	for (int rank = 0; rank < RANKS; rank++)
		fprintf(file,
			"{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%d,\"args\":"
			"{\"comm\":\"0\",\"rank\":%d,\"ranks\":%d}},\n"
			"{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%d,\"tid\":0,"
			"\"args\":{\"place\":%d,\"group\":0}},\n",
			rank, rank, RANKS, rank, rank);
	for (int k = 0; k < CALLS; k++)
		for (int rank = 0; rank < RANKS; rank++) {
			const struct plan_trace_call *call = &like->calls[k];
			/* A call has a step for each slice at least: they take no time here. */
			int steps = 1 + (int)(call->block / call->slice);

			now_us[rank] += gap_us(rank, k);
			for (int i = 0; i < steps; i++)
				fprintf(file,
					"{\"name\":\"send\",\"cat\":\"%s\",\"ph\":\"X\",\"pid\":%d,"
					"\"tid\":0,\"ts\":%d.000,\"dur\":0.000,\"args\":{\"call\":%d,"
					"\"algorithm\":\"%s\",\"root\":0,\"target\":0,\"block_bytes\":%lld,"
					"\"piece\":%d,\"step\":0,\"chunk\":0,\"peer\":-1,\"to\":-1,"
					"\"bytes\":%lld,\"wait_us\":0.000,\"work_us\":0.000}},\n",
					rd_collective_name(
						(enum rd_collective)call->key->collective),
					rank, now_us[rank], k, like->names[call->key->algorithm],
					(long long)calls[k].block, i, (long long)call->slice);
		}
	fclose(file);
	return path;
}

static int64_t simulate(struct plan_trace *trace, int64_t *calls_ns)
{
	struct plan_program program;
	int64_t end_ns;
	int lacking;

	cr_assert_eq(plan_program_make(&program, trace), 0, "%s", rondo_last_error());
	cr_assert_eq(program.call_count, CALLS);
	cr_assert_eq(program.left_out, 0);
	cr_assert_eq(
		plan_program_simulate(&program, &made, &replay, NULL, calls_ns, &end_ns, &lacking),
		0, "%s", rondo_last_error());
	cr_expect(lacking == 0 || !trace->of_calls);
	plan_program_finish(&program);
	return end_ns;
}

Test(plan_chakra_replay, a_program_takes_what_it_takes_as_rondos_own_trace)
{
	int64_t chakra_ns[CALLS], own_ns[CALLS], end_ns;
	struct plan_trace *trace, *own;

	write_program();
	cr_assert_eq(chakra_trace_read(&trace, &made, &replay), 0, "%s", rondo_last_error());
	cr_assert_eq(plan_trace_read(&own, write_trace(trace)), 0, "%s", rondo_last_error());
	end_ns = simulate(trace, chakra_ns);
	cr_expect_eq(simulate(own, own_ns), end_ns);
	cr_expect_arr_eq(chakra_ns, own_ns, sizeof(own_ns));
	cr_expect_gt(end_ns, 1000 * gap_us(0, 0));
	plan_trace_destroy(trace);
	plan_trace_destroy(own);
}

/* As it ran: rank 1 computes for longer, and the others wait for it in the call. */
Test(plan_chakra_replay, durations_are_measured_times)
{
	struct plan_program program;
	struct plan_trace *trace;

	for (int rank = 0; rank < 2; rank++) {
		FILE *file = begin_file(rank);
		struct chakra_node node = CHAKRA_NODE;

		put_comp(file, 1, 0, rank == 0 ? 10 : 50);
		node.type = CHAKRA_COLL;
		node.name = "";
		node.id = 2;
		node.comm_type = CHAKRA_ALL_REDUCE;
		node.comm_size = 8;
		node.duration_us = rank == 0 ? 45 : 5;
		node.group = rank == 0 ? "" : "0";
		chakra_put(&node, file);
		put_comp(file, 3, 2, 1000);
		fclose(file);
	}
	cr_assert_eq(chakra_trace_read(&trace, &made, &replay), 0, "%s", rondo_last_error());
	cr_assert_eq(plan_program_make(&program, trace), 0, "%s", rondo_last_error());
	cr_expect_eq(trace->calls[0].begin_ns, 10000);
	cr_expect_eq(trace->calls[0].end_ns, 55000);
	cr_expect_eq(program.measured_ns, 45000);
	plan_program_finish(&program);
	plan_trace_destroy(trace);
}

/* Rank 0 leaves the first call when rank 1 comes, after 50 us. */
Test(plan_chakra_replay, calls_without_durations_wait_for_all_ranks)
{
	struct plan_trace *trace;

	for (int rank = 0; rank < 2; rank++) {
		FILE *file = begin_file(rank);

		put_comp(file, 1, 0, rank == 0 ? 10 : 50);
		put_coll(file, 2, 1, CHAKRA_ALL_REDUCE, 8);
		put_comp(file, 3, 2, rank == 0 ? 20 : 0);
		put_coll(file, 4, 3, CHAKRA_ALL_REDUCE, 8);
		fclose(file);
	}
	cr_assert_eq(chakra_trace_read(&trace, &made, &replay), 0, "%s", rondo_last_error());
	cr_expect_eq(trace->calls[1].begin_ns, 50000);
	cr_expect_eq(trace->calls[1].end_ns, 70000);
	plan_trace_destroy(trace);
}

Test(plan_chakra_replay, a_network_has_a_host_for_each_rank)
{
	struct plan_options options = replay;
	struct plan_trace *trace;

	write_program();
	options.topology = "card";
	cr_assert_eq(chakra_trace_read(&trace, &made, &options), 0, "%s", rondo_last_error());
	for (int rank = 0; rank < RANKS; rank++)
		cr_expect_eq(trace->comms[0].ranks[rank].groups[0], rank);
	plan_trace_destroy(trace);
}

Test(plan_chakra_replay, the_files_are_found_by_their_name_or_one_of_them)
{
	write_program();
	cr_expect(chakra_is_source(name));
	cr_expect(chakra_is_source(path_of(2)));
	cr_expect_not(chakra_is_source("/dev/null"));
	cr_expect_not(chakra_is_source("trace.json"));
}

/* ---- Files that lie ------------------------------------------------------------------------- */

static void expect_refused(const char *reason)
{
	struct plan_trace *trace;

	cr_assert_lt(chakra_trace_read(&trace, &made, &replay), 0, "accepted: %s", reason);
	cr_expect_not_null(
		strstr(rondo_last_error(), reason), "%s, not: %s", rondo_last_error(), reason);
	cr_expect_null(trace);
}

/* A file of these bytes behind a whole beginning. */
static void expect_bytes_refused(const char *bytes, size_t size, const char *reason)
{
	FILE *file = begin_file(0);

	fwrite(bytes, 1, size, file);
	fclose(file);
	expect_refused(reason);
}

Test(plan_chakra_replay, messages_that_lie_are_refused)
{
	FILE *file = fopen(path_of(0), "w");

	expect_refused("t.0.et: byte 0: no Chakra trace: it begins with no GlobalMetadata");
	fputs("\x03[{}", file);
	fclose(file);
	expect_refused("t.0.et: byte 0: no Chakra trace: it begins with no GlobalMetadata");
	expect_bytes_refused("\x04\x08\x01", 3, "t.0.et: byte 8: the file was cut");
	expect_bytes_refused("\x02\x08\x01\x80", 4, "t.0.et: byte 11: the file was cut");
	expect_bytes_refused("\x80\x80\x80\x7f", 4, "byte 8: no Chakra trace: a message has more");
	expect_bytes_refused("\x81\x80\x80\x80\x00", 5, "a message has more than 16 MiB");
	expect_bytes_refused("\x03\x0a\x7fx", 4, "t.0.et: byte 8: this message is no node");
	expect_bytes_refused("", 0, "t.0.et has no collective");
}

Test(plan_chakra_replay, graphs_that_lie_are_refused)
{
	FILE *file = begin_file(0);

	put_comp(file, 5, 6, 1);
	put_coll(file, 6, 5, CHAKRA_ALL_REDUCE, 8);
	fclose(file);
	expect_refused("t.0.et: node 6: it depends on itself, by way of others");
	file = begin_file(0);
	put_coll(file, 6, 5, CHAKRA_ALL_REDUCE, 8);
	fclose(file);
	expect_refused("t.0.et: node 6: it depends on a node that the file lacks");
	file = begin_file(0);
	put_comp(file, 6, 0, 1);
	put_coll(file, 6, 0, CHAKRA_ALL_REDUCE, 8);
	fclose(file);
	expect_refused("t.0.et: node 6: two nodes have this id");
	file = begin_file(0);
	for (uint64_t id = 1; id <= 1000; id++)
		put_comp(file, id, id - 1, CHAKRA_NS_MAX / 1000 / 900);
	fclose(file);
	expect_refused("t.0.et: node 901: all until here takes more than 11 days");
}

static void expect_node_refused(struct chakra_node node, const char *reason)
{
	FILE *file = begin_file(0);

	node.id = 7;
	node.name = "";
	chakra_put(&node, file);
	fclose(file);
	expect_refused(reason);
}

Test(plan_chakra_replay, nodes_that_have_no_replay_are_refused)
{
	struct chakra_node node = CHAKRA_NODE;

	node.type = CHAKRA_SEND;
	expect_node_refused(node, "t.0.et: node 7: a replay has collectives and computations "
				  "alone, and this is a send");
	node.type = CHAKRA_MEM_LOAD;
	expect_node_refused(node, "this is of another type");
	node.type = CHAKRA_COLL;
	expect_node_refused(node, "node 7: a collective wants a comm_type from 0 to 9");
	node.comm_type = CHAKRA_COMM_TYPE_COUNT;
	expect_node_refused(node, "a collective wants a comm_type from 0 to 9");
	node.comm_type = CHAKRA_BROADCAST;
	expect_node_refused(node, "node 7: a collective wants a comm_size");
	node.comm_size = 8;
	node.group = "1";
	expect_node_refused(node, "node 7: it is of a process group");
	node.group = NULL;
	node.duration_us = UINT64_MAX;
	expect_node_refused(node, "node 7: it takes more than 11 days");
}

static void write_calls(int rank, int count, int64_t size)
{
	FILE *file = begin_file(rank);

	for (int id = 1; id <= count; id++)
		put_coll(file, (uint64_t)id, 0, CHAKRA_ALL_REDUCE, size);
	fclose(file);
}

Test(plan_chakra_replay, ranks_that_differ_are_refused)
{
	write_calls(0, 2, 8);
	write_calls(1, 1, 8);
	expect_refused("t.1.et has 1 collective, and rank 0 has 2");
	write_calls(1, 2, 16);
	expect_refused("t.1.et: node 1: comm_type 0 with comm_size 16, and rank 0 has 0 with 8 "
		       "there (its node 1)");
	write_calls(1, 2, 8);
	write_calls(3, 2, 8);
	expect_refused("t.2.et is missing, of the traces of all ranks");
}
