/* ctest label: threads */
/* rondo-plan replay: the calls of a trace, one after the other, in virtual time. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "exec/algorithms.h"
#include "plan/commands.h"
#include "plan/difference.h"
#include "plan/program.h"
#include "plan/simulated.h"
#include "rondo.h"

#define RANKS 3
#define BLOCK 3000
#define CALL_NS 10000 /* that each took */

static struct plan_problem made;
static char path[64];
static FILE *file;

/* ---- Traces --------------------------------------------------------------------------------- */

static void begin_trace(bool drops)
{
	snprintf(path, sizeof(path), "/tmp/rondo_plan_replay_XXXXXX");
	file = fdopen(mkstemp(path), "w");
	fprintf(file, "[\n");
	for (int rank = 0; rank < RANKS; rank++)
		fprintf(file,
			"{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%d,\"args\":"
			"{\"comm\":\"0\",\"rank\":%d,\"ranks\":%d}},\n"
			"{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%d,\"tid\":0,"
			"\"args\":{\"place\":%d,\"group\":0}},\n"
			"{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%d,\"tid\":1,"
			"\"args\":{\"place\":%d,\"group\":0}},\n",
			rank, rank, RANKS, rank, rank, rank, RANKS - 1 - rank);
	if (drops)
		fprintf(file,
			"{\"name\":\"process_labels\",\"ph\":\"M\",\"pid\":1,\"args\":{}},\n");
}

static const char *algorithm_of(const char *collective)
{
	if (strcmp(collective, "all_reduce") == 0)
		return "ring";
	return strcmp(collective, "transfer") == 0 ? "linear" : "binomial";
}

static int64_t took_ns = CALL_NS;
static int channel; /* its order of ranks is not that of the first */

/* A replay looks at a step's time alone: one of each rank stands for all. */
static void add_step(int call, const char *collective, int root, int rank, int64_t begin_ns)
{
	fprintf(file,
		"{\"name\":\"send\",\"cat\":\"%s\",\"ph\":\"X\",\"pid\":%d,\"tid\":%d,"
		"\"ts\":%d.%03d,\"dur\":0.000,\"args\":{\"call\":%d,\"algorithm\":\"%s\","
		"\"root\":%d,\"target\":%d,\"block_bytes\":%d,\"piece\":0,\"step\":0,\"chunk\":0,"
		"\"peer\":-1,\"to\":-1,\"bytes\":%d,\"wait_us\":0.000,\"work_us\":%lld.%03d}},\n",
		collective, rank, channel, (int)(begin_ns / 1000), (int)(begin_ns % 1000), call,
		algorithm_of(collective), root,
		strcmp(collective, "transfer") == 0 ? (root + 1) % RANKS : 0, BLOCK, BLOCK,
		(long long)took_ns / 1000, (int)(took_ns % 1000));
}

static void add_call(int call, int64_t begin_ns, const int64_t *late_ns)
{
	for (int rank = 0; rank < RANKS; rank++)
		add_step(call, "all_reduce", 0, rank, begin_ns + (late_ns ? late_ns[rank] : 0));
}

static struct plan_trace *end_trace(void)
{
	struct plan_trace *trace;

	fclose(file);
	cr_assert_eq(plan_trace_read(&trace, path), 0, "%s", rondo_last_error());
	unlink(path);
	return trace;
}

static int64_t calls_ns[10];
static int lacking;

/* When the program ends; calls_ns has the times of its calls. */
static int64_t simulate(struct plan_trace *trace, const struct plan_options *options)
{
	struct plan_program program;
	int64_t end_ns;

	cr_assert_eq(plan_program_make(&program, trace), 0, "%s", rondo_last_error());
	cr_assert_eq(
		plan_program_simulate(&program, &made, options, NULL, calls_ns, &end_ns, &lacking),
		0, "%s", rondo_last_error());
	plan_program_finish(&program);
	plan_trace_destroy(trace);
	return end_ns;
}

