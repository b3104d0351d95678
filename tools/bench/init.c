#include "runs.h"

#include <dirent.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/descriptor.h"
#include "memory.h"
#include "percentile.h"
#include "plot.h"
#include "printed.h"
#include "world.h"

#define LARGE (1u << 20)
#define DUPLICATES 50 /* that live at once and count, beside the first */
/* Growth is fitted from here on: below, what a comm costs whatever its size hides it. */
#define FIT_FROM 16
#define FIT_LEAST 3 /* rows */

/* Measured and printed in this order. */
enum {
	CREATE_MS,
	DESTROY_MS,
	DUPLICATE_MS,
	MADE_0,
	MADE,
	USED_0,
	USED,
	DUPLICATE_0,
	DUPLICATE,
	COLUMNS
};

static const char *const names[COLUMNS] = { "creation", "destruction", "duplication",
	"memory of rank 0", "memory of another", "memory of rank 0 after calls",
	"memory of another after calls", "a duplicate's memory of rank 0",
	"a duplicate's memory of another" };

/* In memory that the ranks share. Times are of the slowest rank. */
struct shared {
	pthread_barrier_t all;
	_Atomic int64_t create_ns, destroy_ns; /* of this round */
	_Atomic int64_t duplicate_ns; /* of this duplicate */
	/* Bytes: of rank 0, and the most of the others; of all duplicates. */
	_Atomic int64_t made[2], used[2], duplicated[2];
	_Atomic int64_t descriptors; /* the most of a rank, of all duplicates */
	double duplicate_ms[1 + DUPLICATES];
	double times_ms[]; /* [2 * rounds]: to create, then to destroy */
};

struct trial {
	const struct bench_options *options;
	struct shared *shared;
	void *send, *recv;
	int64_t idle; /* bytes */
};

/* ---- One rank ------------------------------------------------------------------------------ */

/* The proportional set size of this process in bytes. Without mappings of files, whose share
   depends on the number of processes that run the program. */
static int64_t memory_now(void)
{
	FILE *file = fopen("/proc/self/smaps_rollup", "re");
	char line[256];
	int64_t kib = 0;
	long part;

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "Pss_Anon: %ld kB", &part) == 1 ||
			sscanf(line, "Pss_Shmem: %ld kB", &part) == 1)
			kib += part;
	if (file)
		fclose(file);
	return kib * 1024;
}

static void await_all(const struct trial *trial)
{
	pthread_barrier_wait(&trial->shared->all);
}

static void keep_most(_Atomic int64_t *most, int64_t value)
{
	int64_t seen = atomic_load(most);

	while (value > seen && !atomic_compare_exchange_weak(most, &seen, value))
		;
}

/* A doubling, a tree, and a ring where the library chooses one for this size. */
static int call_all(const struct trial *trial, rondo_comm *comm, size_t count)
{
	int err =
		rondo_all_reduce(comm, trial->send, trial->recv, count, RONDO_F32, RONDO_SUM, NULL);

	if (!err)
		err = rondo_broadcast(comm, trial->send, trial->recv, count, RONDO_F32, 0, NULL);
	return err ? err : rondo_barrier(comm, NULL);
}

/* No rank goes on while another measures the memory that they share. */
static int weigh(const struct trial *trial, rondo_comm *comm)
{
	int which = rondo_comm_rank(comm) > 0, err;

	keep_most(&trial->shared->made[which], memory_now() - trial->idle);
	await_all(trial);
	err = call_all(trial, comm, 2);
	if (!err)
		err = call_all(trial, comm, LARGE / sizeof(float));
	await_all(trial);
	if (!err)
		keep_most(&trial->shared->used[which], memory_now() - trial->idle);
	await_all(trial);
	return err;
}

static int count_descriptors(void)
{
	DIR *all = opendir("/proc/self/fd");
	int count = 0;

	while (all && readdir(all))
		count++;
	if (all)
		closedir(all);
	return count;
}

static int make_duplicate(
	const struct trial *trial, rondo_comm *comm, int number, rondo_comm **made)
{
	struct shared *shared = trial->shared;
	int64_t began;
	int err;

	await_all(trial);
	began = rd_clock_ns();
	err = rondo_comm_duplicate(comm, made);
	keep_most(&shared->duplicate_ns, rd_clock_ns() - began);
	if (err)
		return err;
	await_all(trial);
	if (rondo_comm_rank(comm) == 0)
		shared->duplicate_ms[number] =
			(double)atomic_exchange(&shared->duplicate_ns, 0) / 1e6;
	return 0;
}

