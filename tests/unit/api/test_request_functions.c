/* ctest label: threads */
/* Functions at the ends of requests, which wait for the ends of later ones. */
#include <criterion/criterion.h>
#include <semaphore.h>
#include <signal.h>
#include <string.h>

#include "world.h"

enum { STEPS = 3, WAIT_MS = 20000 };

enum { BY_FUTURE = 1, STARTS_NEXT = 2, IS_WAITED_FOR = 4, TWO_COMMS = 8, WAYS = 16 };

/* A sum whose function waits for the next step, whose function does so, too. */
struct step {
	struct step *next; /* NULL: it waits for none */
	int way;
	rondo_request *request;
	int32_t value;
	int error; /* of the sum, or of what its function does */
	bool kills, ended;
	sem_t started; /* all are that the program starts: a wait for another ends at once */
	sem_t end; /* a future of the program */
};

static void go_on(void *argument, int error)
{
	struct step *step = argument, *next = step->next;

	if (step->kills)
		raise(SIGKILL);
	if (!error && !world_wait(&step->started))
		error = RONDO_TIMEOUT;
	if (next && !error && step->way & STARTS_NEXT)
		error = rondo_request_start(next->request, go_on, next);
	if (next && !error && step->way & BY_FUTURE)
		error = world_wait(&next->end) ? next->error : RONDO_TIMEOUT;
	else if (next && !error)
		error = rondo_request_wait(next->request, -1);
	step->error = error;
	step->ended = true;
	sem_post(&step->end);
}

/* The second step may be on another comm. */
static int prepare(struct rank_env *env, rondo_comm *other, struct step *steps, int way)
{
	for (int i = 0; i < STEPS; i++) {
		steps[i] = (struct step){ .way = way };
		steps[i].next = i < STEPS - 1 ? &steps[i + 1] : NULL;
		rondo_comm *comm = i == 1 ? other : env->comm;

		TRY(rondo_group_start());
		TRY(rondo_all_reduce(
			comm, &steps[i].value, &steps[i].value, 1, RONDO_I32, RONDO_SUM, NULL));
		TRY(rondo_group_prepare(&steps[i].request));
	}
	return 0;
}

/* The first step alone, where its function starts the next. */
static int start(struct rank_env *env, struct step *steps)
{
	for (int i = 0; i < STEPS; i++) {
		steps[i].value = env->rank + i;
		steps[i].ended = false;
		sem_init(&steps[i].started, 0, 0);
		sem_init(&steps[i].end, 0, 0);
	}
	for (int i = 0; i < (steps->way & STARTS_NEXT ? 1 : STEPS); i++)
		TRY(rondo_request_start(steps[i].request, go_on, &steps[i]));
	for (int i = 0; i < STEPS; i++)
		sem_post(&steps[i].started);
	return 0;
}

/* Their functions have ended. */
static int check(struct rank_env *env, const struct step *steps)
{
	int ranks = env->size * (env->size - 1) / 2;

	for (int i = 0; i < STEPS; i++) {
		TRY(rondo_request_wait(steps[i].request, WAIT_MS));
		if (!steps[i].ended || steps[i].error || steps[i].value != ranks + i * env->size)
			return world_report(env, "way %d, step %d: error %d, sum %d", steps->way, i,
				steps[i].error, steps[i].value);
	}
	return 0;
}

static void destroy(struct step *steps)
{
	for (int i = 0; i < STEPS; i++)
		rondo_request_destroy(steps[i].request);
}

/* A thread that waits for the first step calls its function, else a worker does. */
static int wait_in_all_ways(struct rank_env *env)
{
	struct step steps[STEPS];
	rondo_comm *other;
	int wrong = world_second_comm(env, &other);

	for (int way = 0; way < WAYS && !wrong; way++) {
		wrong = prepare(env, way & TWO_COMMS ? other : env->comm, steps, way);
		for (int round = 0; round < 10 && !wrong; round++) {
			wrong = start(env, steps);
			if (!wrong && way & IS_WAITED_FOR)
				TRY(rondo_request_wait(steps[0].request, -1));
			if (!wrong && !world_wait(&steps[0].end))
				wrong = world_report(env, "way %d, round %d hangs", way, round);
			wrong = wrong ? wrong : check(env, steps);
		}
		if (!wrong)
			destroy(steps);
	}
	if (!wrong)
		TRY(rondo_comm_destroy(other));
	return wrong;
}

