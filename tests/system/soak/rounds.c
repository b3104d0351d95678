#include "rounds.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "calls.h"
#include "draw.h"
#include "world.h"

#define LIMIT_MS 60000

enum fault { NONE, PAUSE, DEATH };

/* The processes of a world share it. */
struct round {
	struct world world;
	struct draw calls; /* from which all ranks draw */
	int count;
	enum fault fault;
	int victim;
	int at; /* the call that it is in, or the rest of its time before the last */
	long delay_ns; /* since that call began; of a pause: how long it is */
	int signal; /* 0: _exit(0) */
	_Atomic pid_t pids[WORLD_MAX];
	_Atomic int made[WORLD_MAX];
};

/* ---- Faults -------------------------------------------------------------------------------- */

struct fault_thread {
	struct rank_env *env;
	struct round *round;
	_Atomic int over;
	pthread_t thread;
	bool runs;
};

static void sleep_ns(long ns)
{
	nanosleep(&(struct timespec){ ns / 1000000000, ns % 1000000000 }, NULL);
}

static void end_here(const struct round *round)
{
	if (round->signal == 0)
		_exit(0);
	signal(round->signal, SIG_DFL);
	kill(getpid(), round->signal);
	pause();
}

static void *make_fault(void *argument)
{
	struct fault_thread *fault = argument;
	struct round *round = fault->round;

	while (atomic_load(&round->made[round->victim]) < round->at && !atomic_load(&fault->over))
		sleep_ns(20000);
	if (round->fault == DEATH) {
		sleep_ns(round->delay_ns);
		end_here(round);
	}
	kill(atomic_load(&round->pids[round->victim]), SIGSTOP);
	sleep_ns(round->delay_ns);
	kill(atomic_load(&round->pids[round->victim]), SIGCONT);
	return NULL;
}

/* A rank ends itself, and another one pauses it. */
static void begin_fault(struct fault_thread *fault, struct rank_env *env, struct round *round)
{
	int maker = (round->victim + (round->fault == PAUSE)) % env->size;

	*fault = (struct fault_thread){ .env = env, .round = round };
	fault->runs = round->fault != NONE && env->rank == maker &&
		      pthread_create(&fault->thread, NULL, make_fault, fault) == 0;
}

static void end_fault(struct fault_thread *fault)
{
	atomic_store(&fault->over, 1);
	if (fault->runs)
		pthread_join(fault->thread, NULL);
}

/* ---- Ranks --------------------------------------------------------------------------------- */

static int check_end(struct rank_env *env, const struct round *round, int err)
{
	char words[16];

	if (err > 0)
		return err;
	if (round->fault != DEATH)
		return err ? world_report(env, "%s: %s", rondo_error_name(err), rondo_last_error())
			   : 0;
	snprintf(words, sizeof(words), "rank %d", round->victim);
	return world_expect(env, "the calls", err, RONDO_DIED, words);
}

/* No rank leaves before the pause is over. */
static int run_rank(struct rank_env *env)
{
	struct round *round = env->argument;
	struct fault_thread fault;
	int err;

	if (env->create_error)
		return world_report(env, "create: %s", rondo_last_error());
	atomic_store(&round->pids[env->rank], getpid());
	err = rondo_barrier(env->comm, NULL);
	begin_fault(&fault, env, round);
	if (!err)
		err = calls_make(
			env, env->comm, round->calls, round->count, &round->made[env->rank]);
	end_fault(&fault);
	if (!err)
		err = rondo_barrier(env->comm, NULL);
	return check_end(env, round, err);
}

/* ---- Rounds -------------------------------------------------------------------------------- */

static void draw_round(struct round *round, struct draw *from)
{
	static const char *const transports[] = { "shm", "tcp", "mixed", NULL };
	static const int signals[] = { SIGKILL, SIGKILL, SIGTERM, SIGSEGV, 0 };
	unsigned kind = draw(from, 8);

	round->world = (struct world){ .size = 3 + (int)draw(from, 6),
		.transport = transports[draw(from, 4)],
		.limit_ms = LIMIT_MS,
		.channels = (int)draw(from, 3),
		.has_no_secret = draw_one_in(from, 4) };
	if (draw_one_in(from, 3))
		round->world.memory = REGISTERED;
	round->fault = kind < 3 ? DEATH : kind < 5 ? PAUSE : NONE;
	round->world.threads = round->fault == NONE && draw(from, 2);
	round->world.quiet = round->fault == DEATH;
	round->count = 10 + (int)draw(from, 60);
	round->victim = (int)draw(from, (unsigned)round->world.size);
	round->at = (int)draw(from, (unsigned)round->count) + 1;
	round->delay_ns = (long)draw(from, round->fault == PAUSE ? 30000000 : 2000000);
	round->signal = signals[draw(from, 5)];
	setenv("RONDO_ENCRYPT", draw_one_in(from, 3) ? "0" : "1", 1);
	setenv("RONDO_REPRODUCIBLE", draw(from, 2) ? "1" : "0", 1);
	round->calls = draw_from(from->state, 0);
}

/* A text of the round, to be found again by its seed. */
static void report(const struct round *round, int rank, const struct rank_outcome *outcome)
{
	static const char *const faults[] = { "no fault", "a pause", "a death" };

	fprintf(stderr,
		"soak: %d ranks over %s, %s of rank %d in call %d of %d: rank %d: status %d: %s\n",
		round->world.size, round->world.transport ? round->world.transport : "any",
		faults[round->fault], round->victim, round->at, round->count, rank, outcome->status,
		outcome->text);
}

static int judge(const struct round *round, const struct rank_outcome *outcomes)
{
	int wrong = 0;

	for (int rank = 0; rank < round->world.size; rank++) {
		int wanted = 0;

		if (round->fault == DEATH && rank == round->victim && round->signal)
			wanted = 128 + round->signal;
		if (outcomes[rank].status == wanted)
			continue;
		report(round, rank, &outcomes[rank]);
		wrong = 1;
	}
	return wrong;
}

int round_run(uint64_t seed, uint64_t number, struct round_counts *counts)
{
	struct round *round = mmap(
		NULL, sizeof(*round), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct draw from = draw_from(seed, number);
	struct rank_outcome outcomes[WORLD_MAX];
	int wrong;

	if (round == MAP_FAILED) {
		perror("soak: no memory for a round");
		return 1;
	}
	draw_round(round, &from);
	world_run(&round->world, run_rank, round, outcomes);
	wrong = judge(round, outcomes);
	for (int rank = 0; rank < round->world.size; rank++)
		counts->calls += atomic_load(&round->made[rank]);
	counts->deaths += round->fault == DEATH;
	counts->pauses += round->fault == PAUSE;
	munmap(round, sizeof(*round));
	return wrong;
}
