/* Calls on device memory that fail: every rank hears of it, by every way. */
#include <criterion/criterion.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "emulated.h"
#include "ways.h"
#include "word.h"

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
	try_ways(3, when_a_peer_dies, NEVER_MS, false);
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
	try_ways(3, when_one_aborts, NEVER_MS, true);
}

/* Rank 1 makes no second call. It waits for the comm to end, and ends it where nobody else does. */
static int when_one_is_silent(struct citizen *citizen)
{
	struct memory memory;
	int wrong = open_memory(citizen, &memory), err;

	if (wrong)
		return wrong;
	err = call_until_it_fails(citizen, &memory);
	for (int i = 0; i < 8000 && err == 0 && citizen->rank == 1; i++) {
		usleep(1000);
		err = rondo_comm_error(citizen->comm);
	}
	if (err == 0)
		rondo_comm_abort(citizen->comm, "nobody's silence was noticed");
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

/* So late, of a timeout of 1000 ms, the other kernels begin. */
#define HELD_MS 700

/*
 * All ranks' agents have met in the call, but rank 1's device does not get to it until the comm has
 * failed. The others' kernels begin late: what they say must come before their agents' word.
 */
static int when_a_device_is_silent(struct citizen *citizen)
{
	static uint32_t go;
	struct memory memory;
	int wrong = open_memory(citizen, &memory), err;
	bool stuck = citizen->rank == 1;

	if (wrong)
		return wrong;
	err = rd_emulated_wait_word(0, citizen->comm->board->stream, &go, 1) ||
	      rondo_all_reduce(citizen->comm, memory.in, memory.out, 1000, RONDO_F32, RONDO_SUM,
		      memory.stream);
	for (int i = 0; i < (stuck ? 20000 : HELD_MS) && err == 0; i++) {
		usleep(1000);
		err = stuck ? rondo_comm_error(citizen->comm) : 0;
	}
	rd_word_write(&go, 1);
	err = rondo_stream_synchronize(memory.stream);
	wrong = expect_error(citizen, err, RONDO_TIMEOUT);
	if (!wrong && !strstr(rondo_last_error(), "for rank 1"))
		wrong = world_say(citizen, "says: %s", rondo_last_error());
	close_memory(&memory);
	return wrong;
}

Test(board_failures, a_kernel_names_the_rank_that_it_waits_for, .timeout = 60)
{
	struct way way = { "emulated:3", "auto", false, NULL, RD_KERNEL_FUSED };
	struct trial trial = { &way, 3, when_a_device_is_silent, 1000 };

	cr_expect_eq(in_child(run_trial, &trial), 0);
}

static int when_calls_differ(struct citizen *citizen)
{
	return expect_mismatch(citizen, COUNT_MAX, shorten_by_one);
}

Test(board_failures, different_calls_are_a_mismatch_on_every_rank, .timeout = 120)
{
	try_ways(3, when_calls_differ, 0, true);
}
