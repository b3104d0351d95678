/* rondo-bench: times collectives as nccl-tests does, and measures the machine's floor. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/host_name.h"
#include "bench/agree.h"
#include "bench/explain.h"
#include "bench/files.h"
#include "bench/measure.h"
#include "bench/meeting.h"
#include "bench/memory.h"
#include "bench/mirror.h"
#include "bench/results.h"
#include "bench/runs.h"
#include "bench/world.h"
#include "printed.h"

#define DEVICE_LINE 160

struct bench {
	const struct bench_options *options;
	char **argv;
};

/* ---- One rank ---- */

struct rank {
	const struct bench_options *options;
	rondo_comm *comm;
	rondo_stream *stream;
	void *send, *recv;
	struct bench_mirror mirror; /* --device */
	struct bench_meeting *meeting; /* of prepared calls; else NULL */
	struct bench_start start;
	struct bench_files files; /* on rank 0 */
	bool prints;
	struct bench_results results;
};

static int run_size(struct rank *rank, rondo_type type, rondo_op op, int root, size_t size)
{
	const struct bench_collective *collective = rank->options->collective;
	int ranks = rondo_comm_size(rank->comm);
	size_t count = bench_collective_count(collective, size, type, ranks);
	size_t sent = bench_collective_send_count(collective, count, ranks);
	size_t received = bench_collective_recv_count(collective, count, ranks);
	struct bench_row row = {
		.collective = collective,
		.size = (sent > received ? sent : received) * rondo_type_size(type),
		.count = count,
		.type = type,
		.op = op,
		.root = root,
	};
	int err = bench_measure(rank->options, rank->comm, rank->stream, rank->send, rank->recv,
		rank->options->device ? &rank->mirror : NULL, rank->meeting ? &rank->start : NULL,
		&row);

	if (!err)
		err = bench_explain_choice(rank->options, rank->comm, &row);
	if (err)
		return err;
	if (rank->prints)
		bench_table_row(stdout, rank->options, &row);
	if (rank->prints && rank->options->explains) {
		err = bench_explain_print(
			stdout, rank->options, rank->comm, count, type, row.out_of_place.time_us);
		if (err)
			return err;
	}
	return bench_results_add(&rank->results, &row);
}

static int run_sizes(struct rank *rank, rondo_type type, rondo_op op, int root)
{
	size_t size = rank->options->least;
	int err;

	do {
		err = run_size(rank, type, op, root, size);
		size = bench_size_next(rank->options, type, size);
	} while (!err && size);
	return err;
}

static int run_roots(struct rank *rank, rondo_type type, rondo_op op)
{
	const struct bench_options *options = rank->options;
	int first = options->every_root ? 0 : options->root;
	int last = options->every_root ? rondo_comm_size(rank->comm) - 1 : options->root, err = 0;

	if (!options->collective->rooted)
		return run_sizes(rank, type, op, -1);
	for (int root = first; root <= last && !err; root++)
		err = run_sizes(rank, type, op, root);
	return err;
}

static int run_all(struct rank *rank)
{
	const struct bench_options *options = rank->options;
	bool types = options->every_type && options->collective->shape != BENCH_EMPTY;
	bool ops = options->every_op && options->collective->reduces;
	int err = 0;

	for (int type = 0; type < RONDO_TYPE_COUNT && !err; type++) {
		if (!types && type != (int)options->type)
			continue;
		for (int op = 0; op < RONDO_OP_COUNT && !err; op++) {
			if ((ops || op == (int)options->op) &&
				(!options->collective->reduces || rondo_op_applies(op, type)))
				err = run_roots(rank, type, op);
		}
	}
	return err;
}

/* On rank 0: every rank's line under "Using devices". The caller frees it. */
static int gather_devices(const struct bench_options *options, rondo_comm *comm, char **devices)
{
	int ranks = rondo_comm_size(comm);
	char line[DEVICE_LINE] = "", host[RD_HOST_NAME_SIZE];
	char *lines = calloc((size_t)ranks, DEVICE_LINE);

	if (!lines)
		return RONDO_MEMORY;
	rd_host_name(host);
	snprintf(line, sizeof(line),
		"#  Rank %2d Group  0 Pid %6d on %10s device %2d [%s memory]\n",
		rondo_comm_rank(comm), (int)getpid(), host,
		options->device ? rondo_comm_rank(comm) % rondo_device_count() : 0,
		options->device ? "GPU" : "host");
	int err = bench_collect(comm, line, lines, DEVICE_LINE);
	/* Joins the lines: zeros follow each one. */
	char *end = lines;
	for (int i = 0; i < ranks; i++) {
		size_t length = strnlen(lines + (size_t)i * DEVICE_LINE, DEVICE_LINE - 1);
		memmove(end, lines + (size_t)i * DEVICE_LINE, length);
		end += length;
	}
	*end = '\0';
	*devices = lines;
	return err;
}

/* Opens the files on rank 0; all ranks return its result. */
static bool open_files(struct rank *rank)
{
	double opened = !rank->prints || bench_files_open(&rank->files, rank->options);
	int err = bench_agree_on_first(rank->comm, &opened, 1);

	if (err)
		bench_report_failure(rondo_comm_rank(rank->comm), "starting", err);
	return !err && opened > 0;
}