/* Further communicators, before their first call. The first has connections made, for all. */
static int duplicate(const struct trial *trial, rondo_comm *comm)
{
	int64_t memory = 0, descriptors = 0;
	rondo_comm *made[1 + DUPLICATES];
	int count = 0, err = 0;

	while (count <= DUPLICATES && !err) {
		err = make_duplicate(trial, comm, count, &made[count]);
		count += !err;
		if (count > 1)
			continue;
		memory = memory_now();
		descriptors = count_descriptors();
	}
	keep_most(&trial->shared->duplicated[rondo_comm_rank(comm) > 0], memory_now() - memory);
	keep_most(&trial->shared->descriptors, count_descriptors() - descriptors);
	if (!err)
		await_all(trial);
	while (count > 0 && !err)
		err = rondo_comm_destroy(made[--count]);
	return err;
}

static int run_round(const struct trial *trial, int round)
{
	struct rondo_config config = RONDO_CONFIG_INIT;
	struct shared *shared = trial->shared;
	rondo_comm *comm;
	int64_t began;
	int err, rank;

	config.transport = trial->options->transport;
	await_all(trial);
	began = rd_clock_ns();
	err = rondo_comm_create(&comm, &config);
	keep_most(&shared->create_ns, rd_clock_ns() - began);
	if (err)
		return err;
	await_all(trial);
	rank = rondo_comm_rank(comm);
	if (round == 0)
		err = weigh(trial, comm);
	if (round == 0 && !err)
		err = duplicate(trial, comm);
	began = rd_clock_ns();
	if (!err)
		err = rondo_comm_destroy(comm);
	keep_most(&shared->destroy_ns, rd_clock_ns() - began);
	await_all(trial);
	if (rank == 0) {
		shared->times_ms[2 * round] = (double)atomic_exchange(&shared->create_ns, 0) / 1e6;
		shared->times_ms[2 * round + 1] =
			(double)atomic_exchange(&shared->destroy_ns, 0) / 1e6;
	}
	return err;
}

/* A rank that fails ends, and rondo_spawn() ends those that wait for it. */
static int run_rank(void *argument)
{
	struct trial *trial = argument;
	struct rondo_launch launch;
	int err = rondo_get_launch(&launch);

	trial->send = bench_memory_create(LARGE);
	trial->recv = bench_memory_create(LARGE);
	if (!err && (!trial->send || !trial->recv))
		err = RONDO_MEMORY;
	trial->idle = memory_now();
	for (int round = 0; round < trial->options->iterations && !err; round++)
		err = run_round(trial, round);
	bench_memory_destroy(trial->send);
	bench_memory_destroy(trial->recv);
	return err ? bench_report_failure(launch.rank, "init", err) : 0;
}

/* ---- One number of ranks ------------------------------------------------------------------- */

/* The median of `count` numbers, of which each is `step` after the one before. */
static double median(const double *all, int step, int count)
{
	double *sorted = malloc((size_t)count * sizeof(*sorted)), middle = NAN;

	for (int i = 0; sorted && i < count; i++)
		sorted[i] = all[step * i];
	if (sorted) {
		bench_sort(sorted, (size_t)count);
		middle = sorted[count / 2];
	}
	free(sorted);
	return middle;
}

