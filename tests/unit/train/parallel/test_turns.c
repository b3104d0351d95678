/* The order of a pipeline's turns: complete, within its passes, and free of deadlock. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "train/base/fail.h"
#include "train/parallel/pipeline.h"
#include "train/parallel/straggler.h"
#include "train/rounding.h"

#define STAGES_MAX 8
#define MICRO_BATCHES_MAX 17

/* A message of a turn: to the next stage forward, and to the one before backward. */
struct message {
	int to; /* the stage; -1: none */
	struct turn turn;
};

struct stage {
	struct turn turns[2 * MICRO_BATCHES_MAX];
	int at; /* the exchange under way: before this turn */
	struct message sent, received; /* still to be done in it; to: the peer */
};

static struct stage stages[STAGES_MAX];

static struct message message_of(int stage, int count, const struct turn *turn, bool sends)
{
	/* Results go on in a turn's direction; what it reads comes from behind. */
	int peer = stage + (turn->backward == sends ? -1 : 1);
	return (struct message){ peer < 0 || peer >= count ? -1 : peer, *turn };
}

/* Posts the messages of the exchange before turn `at`, as pipeline.c does. */
static void post(int stage, int count, int turn_count)
{
	struct stage *mine = &stages[stage];
	mine->sent.to = mine->received.to = -1;
	if (mine->at > 0)
		mine->sent = message_of(stage, count, &mine->turns[mine->at - 1], true);
	if (mine->at < turn_count)
		mine->received = message_of(stage, count, &mine->turns[mine->at], false);
}

/* A send is done only together with its receive: nothing is buffered. Returns whether one was. */
static bool deliver(int from)
{
	struct message *sent = &stages[from].sent;
	if (sent->to < 0)
		return false;
	struct message *received = &stages[sent->to].received;
	if (received->to != from)
		return false;
	cr_assert_eq(received->turn.backward, sent->turn.backward);
	cr_assert_eq(received->turn.micro_batch, sent->turn.micro_batch);
	sent->to = received->to = -1;
	return true;
}

static void run(int count, int micro_batches)
{
	int turn_count = 2 * micro_batches, over = 0;
	for (int s = 0; s < count; s++) {
		turns_of(s, count, micro_batches, stages[s].turns);
		stages[s].at = 0;
		post(s, count, turn_count);
	}
	while (over < count) {
		bool moved = false;
		for (int s = 0; s < count; s++)
			moved |= deliver(s);
		for (int s = 0; s < count; s++) {
			if (stages[s].at > turn_count || stages[s].sent.to >= 0 ||
				stages[s].received.to >= 0)
				continue;
			moved = true;
			over += ++stages[s].at > turn_count;
			if (stages[s].at <= turn_count)
				post(s, count, turn_count);
		}
		cr_assert(moved, "%d stages and %d micro-batches wait for each other", count,
			micro_batches);
	}
}

Test(turns, no_stages_wait_for_each_other, .timeout = 60)
{
	for (int count = 1; count <= STAGES_MAX; count++)
		for (int m = 1; m <= MICRO_BATCHES_MAX; m++)
			run(count, m);
}

static void expect_complete(int stage, int count, int micro_batches)
{
	struct turn turns[2 * MICRO_BATCHES_MAX];
	int forward = 0, backward = 0, most = 0;
	turns_of(stage, count, micro_batches, turns);
	for (int t = 0; t < 2 * micro_batches; t++) {
		cr_assert_eq(turns[t].micro_batch, turns[t].backward ? backward : forward);
		turns[t].backward ? backward++ : forward++;
		cr_assert_leq(backward, forward);
		most = forward - backward > most ? forward - backward : most;
	}
	cr_assert_eq(backward, micro_batches);
	cr_assert_eq(most, turns_passes(stage, count, micro_batches));
	cr_assert_leq(most, count - stage);
}

Test(turns, each_micro_batch_goes_forward_then_back_within_the_passes)
{
	for (int count = 1; count <= STAGES_MAX; count++)
		for (int stage = 0; stage < count; stage++)
			for (int m = 1; m <= MICRO_BATCHES_MAX; m++)
				expect_complete(stage, count, m);
}

#define SIZE 3

/* Rank 1 waits least in each of 4 steps of 2 buckets. */
static int run_rank(void *unused)
{
	static const double waits[SIZE] = { 0.003, 0.001, 0.0055 };
	struct train_world world;
	struct straggler straggler = { 0 };
	int rank = -1, wrong = 0, err = world_open(&world, -1);
	double late_s = 0;
	(void)unused;
	for (int round = 0; !err && round < 2; round++) {
		/* In the second round, rank 0 waits least. */
		double wait_s = round && !world.rank ? 0 : waits[world.rank];
		for (int bucket = 0; bucket < 8; bucket++)
			straggler_note(&straggler, &(struct bucket_times){ .launched_s = 0.5,
							   .done_s = 0.5 + wait_s / 2 });
		err = straggler_find(&straggler, &world, 2, &rank, &late_s);
		double expected_s = round ? 0.0055 : 0.0045;
		/* Each of 8 buckets rounds two times, their difference and the sum. */
		wrong |= rank != !round ||
			 !(fabs(late_s - expected_s) <= ROUNDING_OF_DOUBLES(8 * 4, 1));
	}
	return world_close(&world, err) || wrong;
}

Test(straggler, the_rank_that_waits_least_is_the_last_to_launch, .timeout = 60)
{
	cr_assert_eq(rondo_spawn(SIZE, run_rank, NULL), 0);
}