/* One call, alone. */
static int64_t alone_ns(void)
{
	struct plan_options options = { .collective = RD_ALL_REDUCE,
		.ranks = RANKS,
		.hosts = 1,
		.size = BLOCK,
		.piece_size = BLOCK };
	struct plan_simulated simulated;
	int64_t end_ns;

	cr_assert_eq(plan_problem_make(&made, &options), 0, "%s", rondo_last_error());
	cr_assert_eq(plan_simulated_create(
			     &simulated, &made, &options, rd_algorithm_called("ring"), NULL),
		0, "%s", rondo_last_error());
	cr_assert_eq(plan_simulated_run(&simulated, BLOCK), 0, "%s", rondo_last_error());
	end_ns = simulated.simulation.end_ps / 1000;
	plan_simulated_destroy(&simulated);
	return end_ns;
}

static const struct plan_options usual = { .source = path };

/* ---- Calls and gaps ------------------------------------------------------------------------- */

Test(plan_replay, a_call_takes_what_it_takes_alone)
{
	int64_t alone = alone_ns();

	begin_trace(false);
	add_call(1, 5000, NULL);
	cr_expect_eq(simulate(end_trace(), &usual), alone);
	cr_expect_eq(calls_ns[0], alone);
}

/* All wait for rank 1, which computes for longer before the second call. */
Test(plan_replay, a_gap_of_a_rank_stays)
{
	static const int64_t late[RANKS] = { 0, 70000, 0 };
	int64_t alone = alone_ns(), end;

	begin_trace(false);
	add_call(1, 0, NULL);
	add_call(2, CALL_NS + 30000, NULL);
	end = simulate(end_trace(), &usual);
	cr_expect_geq(end, 30000 + alone);
	cr_expect_leq(end, 30000 + 2 * alone);
	begin_trace(false);
	add_call(1, 0, NULL);
	add_call(2, CALL_NS + 30000, late);
	cr_expect_geq(simulate(end_trace(), &usual), end + 70000 - alone);
	cr_expect_geq(calls_ns[1], 70000);
	cr_expect_leq(calls_ns[1], 70000 + 2 * alone);
}

/* Rank 0 waits in a transfer from rank 2 while that sends to rank 1. */
Test(plan_replay, calls_run_in_the_order_of_their_ranks)
{
	begin_trace(false);
	add_step(1, "transfer", 2, 0, 0); /* to rank 0 */
	add_step(1, "transfer", 1, 1, 10000); /* of rank 1, to rank 2 */
	add_step(1, "transfer", 1, 2, 10000);
	add_step(1, "transfer", 2, 2, 10000 + CALL_NS);

	struct plan_trace *trace = end_trace();

	cr_expect_eq(trace->calls[0].key->root, 1);
	cr_expect_lt(simulate(trace, &usual), 12000);
}

Test(plan_replay, calls_that_lack_steps_are_left_out)
{
	struct plan_program program;
	struct plan_trace *trace;

	begin_trace(true);
	add_step(1, "all_reduce", 0, 0, 0);
	add_call(2, 1000000, NULL);
	add_call(3, 2000000, NULL);
	trace = end_trace();
	cr_assert_eq(plan_program_make(&program, trace), 0, "%s", rondo_last_error());
	cr_expect_eq(program.left_out, 2);
	cr_expect_eq(program.call_count, 1);
	cr_expect_eq(program.calls[0].call->key->number, 3);
	cr_expect_eq(program.measured_ns, CALL_NS);
	plan_program_finish(&program);
	plan_trace_destroy(trace);
}

/* Rank 0 is slow. It sends to both, or receives from one. */
Test(plan_replay, calls_of_other_roots_have_other_plans)
{
	struct plan_options slow = { .source = path, .slow = { 1, { { 0, 100000 } } } };

	alone_ns();
	begin_trace(false);
	for (int root = 0; root < 2; root++)
		for (int rank = 0; rank < RANKS; rank++)
			add_step(root, "broadcast", root, rank, root * 1000000);
	simulate(end_trace(), &slow);
	cr_expect_gt(calls_ns[0], calls_ns[1]);
}

/* ---- Changes -------------------------------------------------------------------------------- */

