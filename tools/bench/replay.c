#include "runs.h"

#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "agree.h"
#include "base/clock.h"
#include "memory.h"
#include "plan/program.h"
#include "printed.h"
#include "world.h"

/* A call of the program, as all ranks make it. */
struct call {
	const struct plan_program_call *recorded;
	const struct bench_collective *collective; /* NULL: a transfer */
	size_t count; /* of floats */
};

struct replay {
	const struct bench_options *options;
	struct plan_program program;
	struct call *calls;
	int call_count;
	size_t send_size, recv_size; /* bytes: of the largest calls */
};

/* ---- The calls ------------------------------------------------------------------------------ */

static bool larger(size_t *size, size_t count)
{
	size_t bytes;

	if (__builtin_mul_overflow(count, sizeof(float), &bytes))
		return false;
	*size = bytes > *size ? bytes : *size;
	return true;
}

/* False: it is larger than any memory. */
static bool add_call(struct replay *replay, const struct plan_program_call *recorded)
{
	static const struct bench_collective transfer = { .shape = BENCH_WHOLE };
	const struct plan_trace_call *it = recorded->call;
	const char *name = rd_collective_name((enum rd_collective)it->key->collective);
	struct call *call = &replay->calls[replay->call_count];
	int ranks = replay->program.ranks;

	*call = (struct call){ recorded, bench_collective_find(name),
		((size_t)it->block + sizeof(float) - 1) / sizeof(float) };
	replay->call_count++;

	const struct bench_collective *shape = call->collective ? call->collective : &transfer;
	size_t all;

	return !__builtin_mul_overflow(call->count, ranks, &all) &&
	       larger(&replay->send_size, bench_collective_send_count(shape, call->count, ranks)) &&
	       larger(&replay->recv_size, bench_collective_recv_count(shape, call->count, ranks));
}

/* Else the rank would compute nothing between its calls. */
static bool has_all_ranks(const struct replay *replay)
{
	const struct plan_program *program = &replay->program;
	const struct plan_trace_comm *comm = &program->trace->comms[program->comm];

	for (int rank = 0; rank < comm->size; rank++)
		if (!comm->ranks[rank].known) {
			fprintf(stderr,
				"rondo-bench: %s lacks rank %d of %d: join the files of all "
				"hosts\n",
				replay->options->trace, rank, comm->size);
			return false;
		}
	return true;
}

/* Without this check the kernel would kill some process for the memory. */
static bool fits(const struct replay *replay)
{
	const struct bench_options *options = replay->options;
	double here = (options->ranks ? options->ranks : 1) * options->threads * options->gpus;
	double there = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);

	return here * ((double)replay->send_size + (double)replay->recv_size) <= there;
}

static int make_calls(struct replay *replay)
{
	const struct plan_program *program = &replay->program;
	bool fit = true;

	replay->calls = calloc((size_t)program->call_count, sizeof(*replay->calls));
	if (!replay->calls)
		return bench_report_failure(0, "replay", RONDO_MEMORY);
	for (int i = 0; i < program->call_count && fit; i++)
		fit = add_call(replay, &program->calls[i]);
	if (fit && fits(replay))
		return 0;
	fprintf(stderr, "rondo-bench: %s has calls larger than this host's memory\n",
		replay->options->trace);
	return 1;
}

/* ---- One rank ------------------------------------------------------------------------------- */

struct player {
	const struct replay *replay;
	rondo_comm *comm;
	int rank;
	float *send, *recv;
	int64_t ended_ns; /* its call before */
	double *times_ns; /* [call_count + 1]: of each call; of all */
};

static int run_transfer(const struct player *player, const struct call *call)
{
	const struct plan_trace_key *key = call->recorded->call->key;
	int err = rondo_group_start();

	if (err)
		return err;
	/* rondo_group_end() returns the error of a refused call again. */
	if (player->rank == key->root)
		rondo_send(player->comm, player->send, call->count, RONDO_F32, key->target, NULL);
	if (player->rank == key->target)
		rondo_recv(player->comm, player->recv, call->count, RONDO_F32, key->root, NULL);
	return rondo_group_end();
}

static int run_collective(const struct player *player, const struct call *call)
{
	const struct bench_call it = {
		.collective = call->collective,
		.comm = player->comm,
		.send = player->send,
		.recv = player->recv,
		.count = call->count,
		.type = RONDO_F32,
		.op = RONDO_SUM,
		.root = call->recorded->call->key->root,
		.rank = player->rank,
		.size = player->replay->program.ranks,
	};

	return call->collective->run(&it);
}

/* NULL: the rank is not in it, or the trace lacks its steps. */
static const struct plan_program_part *part_of(const struct call *call, int rank)
{
	for (int i = 0; i < call->recorded->part_count; i++)
		if (call->recorded->parts[i].rank == rank)
			return &call->recorded->parts[i];
	return NULL;
}

static int run_call(struct player *player, int index)
{
	const struct call *call = &player->replay->calls[index];
	const struct plan_trace_key *key = call->recorded->call->key;
	const struct plan_program_part *part = part_of(call, player->rank);
	int64_t begin_ns = rd_clock_ns();
	int err;

	if (!call->collective && player->rank != key->root && player->rank != key->target)
		return 0;
	while (part && begin_ns - player->ended_ns < part->gap_ns)
		begin_ns = rd_clock_ns();
	err = call->collective ? run_collective(player, call) : run_transfer(player, call);
	player->ended_ns = rd_clock_ns();
	player->times_ns[index] = (double)(player->ended_ns - begin_ns);
	return err;
}

