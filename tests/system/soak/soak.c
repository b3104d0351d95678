/*
 * Worlds of ranks, one after another, that make random calls, with checks, pauses and deaths. One
 * comm lives all the time. The descriptors, threads, processes and memory of this process, in which
 * many of the ranks are threads, stay as they were.
 */
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "calls.h"
#include "control_ranks.h"
#include "free_port.h"
#include "rounds.h"
#include "transports/contract/leaks.h"

#define PROGRESS_MS 10000
#define DEFAULT_MINUTES 10
/* Rounds before memory counts: caches, and the C library's own, have filled. */
#define WARM_ROUNDS 20
/* Bytes that may be in use beside those of then. */
#define SLACK ((size_t)512 << 10)

/* ---- The comm that lives all the time ------------------------------------------------------ */

#define STANDING 3

struct standing {
	struct world world;
	struct rank_env envs[STANDING];
	char texts[STANDING][WORLD_TEXT];
	uint64_t numbers[STANDING];
	int errors[STANDING];
	int port;
	uint64_t seed;
	struct draw from;
	_Atomic int made;
};

/* Runs it in a thread for each rank, and waits for them. */
static int in_threads(struct standing *standing, void *(*run)(void *env))
{
	pthread_t threads[STANDING];
	int wrong = 0;

	for (int i = 0; i < STANDING; i++) {
		standing->errors[i] = 0;
		if (pthread_create(&threads[i], NULL, run, &standing->envs[i])) {
			fprintf(stderr, "soak: no thread\n");
			exit(1);
		}
	}
	for (int i = 0; i < STANDING; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < STANDING; i++) {
		if (!standing->errors[i])
			continue;
		fprintf(stderr, "soak: rank %d of the comm that lives all the time: %s\n", i,
			standing->texts[i]);
		wrong = 1;
	}
	return wrong;
}

static void keep(struct rank_env *env, int err)
{
	struct standing *standing = env->argument;

	standing->errors[env->rank] = err;
	if (err < 0)
		world_report(env, "%s: %s", rondo_error_name(err), rondo_last_error());
}

/* A rank that is the first of a part for the first time gets two descriptors, which stay. */
static int be_first(const struct rank_env *env)
{
	int err = 0;

	for (int first = 0; first < STANDING && !err; first++) {
		int key = (env->rank - first + STANDING) % STANDING;
		rondo_comm *part;

		err = rondo_comm_split(env->comm, 0, key, &part);
		if (err)
			return err;
		err = rondo_comm_finalize(part);
		rondo_comm_destroy(part);
	}
	return err;
}

static void *create_rank(void *argument)
{
	struct rank_env *env = argument;
	struct standing *standing = env->argument;
	struct rondo_config config = world_config(env->rank, STANDING, standing->port);

	int err = rondo_comm_create(&env->comm, &config);

	keep(env, err ? err : be_first(env));
	return NULL;
}

static void *use_rank(void *argument)
{
	struct rank_env *env = argument;
	struct standing *standing = env->argument;

	keep(env, calls_make(env, env->comm, standing->from, 10, &standing->made));
	return NULL;
}

static void *destroy_rank(void *argument)
{
	struct rank_env *env = argument;

	keep(env, rondo_comm_destroy(env->comm));
	return NULL;
}

static int standing_create(struct standing *standing, uint64_t seed)
{
	*standing = (struct standing){
		.world = { .size = STANDING, .threads = true }, .port = free_port(), .seed = seed
	};
	for (int i = 0; i < STANDING; i++)
		standing->envs[i] = (struct rank_env){ .world = &standing->world,
			.rank = i,
			.size = STANDING,
			.argument = standing,
			.text = standing->texts[i],
			.number = &standing->numbers[i] };
	return in_threads(standing, create_rank);
}

static int standing_use(struct standing *standing, uint64_t round)
{
	standing->from = draw_from(standing->seed, round);
	return in_threads(standing, use_rank);
}

/* ---- Flatness ------------------------------------------------------------------------------ */

struct footprint {
	int files, threads;
	size_t bytes; /* of malloc() */
};

static struct footprint footprint_now(void)
{
	return (struct footprint){ contract_open_files(), count_threads(), mallinfo2().uordblks };
}

static int footprint_check(const struct footprint *before)
{
	struct footprint now = footprint_now();
	bool child = waitpid(-1, NULL, WNOHANG) != -1;

	if (now.files == before->files && now.threads == before->threads && !child &&
		now.bytes <= before->bytes + SLACK)
		return 0;
	fprintf(stderr,
		"soak: %d descriptors, %d threads and %zu bytes are in use, and were %d, %d and "
		"%zu%s\n",
		now.files, now.threads, now.bytes, before->files, before->threads, before->bytes,
		child ? "; a process is left" : "");
	return 1;
}

