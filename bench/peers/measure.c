/*
 * Usage: PROGRAM LINE_FILE BATCHES COLLECTIVES SIZES TOUCH GAP WALK SLEEP
 * LINE_FILE: an empty file that all ranks can map; COLLECTIVES and SIZES: lists with commas; the
 * other four: struct bench_between as numbers, 0 for none.
 */
#include "measure.h"

#include <fcntl.h>
#include <math.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "bench/between.h"
#include "bench/machine/line.h"
#include "bench/machine/pair.h"
#include "bench/memory.h"
#include "bench/percentile.h"
#include "pace.h"

#define BATCH_NS 2e6
#define WARMUP 4
#define TRIES 4
/* The length of a batch of calls that are measured one by one, and their number. */
#define PREPARED_NS 5e7
#define PREPARED_LEAST 8
#define PREPARED_MOST 400
#define LINE_ROUNDS 200
#define NAP_NS 100000
#define PATIENCE_NS 10000000000

/* The line file: of ranks 0 and 1 for round trips of a line, and of all for common starts. */
struct table {
	struct bench_line line;
	_Atomic double pace_ns; /* the pace of rank 1's core; 0: not measured yet */
	_Atomic unsigned games; /* finished */
	struct bench_meeting meeting;
};

/* The state of the machine, on rank 0. */
struct machine {
	double line_ns; /* a cache line between the two cores, there and back */
	double pace_ns; /* the mean of both cores (pace.h) */
};

/* A call in a batch, in us. */
struct times {
	double time_us; /* the mean, or the median of calls measured one by one */
	double p90_us; /* NAN: they are not */
};

struct run {
	const struct peers_library *library;
	enum peers_collective collective;
	float *send, *recv;
	size_t count;
	struct table *table;
	unsigned games; /* that this rank has seen to the end */
	struct bench_between between;
	struct bench_start start;
};

static const char *const names[PEERS_COLLECTIVES] = { "all_reduce", "reduce_scatter", "all_gather",
	"broadcast", "alltoall" };

static bool send_has_blocks(enum peers_collective collective)
{
	return collective == PEERS_REDUCE_SCATTER || collective == PEERS_ALL_TO_ALL;
}

static bool recv_has_blocks(enum peers_collective collective)
{
	return collective == PEERS_ALL_GATHER || collective == PEERS_ALL_TO_ALL;
}

static size_t blocks(const struct run *run, bool several)
{
	return several ? run->count * (size_t)run->library->size : run->count;
}

/* ---- The machine ---- */

static bool sleep_through_game(struct run *run)
{
	struct timespec nap = { .tv_nsec = NAP_NS };
	int64_t deadline = rd_clock_ns() + PATIENCE_NS;

	while (atomic_load(&run->table->games) < run->games) {
		if (rd_clock_ns() > deadline)
			return false;
		nanosleep(&nap, NULL);
	}
	return true;
}

/* Both cores at once, since each may slow down the other. On rank 0: the mean; NAN when the other
   did not come. */
static double measure_pace(struct table *table, int rank)
{
	int64_t deadline = rd_clock_ns() + PATIENCE_NS;
	double pace_ns = peers_pace_ns(), other_ns = 0;

	if (rank == 1) {
		atomic_store(&table->pace_ns, pace_ns);
		return pace_ns;
	}
	while ((other_ns = atomic_exchange(&table->pace_ns, 0)) == 0)
		if (rd_clock_ns() > deadline)
			return NAN;
	return (pace_ns + other_ns) / 2;
}

/* Ranks 0 and 1 play, each on a core of its own. Others spin in no library meanwhile. */
static struct machine measure_machine(struct run *run)
{
	int rank = run->library->rank, processors[2];
	struct machine machine = { NAN, NAN };
	cpu_set_t before;

	run->games++;
	if (rank < 2) {
		sched_getaffinity(0, sizeof(before), &before);
		bench_pair_processors(processors);
		/* Ranks that already are bound each to a core of its own stay there. */
		if (CPU_COUNT(&before) > 1)
			bench_pair_pin(processors[rank]);
		machine.line_ns = bench_line_ping_pong(&run->table->line, rank, LINE_ROUNDS);
		machine.pace_ns = measure_pace(run->table, rank);
		sched_setaffinity(0, sizeof(before), &before);
		if (rank == 0)
			atomic_store(&run->table->games, run->games);
	}
	if (!sleep_through_game(run)) {
		fprintf(stderr, "rank %d waited in vain for ranks 0 and 1\n", rank);
		exit(1);
	}
	return machine;
}