Test(request_functions, wait_for_later_requests, .timeout = 60)
{
	world_try(2, "shm", wait_in_all_ways);
	world_try(3, "tcp", wait_in_all_ways);
}

static int destroy_the_comm(struct rank_env *env)
{
	struct step steps[STEPS];
	int wrong = prepare(env, env->comm, steps, BY_FUTURE);

	wrong = wrong ? wrong : start(env, steps);
	if (wrong)
		return wrong;
	TRY(world_leave(env));
	wrong = check(env, steps);
	destroy(steps);
	return wrong;
}

Test(request_functions, end_before_their_comm_does, .timeout = 60)
{
	world_try(2, "shm", destroy_the_comm);
	world_try(3, "tcp", destroy_the_comm);
}

/* A rank dies in the first function; the others wait there for the second sum. */
static int lose_a_rank(struct rank_env *env)
{
	struct step steps[STEPS];
	int wrong = prepare(env, env->comm, steps, *(int *)env->argument);

	steps[0].kills = env->rank == env->size - 1;
	wrong = wrong ? wrong : start(env, steps);
	if (wrong)
		return wrong;
	if (!world_wait(&steps[0].end))
		return world_report(env, "the first function hangs");
	TRY(world_leave(env));
	destroy(steps);
	return steps[0].error == RONDO_DIED ? 0 : world_report(env, "error %d", steps[0].error);
}

Test(request_functions, get_the_error_of_a_rank_that_dies, .timeout = 60)
{
	struct world world = { .size = 3, .quiet = true };
	struct rank_outcome outcomes[WORLD_MAX];

	for (int way = 0; way < TWO_COMMS && !ONLY_THREADS; way++) {
		cr_expect_eq(world_run(&world, lose_a_rank, &way, outcomes), 1, "way %d", way);
		for (int rank = 0; rank < 3; rank++)
			cr_expect_eq(outcomes[rank].status, rank == 2 ? 128 + SIGKILL : 0,
				"way %d, rank %d: %s", way, rank, outcomes[rank].text);
	}
}

static void expect_refusal(struct step *step, rondo_request *awaited)
{
	step->error = rondo_request_wait(awaited, -1);
	step->ended =
		step->error == RONDO_INVALID && strstr(rondo_last_error(), " end cannot wait for ");
}

static void wait_for_itself(void *argument, int error)
{
	struct step *step = argument;

	(void)error;
	expect_refusal(step, step->request);
}

static int refuse_its_own_end(struct rank_env *env)
{
	struct step steps[STEPS];
	int wrong = prepare(env, env->comm, steps, 0);

	if (wrong)
		return wrong;
	TRY(rondo_request_start(steps[0].request, wait_for_itself, &steps[0]));
	TRY(rondo_request_wait(steps[0].request, WAIT_MS));
	destroy(steps);
	return steps[0].ended ? 0 : world_report(env, "error %d", steps[0].error);
}

Test(request_functions, cannot_wait_for_their_own_end, .timeout = 60)
{
	world_try(2, "shm", refuse_its_own_end);
}

static void wait_for_the_next(void *argument, int error)
{
	struct step *step = argument;

	(void)error;
	expect_refusal(step, step->next->request);
}

