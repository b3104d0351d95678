/* The heap of a further comm, of which a program may have a thousand. */
#include <criterion/criterion.h>
#include <malloc.h>

#include "world.h"

#define COMMS 32
/* Bytes of a rank, in a comm of two; rank 0 has the coordinator as well. The aim is 8 KiB before
   the first call. */
#define COMM_MOST (10 << 10)
#define FIRST_CALL_MOST (10 << 10)

/* All threads have one arena. */
static size_t heap(void)
{
	return mallinfo2().uordblks;
}

static int reduce(rondo_comm *comm)
{
	int values[2] = { 1, 2 };

	return rondo_all_reduce(comm, values, values, 2, RONDO_I32, RONDO_SUM, NULL);
}

static int measure(struct rank_env *env)
{
	rondo_comm *comms[COMMS + 1];
	size_t before, made, called;

	TRY(reduce(env->comm));
	/* The first has some memory that the others share. */
	TRY(rondo_comm_duplicate(env->comm, &comms[COMMS]));
	TRY(reduce(comms[COMMS]));
	before = heap();
	for (int i = 0; i < COMMS; i++)
		TRY(rondo_comm_duplicate(env->comm, &comms[i]));
	made = (heap() - before) / COMMS;
	for (int i = 0; i < COMMS; i++)
		TRY(reduce(comms[i]));
	called = (heap() - before) / COMMS - made;
	for (int i = 0; i <= COMMS; i++)
		TRY(rondo_comm_destroy(comms[i]));
	if (made > COMM_MOST || called > FIRST_CALL_MOST)
		return world_report(
			env, "a comm has %zu bytes, and %zu after a call", made, called);
	return 0;
}

Test(comm_memory, of_a_further_comm_is_small_and_grows_little_with_its_first_call, .timeout = 60)
{
	/* A secret adds OpenSSL's session. */
	struct world world = { .size = 2, .transport = "shm", .has_no_secret = true };
	struct rank_outcome outcomes[WORLD_MAX];

	mallopt(M_ARENA_MAX, 1);
	if (heap() == 0)
		cr_skip("this allocator does not count");
	cr_assert_eq(world_run(&world, measure, NULL, outcomes), 0, "%s; %s", outcomes[0].text,
		outcomes[1].text);
}