static struct table *map_table(const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	void *table = MAP_FAILED;

	/* Every rank sets the same size; new bytes are zeros. */
	if (fd >= 0 && ftruncate(fd, sizeof(struct table)) == 0)
		table = mmap(NULL, sizeof(struct table), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (fd >= 0)
		close(fd);
	return table == MAP_FAILED ? NULL : table;
}

/* ---- Measuring ---- */

static void call(const struct run *run)
{
	run->library->run(run->collective, run->send, run->recv, run->count);
}

/* From the first rank's start to the last one's end. A rank that shares its processor may leave the
   barrier when a root has finished all calls. */
static double batch_ns(const struct run *run, long iterations)
{
	double before, end;

	run->library->barrier();
	before = -(double)rd_clock_ns();
	for (long i = 0; i < iterations; i++)
		call(run);
	end = (double)rd_clock_ns();
	run->library->greatest(&before);
	run->library->greatest(&end);
	return end + before;
}

static struct bench_touched touched(const struct run *run)
{
	bool in_place = run->collective == PEERS_BROADCAST;
	size_t sent = blocks(run, send_has_blocks(run->collective)) * sizeof(float);
	size_t received = blocks(run, recv_has_blocks(run->collective)) * sizeof(float);

	return (struct bench_touched){
		.input = in_place ? run->recv : run->send,
		.output = run->recv,
		.input_size = in_place && run->library->rank != 0 ? 0 : sent,
		.output_size = received,
	};
}

/* Calls one by one, each from the latest start to the latest end, sorted. The ranks exchange the
   moments when all calls are over, so that no other call of the library comes between. */
static void call_prepared(struct run *run, double *each_ns, double *starts, long calls)
{
	const struct bench_touched memory = touched(run);

	for (long i = 0; i < calls; i++) {
		starts[i] = (double)bench_start_await(&run->start, &memory);
		if (starts[i] < 0) {
			fprintf(stderr, "rank %d waited in vain for a start\n", run->library->rank);
			exit(1);
		}
		call(run);
		each_ns[i] = (double)rd_clock_ns();
		bench_start_read(&run->start, &memory);
	}
	for (long i = 0; i < calls; i++) {
		run->library->greatest(&starts[i]);
		run->library->greatest(&each_ns[i]);
		each_ns[i] -= starts[i];
	}
	bench_sort(each_ns, (size_t)calls);
}

/* The same number on every rank. */
static long choose_prepared(struct run *run)
{
	double each_ns[PREPARED_LEAST], starts[PREPARED_LEAST];
	int64_t begin = rd_clock_ns();

	call_prepared(run, each_ns, starts, PREPARED_LEAST);
	double elapsed = (double)(rd_clock_ns() - begin) / PREPARED_LEAST;
	run->library->greatest(&elapsed);
	return (long)fmin(fmax(PREPARED_NS / elapsed, PREPARED_LEAST), PREPARED_MOST);
}

static struct times prepared_batch(struct run *run, long calls)
{
	double each_ns[PREPARED_MOST], starts[PREPARED_MOST];

	call_prepared(run, each_ns, starts, calls);
	return (struct times){ bench_percentile(each_ns, (size_t)calls, 50) / 1e3,
		bench_percentile(each_ns, (size_t)calls, 90) / 1e3 };
}

/* Each element of rank k's input; small, so that sums are exact. */
static float sent_by(int rank)
{
	return (float)(rank + 1);
}

static float expected(const struct run *run, size_t i)
{
	int size = run->library->size;

	if (run->collective == PEERS_BROADCAST)
		return sent_by(0);
	if (recv_has_blocks(run->collective))
		return sent_by((int)(i / run->count));
	return (float)(size * (size + 1) / 2);
}

static bool right(const struct run *run)
{
	size_t count = blocks(run, recv_has_blocks(run->collective));

	for (size_t i = 0; i < count; i++) {
		if (run->recv[i] != expected(run, i))
			return false;
	}
	return true;
}

static void fill(const struct run *run)
{
	size_t sent = blocks(run, send_has_blocks(run->collective));
	size_t received = blocks(run, recv_has_blocks(run->collective));

	for (size_t i = 0; i < sent; i++)
		run->send[i] = sent_by(run->library->rank);
	for (size_t i = 0; i < received; i++)
		run->recv[i] = run->collective == PEERS_BROADCAST ? sent_by(run->library->rank) : 0;
}

static void report(const struct run *run, size_t size, struct machine before, struct times times,
	struct machine after)
{
	if (run->library->rank != 0)
		return;
	printf("%s %zu %.1f %.1f %.4f %.1f %.1f %.4f\n", names[run->collective], size,
		before.line_ns, before.pace_ns, times.time_us, after.line_ns, after.pace_ns,
		times.p90_us);
	fflush(stdout);
}

/* The quickest of a few batches: where ranks share cores, one call may wait for milliseconds, and
   would count as a long one. */
static double quickest_ns(const struct run *run, long iterations)
{
	double quickest = batch_ns(run, iterations);

	for (int i = 1; i < TRIES; i++)
		quickest = fmin(quickest, batch_ns(run, iterations));
	return quickest;
}

/* The number of calls that fill a batch, the same on every rank. */
static long choose_iterations(const struct run *run)
{
	long iterations = 1;
	double elapsed = quickest_ns(run, iterations);

	/* A few calls predict many badly: approach in steps. */
	while (elapsed < BATCH_NS / 2 && iterations < 1000000) {
		iterations = (long)fmin(fmax((double)iterations * BATCH_NS / fmax(elapsed, 1),
						2 * (double)iterations),
			32 * (double)iterations);
		elapsed = quickest_ns(run, iterations);
	}
	return iterations;
}

static struct times batch(struct run *run, long iterations)
{
	if (bench_between_any(&run->between))
		return prepared_batch(run, iterations);
	return (struct times){ batch_ns(run, iterations) / (double)iterations / 1e3, NAN };
}

static int measure_size(struct run *run, size_t size, int batches)
{
	for (int i = 0; i < WARMUP; i++)
		call(run);
	long iterations =
		bench_between_any(&run->between) ? choose_prepared(run) : choose_iterations(run);
	struct machine before = measure_machine(run);
	for (int i = 0; i < batches; i++) {
		struct times times = batch(run, iterations);
		struct machine after = measure_machine(run);
		report(run, size, before, times, after);
		before = after;
	}
	if (right(run))
		return 0;
	fprintf(stderr, "rank %d: %s of %zu bytes: wrong result\n", run->library->rank,
		names[run->collective], size);
	return 3;
}

static int measure_point(struct run *run, size_t size, int batches)
{
	const struct peers_library *library = run->library;
	bool whole = !send_has_blocks(run->collective) && !recv_has_blocks(run->collective);
	void *(*allocate)(size_t) = library->allocate ? library->allocate : bench_memory_create;
	void (*release)(void *) = library->release ? library->release : bench_memory_destroy;
	int status = 1;

	run->count = size / sizeof(float) / (whole ? 1 : (size_t)library->size);
	if (run->count == 0 || (library->most && size > library->most))
		return 0;
	run->send = allocate(size);
	run->recv = allocate(size);
	if (run->send && run->recv) {
		fill(run);
		if (library->prepare)
			library->prepare(run->collective, run->send, run->recv, run->count);
		status = measure_size(run, size, batches);
	}
	release(run->send);
	release(run->recv);
	return status;
}

static bool listed(const char *list, const char *name)
{
	size_t length = strlen(name);

	for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
		if (strncmp(at, name, length) == 0 && (at[length] == ',' || at[length] == '\0'))
			return true;
	}
	return false;
}