static int share(struct shared **shared, size_t size, int ranks)
{
	pthread_barrierattr_t among_processes;

	*shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (*shared == MAP_FAILED) {
		fprintf(stderr, "rondo-bench: no memory for %zu bytes of times\n", size);
		return 1;
	}
	pthread_barrierattr_init(&among_processes);
	pthread_barrierattr_setpshared(&among_processes, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(&(*shared)->all, &among_processes, (unsigned)ranks);
	pthread_barrierattr_destroy(&among_processes);
	return 0;
}

static int measure(
	const struct bench_options *options, int ranks, double row[COLUMNS], double *descriptors)
{
	int rounds = options->iterations, status;
	size_t size = sizeof(struct shared) + 2 * (size_t)rounds * sizeof(double);
	struct trial trial = { .options = options };

	if (share(&trial.shared, size, ranks))
		return 1;
	status = rondo_spawn(ranks, run_rank, &trial);
	if (status < 0)
		status = bench_report_failure(0, "cannot start the ranks", status);
	row[CREATE_MS] = median(trial.shared->times_ms, 2, rounds);
	row[DESTROY_MS] = median(trial.shared->times_ms + 1, 2, rounds);
	row[DUPLICATE_MS] = median(trial.shared->duplicate_ms + 1, 1, DUPLICATES);
	*descriptors = (double)trial.shared->descriptors / DUPLICATES;
	for (int which = 0; which < 2; which++) {
		row[MADE_0 + which] = (double)trial.shared->made[which] / 1024;
		row[USED_0 + which] = (double)trial.shared->used[which] / 1024;
		row[DUPLICATE_0 + which] =
			(double)trial.shared->duplicated[which] / 1024 / DUPLICATES;
	}
	munmap(trial.shared, size);
	return status;
}

/* ---- The table ----------------------------------------------------------------------------- */

static void print_head(const struct bench_options *options)
{
	printf("# rondo-bench init: the cost of a communicator, of %d round%s\n"
	       "# time in ms, median, the slowest rank; memory in KiB above an idle process: once\n"
	       "# made, and after calls of 8 B and 1 MiB; of rank 0, and the most of the others;\n"
	       "# of a duplicate, before its first call: time, its own memory, and descriptors\n",
		options->iterations, options->iterations == 1 ? "" : "s");
	printf("#\n#%35s %19s %24s\n", "once made", "after calls", "a duplicate");
	printf("#  ranks    create   destroy   rank 0   others    rank 0   others");
	printf("      time   rank 0   others     fds\n");
	fflush(stdout);
}

static void print_row(int ranks, const double row[COLUMNS], double descriptors)
{
	printf("%8d %9.2f %9.2f %8.0f %8.0f  %8.0f %8.0f %9.2f %8.1f %8.1f %7.1f\n", ranks,
		row[CREATE_MS], row[DESTROY_MS], row[MADE_0], row[MADE], row[USED_0], row[USED],
		row[DUPLICATE_MS], row[DUPLICATE_0], row[DUPLICATE], descriptors);
	fflush(stdout);
}

double bench_init_exponent(const double *x, const double *y, size_t count)
{
	double mean_x = 0, mean_y = 0, above = 0, below = 0;

	for (size_t i = 0; i < count; i++) {
		mean_x += log(x[i]) / (double)count;
		mean_y += log(y[i]) / (double)count;
	}
	for (size_t i = 0; i < count; i++) {
		above += (log(x[i]) - mean_x) * (log(y[i]) - mean_y);
		below += (log(x[i]) - mean_x) * (log(x[i]) - mean_x);
	}
	return above / below;
}

/* ranks[count], in any order; columns[COLUMNS][count]. */
static void print_growth(const double *ranks, double columns[COLUMNS][BENCH_COUNTS], size_t count)
{
	double x[BENCH_COUNTS], y[BENCH_COUNTS];
	size_t fitted = 0;

	for (size_t i = 0; i < count; i++)
		fitted += ranks[i] >= FIT_FROM;
	if (fitted < FIT_LEAST) {
		printf("# growth: needs %d numbers of ranks from %d on\n", FIT_LEAST, FIT_FROM);
		return;
	}
	printf("# growth from %d ranks on, as a power of their number:\n", FIT_FROM);
	for (int column = 0; column < COLUMNS; column++) {
		fitted = 0;
		for (size_t i = 0; i < count; i++)
			if (ranks[i] >= FIT_FROM) {
				x[fitted] = ranks[i];
				y[fitted++] = columns[column][i];
			}
		printf("#   %-30s %5.2f\n", names[column], bench_init_exponent(x, y, fitted));
	}
}

static bool draw(
	FILE *file, const double *ranks, double columns[COLUMNS][BENCH_COUNTS], size_t count)
{
	struct plot_series series[COLUMNS];
	struct plot_panel panels[] = {
		{ "Time", "ranks", "time (ms)", series, MADE_0 },
		{ "Memory", "ranks", "memory (KiB)", series + MADE_0, COLUMNS - MADE_0 },
	};
	char title[64];

	for (int i = 0; i < COLUMNS; i++)
		series[i] =
			(struct plot_series){ names[i], i, i % 2 == 1, count, ranks, columns[i] };
	snprintf(title, sizeof(title), "The cost of a communicator, rondo %s", rondo_version());
	return plot_write(file, title, panels, 2, 2);
}

static int write_svg(const struct bench_options *options, const double *ranks,
	double columns[COLUMNS][BENCH_COUNTS], size_t count)
{
	FILE *file = rd_fopen(options->svg, O_WRONLY | O_CREAT | O_TRUNC);
	bool written = file && draw(file, ranks, columns, count);

	if (file)
		written = fclose(file) == 0 && written;
	if (!written)
		fprintf(stderr, "rondo-bench: cannot write %s: %m\n", options->svg);
	return written ? 0 : 1;
}

int bench_init_run(const struct bench_options *options)
{
	static double ranks[BENCH_COUNTS], columns[COLUMNS][BENCH_COUNTS];
	size_t count = (size_t)options->count_count;
	int status = 0;

	print_head(options);
	for (size_t i = 0; i < count && !status; i++) {
		double row[COLUMNS] = { 0 }, descriptors;

		status = measure(options, options->counts[i], row, &descriptors);
		ranks[i] = options->counts[i];
		for (int column = 0; column < COLUMNS; column++)
			columns[column][i] = row[column];
		if (!status)
			print_row(options->counts[i], row, descriptors);
	}
	if (!status)
		print_growth(ranks, columns, count);
	if (!status && options->svg)
		status = write_svg(options, ranks, columns, count);
	return status || !printed_all("rondo-bench");
}