static int run_calls(struct player *player)
{
	int count = player->replay->call_count, err = rondo_barrier(player->comm, NULL);
	int64_t begin_ns = player->ended_ns = rd_clock_ns();

	for (int i = 0; i < count && !err; i++)
		err = run_call(player, i);
	player->times_ns[count] = (double)(player->ended_ns - begin_ns);
	/* The slowest rank's, on all. */
	return err ? err
		   : bench_agree(player->comm, player->times_ns, (size_t)count + 1, RONDO_MAX);
}

/* ---- The table ------------------------------------------------------------------------------ */

/* A call of the table. */
struct line {
	int collective; /* enum rd_collective */
	int64_t block;
	double recorded_us, measured_us;
};

static int compare_lines(const void *left, const void *right)
{
	const struct line *a = left, *b = right;

	if (a->collective != b->collective)
		return a->collective - b->collective;
	return (a->block > b->block) - (a->block < b->block);
}

static double recorded_us(const struct call *call)
{
	int64_t longest_ns = 0;

	for (int i = 0; i < call->recorded->part_count; i++)
		if (call->recorded->parts[i].length_ns > longest_ns)
			longest_ns = call->recorded->parts[i].length_ns;
	return (double)longest_ns / 1e3;
}

static void print_row(const struct line *lines, int count)
{
	double recorded = 0, measured = 0;

	for (int i = 0; i < count; i++) {
		recorded += lines[i].recorded_us;
		measured += lines[i].measured_us;
	}
	printf("%-16s %12" PRId64 " %8d %14.2f %14.2f\n",
		rd_collective_name((enum rd_collective)lines->collective), lines->block, count,
		recorded / count, measured / count);
}

static void print_table(const struct replay *replay, const double *times_ns, struct line *lines)
{
	const struct plan_program *program = &replay->program;
	int left_out = program->left_out, count = replay->call_count;

	for (int i = 0; i < count; i++) {
		const struct plan_trace_call *call = replay->calls[i].recorded->call;

		lines[i] = (struct line){ call->key->collective, call->block,
			recorded_us(&replay->calls[i]), times_ns[i] / 1e3 };
	}
	qsort(lines, (size_t)count, sizeof(*lines), compare_lines);
	printf("# %d calls of %d ranks, as recorded, and as measured here\n", count,
		program->ranks);
	if (left_out)
		printf("# %d left out: of other comms, and those of which steps were dropped\n",
			left_out);
	printf("#\n# %-14s %12s %8s %14s %14s\n# %-14s %12s %8s %14s %14s\n", "collective", "block",
		"calls", "recorded", "measured", "", "(B)", "", "(us a call)", "(us a call)");
	for (int first = 0, end; first < count; first = end) {
		for (end = first + 1; end < count && !compare_lines(&lines[first], &lines[end]);)
			end++;
		print_row(&lines[first], end - first);
	}
	printf("# From the first begin to the last end: recorded %.2f us, measured %.2f us\n",
		(double)program->measured_ns / 1e3, times_ns[count] / 1e3);
}

/* ---- Together ------------------------------------------------------------------------------- */

static int run_and_print(struct player *player)
{
	const struct replay *replay = player->replay;
	struct line *lines = calloc((size_t)replay->call_count + 1, sizeof(*lines));
	int err = RONDO_MEMORY;

	player->send = bench_memory_create(replay->send_size);
	player->recv = bench_memory_create(replay->recv_size);
	player->times_ns = calloc((size_t)replay->call_count + 1, sizeof(*player->times_ns));
	if (lines && player->send && player->recv && player->times_ns)
		err = run_calls(player);
	if (!err && player->rank == 0)
		print_table(replay, player->times_ns, lines);
	bench_memory_destroy(player->send);
	bench_memory_destroy(player->recv);
	free(player->times_ns);
	free(lines);
	return err ? bench_report_failure(player->rank, "replay", err) : 0;
}

static int run_rank(rondo_comm *comm, void *argument)
{
	const struct replay *replay = argument;
	int ranks = rondo_comm_size(comm), recorded = replay->program.ranks;
	struct player player = { .replay = replay, .comm = comm, .rank = rondo_comm_rank(comm) };

	if (ranks == recorded)
		return run_and_print(&player);
	if (player.rank == 0)
		fprintf(stderr,
			"rondo-bench: the calls of %s are of %d ranks, and this job has %d: give "
			"--ranks %d, or start as many\n",
			replay->options->trace, recorded, ranks, recorded);
	return 1;
}

int bench_replay_run(const struct bench_options *options)
{
	struct replay replay = { .options = options };
	struct plan_trace *trace;
	int status = 1, err = plan_trace_read(&trace, options->trace);

	if (!err)
		err = plan_program_make(&replay.program, trace);
	if (err)
		fprintf(stderr, "rondo-bench: %s\n", rondo_last_error());
	else
		status = !has_all_ranks(&replay) || make_calls(&replay) ||
			 bench_world_run(options, run_rank, &replay);
	plan_program_finish(&replay.program);
	plan_trace_destroy(trace);
	free(replay.calls);
	return status;
}