static int measure_sizes(struct run *run, const char *sizes, int batches)
{
	int status = 0;

	while (*sizes && !status) {
		char *end;
		size_t size = strtoull(sizes, &end, 10);
		status = measure_point(run, size, batches);
		sizes = *end == ',' ? end + 1 : "";
	}
	return status;
}

/* Two ranks get a processor each, in every program alike that works in its ranks' own threads. */
static void settle(const struct peers_library *library)
{
	cpu_set_t set;
	int processors[2];

	bench_pair_processors(processors);
	sched_getaffinity(0, sizeof(set), &set);
	if (library->size == 2 && !library->has_threads && CPU_COUNT(&set) >= 2)
		bench_pair_pin(processors[library->rank]);
}

int peers_measure(const struct peers_library *library, int argc, char **argv)
{
	struct run run = { .library = library };
	int batches = argc == 9 ? atoi(argv[2]) : 0, status = 0;

	if (batches < 1) {
		fprintf(stderr,
			"usage: %s LINE_FILE BATCHES COLLECTIVES SIZES TOUCH GAP WALK SLEEP\n",
			argv[0]);
		return 2;
	}
	run.between = (struct bench_between){ atoi(argv[5]), atoi(argv[8]), atoll(argv[6]),
		strtoull(argv[7], NULL, 10) };
	run.table = map_table(argv[1]);
	if (!run.table) {
		fprintf(stderr, "cannot map %s\n", argv[1]);
		return 1;
	}
	if (!bench_start_init(&run.start, &run.between, &run.table->meeting, library->size)) {
		fprintf(stderr, "no memory for %s bytes\n", argv[7]);
		return 1;
	}
	settle(library);
	for (int i = 0; i < PEERS_COLLECTIVES && !status; i++) {
		run.collective = (enum peers_collective)i;
		if (listed(argv[3], names[i]) && (!library->has || library->has(run.collective)))
			status = measure_sizes(&run, argv[4], batches);
	}
	bench_start_finish(&run.start);
	munmap(run.table, sizeof(*run.table));
	return status;
}