static int conclude(const struct bench *bench, struct rank *rank)
{
	const struct bench_results *results = &rank->results;
	bool written = true;

	if (rank->prints) {
		bench_table_foot(stdout, results);
		written = bench_files_write(&rank->files, rank->options, bench->argv,
			rondo_comm_size(rank->comm), results);
	}
	return results->bad || !written;
}

static int measure_all(struct rank *rank)
{
	char *devices = NULL;
	int err = 0;

	if (rank->options->explains && rank->prints)
		err = bench_explain_costs(stdout, rank->comm);
	if (!err && rank->options->sweep)
		return bench_compare_run(stdout, rank->options, rank->comm, rank->send, rank->recv);
	if (!err)
		err = gather_devices(rank->options, rank->comm, &devices);

	if (!err && rank->prints)
		bench_table_head(stdout, rank->options, devices);
	free(devices);
	return err ? err : run_all(rank);
}

/* The number of ranks is known only now. */
static bool has_root(const struct rank *rank)
{
	const struct bench_options *options = rank->options;
	int ranks = rondo_comm_size(rank->comm);

	if (!options->collective->rooted || options->every_root || options->root < ranks)
		return true;
	if (rank->prints)
		fprintf(stderr, "rondo-bench: --root %d is no rank: give a number from 0 to %d\n",
			options->root, ranks - 1);
	return false;
}

static void *create_buffer(const struct bench_options *options)
{
	void *memory = NULL;

	if (!options->registered)
		return bench_memory_create(options->most);
	if (rondo_mem_alloc(&memory, options->most ? options->most : 1) == 0)
		memset(memory, 1, options->most);
	return memory;
}

static void destroy_buffer(const struct bench_options *options, void *memory)
{
	if (options->registered)
		rondo_mem_free(memory);
	else
		bench_memory_destroy(memory);
}

/* Whether all ranks share a clock is known only now. */
static bool open_meeting(struct rank *rank)
{
	const struct bench_between *between = &rank->options->between;
	int err, ranks = rondo_comm_size(rank->comm);

	if (!bench_between_any(between))
		return true;
	err = bench_meeting_open(rank->comm, &rank->meeting);
	if (!err && rank->meeting && !bench_start_init(&rank->start, between, rank->meeting, ranks))
		err = RONDO_MEMORY;
	if (err)
		bench_report_failure(rondo_comm_rank(rank->comm), "starting", err);
	else if (!rank->meeting && rank->prints)
		fprintf(stderr, "rondo-bench: --touch, --gap, --walk and --sleep start the ranks "
				"by one clock: run all of them on one host, with one /proc\n");
	return !err && rank->meeting;
}

static int run_rank(rondo_comm *comm, void *argument)
{
	const struct bench *bench = argument;
	const struct bench_options *options = bench->options;
	struct rank rank = {
		.options = options, .comm = comm, .prints = rondo_comm_rank(comm) == 0
	};
	int device = options->device ? rondo_comm_rank(comm) % rondo_device_count() : 0;
	int err = 0, status = 1;

	if (!has_root(&rank) || !open_files(&rank) || !open_meeting(&rank)) {
		bench_meeting_close(rank.meeting);
		bench_files_close(&rank.files);
		return 1;
	}
	rank.send = create_buffer(options);
	rank.recv = create_buffer(options);
	if (!rank.send || !rank.recv)
		err = RONDO_MEMORY;
	if (!err && options->device)
		err = bench_mirror_create(
			&rank.mirror, rank.send, rank.recv, options->most, device);
	if (!err && !options->blocking)
		err = options->device ? rondo_stream_create_on(&rank.stream, device)
				      : rondo_stream_create(&rank.stream);
	if (!err)
		err = measure_all(&rank);
	/* All ranks alike find that a call cannot be captured. */
	if (err && (!options->launches || err != RONDO_UNSUPPORTED || rank.prints))
		bench_report_failure(rondo_comm_rank(comm), options->collective->name, err);
	else if (!err)
		status = options->sweep ? 0 : conclude(bench, &rank);
	rondo_stream_destroy(rank.stream);
	bench_mirror_destroy(&rank.mirror);
	destroy_buffer(options, rank.send);
	destroy_buffer(options, rank.recv);
	if (rank.meeting)
		bench_start_finish(&rank.start);
	bench_meeting_close(rank.meeting);
	bench_files_close(&rank.files);
	bench_results_finish(&rank.results);
	return status;
}

int main(int argc, char **argv)
{
	struct bench_options options;
	struct bench bench = { &options, argv };

	rd_stderr_fill();
	if (!bench_options_read(&options, argc, argv))
		return 2;
	/* Ranks that are threads wait for each other on their streams: each stream needs a queue.
	 */
	setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
	if (options.floor)
		return bench_floor_run(&options) || !printed_all("rondo-bench");
	if (options.init)
		return bench_init_run(&options);
	if (options.trace)
		return bench_replay_run(&options);
	return bench_world_run(&options, run_rank, &bench);
}
