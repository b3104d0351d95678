/* A rank that has no memory to choose an algorithm, or to write its plan, fails its call: it runs
   no other algorithm than its peers. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "check/proof.h"
#include "exec/algorithms.h"
#include "world.h"

/* The linker has the library call this one in this program: CMakeLists.txt. */
void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);

static _Thread_local int calls_to_fail; /* calls until one fails; 0: none does */

void *__wrap_calloc(size_t count, size_t size)
{
	if (calls_to_fail > 0 && --calls_to_fail == 0)
		return NULL;
	return __real_calloc(count, size);
}

#define SIZE (64 << 10)

/* On a new comm, rank 1 lacks memory at this call of calloc() in the first all-reduce. Returns the
   all-reduce's error. */
static int reduce_without_memory(struct rank_env *env, void *memory, int call, bool *lacked)
{
	rondo_comm *comm;

	if (world_second_comm(env, &comm))
		return 1;

	/* No rank fails while another still makes the comm. */
	int err = rondo_barrier(comm, NULL);

	if (err)
		return err;
	calls_to_fail = env->rank == 1 ? call : 0;
	err = rondo_all_reduce(comm, memory, memory, SIZE / 4, RONDO_I32, RONDO_SUM, NULL);
	*lacked = env->rank == 1 && calls_to_fail == 0;
	calls_to_fail = 0;
	if (err)
		world_report(env, "calloc() %d: %s: %s", call, rondo_error_name(err),
			rondo_last_error());
	rondo_comm_destroy(comm);
	return err;
}

static int lack_memory_at_every_call(struct rank_env *env)
{
	void *memory = NULL;
	int call, err = RONDO_MEMORY;
	bool lacked;

	TRY(rondo_mem_alloc(&memory, SIZE));
	/* RONDO_SYSTEM: there was none to map a peer's region. */
	for (call = 1; err == RONDO_MEMORY || err == RONDO_SYSTEM; call += 1 + call / 32) {
		err = reduce_without_memory(env, memory, call, &lacked);
		if (!err && lacked)
			return world_report(env, "calloc() %d fails, and the call does not", call);
	}
	rondo_mem_free(memory);
	if (err)
		return 1;
	return call > 10 ? 0 : world_report(env, "only %d calls of calloc()", call);
}

static void lack_memory(const char *algorithm)
{
	struct world world = { .size = 3, .transport = "shm" };

	setenv("RONDO_ALGO", algorithm, 1);
	/* No comm measures costs, which would take most of the time on a busy machine. */
	setenv("RONDO_REPRODUCIBLE", "1", 1);
	cr_expect_eq(world_run(&world, lack_memory_at_every_call, NULL, NULL), 0, "%s", algorithm);
}

Test(lack_of_memory, at_the_start_of_a_call_is_the_error_of_all_ranks, .timeout = 120)
{
	lack_memory("ring");
	lack_memory("two_shot");
}

/* One of a plug-in, which the checker proves first. */
Test(lack_of_memory, during_a_proof_is_the_error_of_all_ranks, .timeout = 120)
{
	static struct rd_algorithm brought;

	brought = *rd_algorithm_named("ring");
	brought.name = "brought";
	cr_assert_eq(rd_proof_add(&brought), 0);
	lack_memory("brought");
}