Test(plan_replay, a_slow_rank_delays_calls)
{
	struct plan_options slow = { .source = path, .slow = { 1, { { 0, 2000 } } } };
	int64_t alone = alone_ns();

	begin_trace(false);
	add_call(1, 0, NULL);

	int64_t end = simulate(end_trace(), &slow);

	cr_expect_gt(end, alone);
	cr_expect_leq(end, 2 * alone);
}

Test(plan_replay, a_link_gets_a_factor)
{
	struct network *network;

	cr_assert_eq(network_create(&network, "card:mbps=1000", 2), 0, "%s", rondo_last_error());
	cr_assert_eq(network_speed(network, "host 1 up", 2500), 0);
	for (int i = 0; i < network->link_count; i++)
		cr_expect_eq(network->links[i].mbps,
			strcmp(network->links[i].name, "host 1 up") == 0 ? 2500 : 1000);
	cr_expect_eq(network_speed(network, "host 9 up", 2500), RONDO_INVALID);
	cr_expect_str_eq(
		rondo_last_error(), "the network has no link 'host 9 up'; did you mean host 0 up?");
	network_destroy(network);
}

static char *text_of(struct plan_options options)
{
	char *text;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	options.source = path;
	cr_assert_eq(plan_replay(&made, &options, out), 0, "%s", rondo_last_error());
	fclose(out);
	return text;
}

/* On hosts of their own, over a network: the link down of host 0 takes all that rank 0 receives. */
Test(plan_replay, the_table_has_the_change_beside_the_machine)
{
	struct plan_options options = {
		.hosts = RANKS, .hosts_given = true, .topology = "card:mbps=1000", .tsv = true
	};
	long long measured, simulated, changed, usual_ns = 0;
	int calls, at = 0;

	alone_ns();
	begin_trace(false);
	add_call(1, 0, NULL);
	add_call(2, 2 * CALL_NS, NULL);
	fclose(file);

	char *text = text_of(options);

	cr_expect_eq(
		sscanf(text,
			"collective\tcalls\tmeasured_ns\tsimulated_ns\nall_reduce\t2\t%lld\t%lld",
			&measured, &usual_ns),
		2, "%s", text);
	free(text);
	options.slow = (struct plan_faults){ 1, { { 0, 1100 } } };
	options.links = (struct plan_links){ 1, { { "host 0 down", 500 } } };
	text = text_of(options);
	cr_assert_eq(sscanf(text,
			     "collective\tcalls\tmeasured_ns\tsimulated_ns\tchanged_ns\n"
			     "all_reduce\t%d\t%lld\t%lld\t%lld\nwhole\t2\t%n",
			     &calls, &measured, &simulated, &changed, &at),
		4, "%s", text);
	cr_expect_gt(at, 0, "%s", text);
	cr_expect_eq(calls, 2);
	cr_expect_eq(simulated, usual_ns);
	cr_expect_eq(measured, 2 * CALL_NS);
	/* 8 ns a byte, of some messages of a third of a block. */
	cr_expect_geq(changed - simulated, 2 * BLOCK / 4 * 8);
	cr_expect_leq(changed, 2 * simulated);
	free(text);
	unlink(path);
}

/* The first call, which is alike, has one channel. */
Test(plan_replay, a_later_call_with_two_orders_of_ranks_is_refused)
{
	struct plan_program program;
	struct plan_trace *trace;
	int64_t end_ns;

	alone_ns();
	begin_trace(false);
	add_call(1, 0, NULL);
	channel = 1;
	add_call(2, CALL_NS, NULL);
	trace = end_trace();
	cr_assert_eq(plan_program_make(&program, trace), 0, "%s", rondo_last_error());
	cr_expect_eq(
		plan_program_simulate(&program, &made, &usual, NULL, calls_ns, &end_ns, &lacking),
		RONDO_UNSUPPORTED);
	cr_expect(strstr(rondo_last_error(), "call 2: its channels have different orders"), "%s",
		rondo_last_error());
	plan_program_finish(&program);
	plan_trace_destroy(trace);
}

