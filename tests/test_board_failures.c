/* Calls on device memory that fail: every rank hears of it, by every way. */
#include <criterion/criterion.h>
#include <signal.h>
#include <unistd.h>

#include "ways.h"

/* Rank 1 makes one call and then does something else; the news of that may come to others when they
   are still in the first call. */
static int call_until_it_fails(struct citizen *citizen, struct memory *memory)
{
	int err = one_call(citizen, memory, 1000);

	if (err == 0 && citizen->rank != 1)
		err = one_call(citizen, memory, 1000);
	return err;
}

static int when_a_peer_dies(struct citizen *citizen)
{
	struct memory memory;
	int wrong = open_memory(citizen, &memory);

	if (wrong)
		return wrong;
	int err = call_until_it_fails(citizen, &memory);

	if (citizen->rank == 1)
		raise(SIGKILL);
	wrong = expect_error(citizen, err, RONDO_DIED);
	/* Later calls are refused, or end at once. */
	if (!wrong)
		wrong = expect_error(citizen, one_call(citizen, &memory, 1000), RONDO_DIED);
	close_memory(&memory);
	return wrong;
}

Test(board_failures, the_death_of_a_peer_frees_the_streams_that_wait_for_it, .timeout = 120)
{
	try_ways(3, when_a_peer_dies, 0, false);
}

static int when_one_aborts(struct citizen *citizen)
{
	struct memory memory;
	int wrong = open_memory(citizen, &memory);

	if (wrong)
		return wrong;
	int err = call_until_it_fails(citizen, &memory);

	if (citizen->rank == 1)
		rondo_comm_abort(citizen->comm, "enough");
	wrong = expect_error(citizen, err, citizen->rank == 1 ? 0 : RONDO_ABORTED);
	close_memory(&memory);
	return wrong;
}

Test(board_failures, an_abort_frees_the_streams_that_wait, .timeout = 120)
{
	try_ways(3, when_one_aborts, 0, true);
}

/* Rank 1 makes no second call; it waits, bounded, for the comm to end. */
static int when_one_is_silent(struct citizen *citizen)
{
	struct memory memory;
	int wrong = open_memory(citizen, &memory), err;

	if (wrong)
		return wrong;
	err = call_until_it_fails(citizen, &memory);
	if (citizen->rank == 1)
		for (int i = 0; i < 20000 && err == 0; i++) {
			usleep(1000);
			err = rondo_comm_error(citizen->comm);
		}
	wrong = expect_error(citizen, err, RONDO_TIMEOUT);
	close_memory(&memory);
	return wrong;
}

Test(board_failures, silence_has_a_bound, .timeout = 120)
{
	try_ways(3, when_one_is_silent, 1000, true);
}

static int shorten_by_one(struct citizen *citizen, struct memory *memory)
{
	return one_call(citizen, memory, citizen->rank == 1 ? 999 : 1000);
}

static int when_calls_differ(struct citizen *citizen)
{
	return expect_mismatch(citizen, COUNT_MAX, shorten_by_one);
}

Test(board_failures, different_calls_are_a_mismatch_on_every_rank, .timeout = 120)
{
	try_ways(3, when_calls_differ, 0, true);
}