/* ---- The program --------------------------------------------------------------------------- */

struct options {
	uint64_t seed;
	double minutes; /* 0: no bound */
	uint64_t first, rounds; /* rounds 0: no bound */
};

static void say_progress(uint64_t rounds, int64_t ms, const struct round_counts *counts)
{
	struct footprint now = footprint_now();

	printf("soak: %.1f min: %llu rounds, %ld calls, %ld deaths, %ld pauses; %d descriptors, "
	       "%.1f MiB\n",
		(double)ms / 60000, (unsigned long long)rounds, counts->calls, counts->deaths,
		counts->pauses, now.files, (double)now.bytes / (1 << 20));
	fflush(stdout);
}

static int run(const struct options *options)
{
	int64_t begin = world_now_ms(), said = begin, ms = 0;
	struct round_counts counts = { 0, 0, 0 };
	struct footprint before = footprint_now();
	static struct standing standing;
	uint64_t done = 0;
	int wrong = standing_create(&standing, options->seed);

	while (!wrong && (!options->rounds || done < options->rounds) &&
		(options->minutes == 0 || (double)ms < options->minutes * 60000)) {
		wrong = round_run(options->seed, options->first + done, &counts) ||
			standing_use(&standing, options->first + done);
		if (done++ == WARM_ROUNDS)
			before = footprint_now();
		if (!wrong && done > WARM_ROUNDS)
			wrong = footprint_check(&before);
		ms = world_now_ms() - begin;
		if (world_now_ms() - said > PROGRESS_MS) {
			said = world_now_ms();
			say_progress(done, ms, &counts);
		}
	}
	say_progress(done, ms, &counts);
	if (!wrong)
		wrong = in_threads(&standing, destroy_rank);
	if (wrong)
		fprintf(stderr,
			"soak: failed; to repeat it: ./rondo soak --seed %llu --round %llu\n",
			(unsigned long long)options->seed,
			(unsigned long long)(options->first + done - 1));
	return wrong;
}

static void usage(FILE *to)
{
	fprintf(to,
		"usage: soak [--minutes N | --rounds N] [--seed N] [--round N]\n\n"
		"Worlds of 3 to 8 ranks, one after another, make random calls. All results are\n"
		"checked; ranks pause and die at random moments.\n\n"
		"  --minutes N  for how long (default: %d)\n"
		"  --rounds N   how many worlds, in place of minutes\n"
		"  --seed N     repeats the worlds of an earlier run; by default it is random\n"
		"  --round N    the one world of this number\n",
		DEFAULT_MINUTES);
}

static void refuse(const char *option, const char *value)
{
	fprintf(stderr, "soak: %s %s: --help lists the options, which take numbers\n", option,
		value ? value : "(nothing)");
	exit(2);
}

static double number_of(const char *option, const char *text)
{
	char *end;
	double number = text && *text ? strtod(text, &end) : -1;

	if (number < 0 || *end || number > 1e15)
		refuse(option, text);
	return number;
}

static uint64_t seed_of(const char *option, const char *text)
{
	char *end;
	uint64_t seed = text ? strtoull(text, &end, 10) : 0;

	if (!text || !*text || *end || *text == '-')
		refuse(option, text);
	return seed;
}

static struct options read_options(int count, char *arguments[])
{
	struct options options = { .minutes = 0 };
	bool has_seed = false;

	for (int i = 1; i < count; i += 2) {
		const char *option = arguments[i], *value = i + 1 < count ? arguments[i + 1] : NULL;

		if (strcmp(option, "--help") == 0) {
			usage(stdout);
			exit(0);
		} else if (strcmp(option, "--minutes") == 0) {
			options.minutes = number_of(option, value);
		} else if (strcmp(option, "--rounds") == 0) {
			options.rounds = (uint64_t)number_of(option, value);
		} else if (strcmp(option, "--round") == 0) {
			options.first = (uint64_t)number_of(option, value);
			options.rounds = 1;
		} else if (strcmp(option, "--seed") == 0) {
			options.seed = seed_of(option, value);
			has_seed = true;
		} else {
			refuse(option, value);
		}
	}
	if (!has_seed && getrandom(&options.seed, sizeof(options.seed), 0) < 0)
		options.seed = (uint64_t)world_now_ms();
	if (options.minutes == 0 && options.rounds == 0)
		options.minutes = DEFAULT_MINUTES;
	return options;
}

int main(int count, char *arguments[])
{
	struct options options = read_options(count, arguments);

	setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
	setenv("RONDO_DEBUG", "NONE", 0);
	printf("soak: seed %llu\n", (unsigned long long)options.seed);
	fflush(stdout);
	return run(&options);
}