/* The second messages are sent after the functions at the ends of the first. */
static int refuse_messages(struct rank_env *env)
{
	struct step steps[2] = { { .next = &steps[1] } };
	rondo_request *sends[2];

	for (int i = 0; i < 2; i++) {
		TRY(rondo_recv_tagged(
			env->comm, &steps[i].value, 4, 1 - env->rank, i, &steps[i].request));
		TRY(rondo_send_tagged(env->comm, &env->rank, 4, 1 - env->rank, i, &sends[i]));
	}
	TRY(rondo_request_start(steps[1].request, NULL, NULL));
	TRY(rondo_request_start(steps[0].request, wait_for_the_next, &steps[0]));
	TRY(rondo_request_start(sends[0], NULL, NULL));
	TRY(rondo_request_wait(steps[0].request, WAIT_MS));
	TRY(rondo_barrier(env->comm, NULL));
	TRY(rondo_request_start(sends[1], NULL, NULL));
	for (int i = 0; i < 2; i++) {
		TRY(rondo_request_wait(sends[i], WAIT_MS));
		TRY(rondo_request_wait(steps[i].request, WAIT_MS));
		rondo_request_destroy(sends[i]);
		rondo_request_destroy(steps[i].request);
	}
	return steps[0].ended ? 0 : world_report(env, "error %d", steps[0].error);
}

Test(request_functions, of_messages_cannot_wait_for_messages, .timeout = 60)
{
	world_try(2, "shm", refuse_messages);
	world_try(2, "tcp", refuse_messages);
}

static void start_the_next(void *argument, int error)
{
	struct step *step = argument;

	step->error = rondo_request_start(step->next->request, go_on, step->next);
	step->ended = error == RONDO_LEFT;
}

/* The end of the comm is that of a message, whose function starts the first sum. */
static int start_while_the_comm_ends(struct rank_env *env)
{
	struct step sum, last = { .next = &sum };
	rondo_comm *comm;

	TRY(rondo_comm_duplicate(env->comm, &comm));
	sum = (struct step){ .value = env->rank };
	sem_init(&sum.started, 0, 1);
	sem_init(&sum.end, 0, 0);
	TRY(rondo_group_start());
	TRY(rondo_all_reduce(comm, &sum.value, &sum.value, 1, RONDO_I32, RONDO_SUM, NULL));
	TRY(rondo_group_prepare(&sum.request));
	TRY(rondo_recv_tagged(comm, &last.value, 4, env->rank, 0, &last.request));
	TRY(rondo_request_start(last.request, start_the_next, &last));
	TRY(rondo_comm_destroy(comm));
	TRY(last.error);
	if (!last.ended || !sum.ended || sum.error || sum.value != env->size * (env->size - 1) / 2)
		return world_report(env, "ended: %d %d, error %d, sum %d", last.ended, sum.ended,
			sum.error, sum.value);
	rondo_request_destroy(last.request);
	rondo_request_destroy(sum.request);
	return 0;
}

Test(request_functions, of_messages_start_calls_while_their_comm_ends, .timeout = 60)
{
	world_try(2, "shm", start_while_the_comm_ends);
	world_try(3, "tcp", start_while_the_comm_ends);
}

/* A message's function, in that of the sum that it waits for. */
static void send_to_itself(void *argument, int error)
{
	struct step *step = argument;

	for (int i = 1; i < 3 && !error; i++)
		error = rondo_request_start(
			step[i].request, i == 1 ? wait_for_the_next : NULL, &step[i]);
	for (int i = 1; i < 3 && !error; i++)
		error = rondo_request_wait(step[i].request, -1);
	step->error = error;
}

static int refuse_an_outer_end(struct rank_env *env)
{
	struct step steps[3];
	int wrong = prepare(env, env->comm, steps, 0);

	if (wrong)
		return wrong;
	for (int i = 1; i < 3; i++)
		rondo_request_destroy(steps[i].request);
	steps[1].next = steps;
	TRY(rondo_recv_tagged(env->comm, &steps[1].value, 4, env->rank, 0, &steps[1].request));
	TRY(rondo_send_tagged(env->comm, &steps[2].value, 4, env->rank, 0, &steps[2].request));
	TRY(rondo_request_start(steps[0].request, send_to_itself, steps));
	TRY(rondo_request_wait(steps[0].request, WAIT_MS));
	destroy(steps);
	TRY(steps[0].error);
	return steps[1].ended ? 0 : world_report(env, "error %d", steps[1].error);
}

Test(request_functions, of_messages_cannot_wait_for_what_they_end_in, .timeout = 60)
{
	world_try(2, "shm", refuse_an_outer_end);
}