/* No sum of them is below 0. */
Test(plan_replay, times_beyond_all_bounds_stay_there)
{
	struct plan_options options = { .tsv = true };

	alone_ns();
	took_ns = 999999999999999999;
	begin_trace(false);
	for (int call = 1; call <= 10; call++)
		add_call(call, call, NULL);
	fclose(file);

	char *text = text_of(options);

	cr_expect(strstr(text, "\nall_reduce\t10\t9223372036854775807\t"), "%s", text);
	free(text);
	unlink(path);
}

Test(plan_replay, the_heading_has_the_hosts)
{
	alone_ns();
	begin_trace(false);
	add_call(1, 0, NULL);
	fclose(file);

	char *text = text_of((struct plan_options){ .hosts = 2, .hosts_given = true });

	cr_expect(strstr(text, "1 call of 3 ranks on 2 hosts: "), "%s", text);
	free(text);
	text = text_of((struct plan_options){ .hosts = 1 });
	cr_expect(strstr(text, "1 call of 3 ranks on 1 host: "), "%s", text);
	free(text);
	unlink(path);
}

Test(plan_replay, more_hosts_than_ranks_are_refused)
{
	struct plan_options options = { .source = path, .hosts = RANKS + 1, .hosts_given = true };
	struct plan_program program;
	struct plan_trace *trace;
	int64_t end_ns;

	alone_ns();
	begin_trace(false);
	add_call(1, 0, NULL);
	trace = end_trace();
	cr_assert_eq(plan_program_make(&program, trace), 0, "%s", rondo_last_error());
	cr_expect_eq(
		plan_program_simulate(&program, &made, &options, NULL, calls_ns, &end_ns, &lacking),
		RONDO_INVALID);
	cr_expect_str_eq(rondo_last_error(), "4 hosts for 3 ranks: each has one");
	plan_program_finish(&program);
	plan_trace_destroy(trace);
}

/* A step of each rank is there, of more. */
Test(plan_replay, calls_that_lack_steps_are_counted)
{
	struct plan_options options = { .hosts = 1 };

	alone_ns();
	begin_trace(false);
	add_call(1, 0, NULL);
	add_call(2, 2 * CALL_NS, NULL);
	add_step(3, "transfer", 1, 1, 4 * CALL_NS);
	add_step(3, "transfer", 1, 2, 4 * CALL_NS);
	fclose(file);

	char *text = text_of(options);

	cr_expect(strstr(text, "\n2 calls simulated whole, though steps are missing"), "%s", text);
	free(text);
	options.json = true;
	text = text_of(options);
	cr_expect(strstr(text, "\"lacking\": 2,"), "%s", text);
	free(text);
	unlink(path);
}

/* An edited trace may have many pieces, of plans with many steps. */
Test(plan_replay, more_steps_than_a_trace_may_have_are_not_simulated)
{
	static const char reason[] = "call 2: the calls up to here have more than 33554432 steps";
	struct plan_options options = { .source = path };
	struct plan_difference difference = { 0 };
	struct plan_program program;
	struct plan_trace *trace;
	int64_t end_ns;

	alone_ns();
	begin_trace(false);
	add_call(1, 0, NULL);
	add_call(2, CALL_NS, NULL);
	trace = end_trace();
	trace->steps_left = 20;
	cr_assert_eq(plan_program_make(&program, trace), 0, "%s", rondo_last_error());
	cr_expect_eq(
		plan_program_simulate(&program, &made, &usual, NULL, calls_ns, &end_ns, &lacking),
		RONDO_UNSUPPORTED);
	cr_expect(strstr(rondo_last_error(), reason), "%s", rondo_last_error());
	plan_program_finish(&program);
	cr_expect_eq(plan_difference_find(
			     &difference, &made, &options, trace, &trace->calls[1], NULL, 2),
		RONDO_UNSUPPORTED);
	cr_expect(strstr(rondo_last_error(), reason), "%s", rondo_last_error());
	plan_difference_finish(&difference);
	plan_trace_destroy(trace);
}
