/* Signatures of messages, where ranks run one call in different ways. */
#include <criterion/criterion.h>
#include <string.h>

#include "exec/algorithms.h"
#include "comm/comm.h"
#include "exec/signature.h"
#include "world.h"

Test(signature, each_algorithm_has_a_mark_of_its_own)
{
	unsigned seen = 0;

	for (int i = 0; rd_algorithms[i]; i++) {
		unsigned mark = rd_algorithm_mark(rd_algorithms[i]->name);

		cr_expect(mark >= 1 && mark <= 31, "%s: %u", rd_algorithms[i]->name, mark);
		cr_expect_not(seen >> mark & 1, "%s has another's mark", rd_algorithms[i]->name);
		seen |= 1u << mark;
	}
}

Test(signature, of_a_barrier_has_no_data)
{
	struct rd_signature barrier = { .collective = RD_BARRIER, .number = 2 };
	char text[128];

	rd_signature_print(&barrier, text, sizeof(text));
	cr_expect_str_eq(text, "barrier #2");
}

/* ---- Stories of messages -------------------------------------------------------------------- */

static struct rd_call call_of(int rank)
{
	return (struct rd_call){ .problem = { RD_ALL_REDUCE, rank, 4, 0, 0, NULL },
		.type = RONDO_F32,
		.op = RONDO_SUM,
		.count = 100,
		.number = 7 };
}

static struct rd_signature by(const char *algorithm, uint32_t chunk)
{
	struct rd_call call = call_of(0);
	struct rd_signature signature = rd_signature_of(&call);

	signature.form |= (uint8_t)(rd_algorithm_mark(algorithm) * RD_FORM_ALGORITHM);
	signature.chunk = chunk;
	return signature;
}

/* Rank 2 has received a message of rank 3. */
static void expect_reason(struct rd_signature theirs, struct rd_signature ours, size_t sent,
	size_t wanted, const char *reason)
{
	struct rd_call call = call_of(2);

	cr_expect_eq(
		rd_signature_mismatch(&call, 1, 3, &theirs, &ours, sent, wanted), RONDO_MISMATCH);
	cr_expect(strstr(rondo_last_error(), reason), "\"%s\" lacks \"%s\"", rondo_last_error(),
		reason);
	cr_expect_not(strstr(rondo_last_error(), "RONDO_"), "%s", rondo_last_error());
}

Test(signature, tells_which_algorithms_two_ranks_run)
{
	expect_reason(by("ring", 0), by("tree", 0), 8, 8,
		"rank 3 runs all_reduce #7 of 100 f32 sum by ring, rank 2 by tree: ");
}

Test(signature, reports_who_needs_direct_access)
{
	struct rd_signature asks = by("ring", 0);

	asks.form = RD_FORM_EXCHANGES_BUFFERS;
	expect_reason(asks, by("ring", 0), 32, 8,
		"rank 3 first asks all ranks in all_reduce #7 of 100 f32 sum where their buffers "
		"lie, for direct access, and rank 2 does not: ");
	expect_reason(by("ring", 0), asks, 8, 32,
		"rank 2 first asks all ranks in all_reduce #7 of 100 f32 sum where their buffers "
		"lie, for direct access, and rank 3 does not: ");
}

Test(signature, tells_of_chunks_and_of_lengths)
{
	expect_reason(by("ring", 1), by("ring", 2), 8, 8,
		"rank 3 sent chunk 1 where rank 2 expects chunk 2 in all_reduce #7 of 100 f32 sum, "
		"both by ring: ");
	expect_reason(by("ring", 1), by("ring", 1), 64, 128,
		"rank 3 sent 64 bytes where rank 2 expects 128 of chunk 1 in all_reduce #7 of 100 "
		"f32 sum, both by ring: ");
}

/* ---- Ranks that differ ---------------------------------------------------------------------- */

static int run_otherwise(struct rank_env *env, const char *reason)
{
	int32_t number = 1;
	int err = rondo_all_reduce(env->comm, &number, &number, 1, RONDO_I32, RONDO_SUM, NULL);

	if (err == RONDO_MISMATCH && strstr(rondo_last_error(), reason))
		return 0;
	return world_report(env, "%s: %s", rondo_error_name(err), rondo_last_error());
}

/* As if rank 1 had another setting, which ranks do not compare. The picker has the same text, in
   memory of this process alone. */
static int run_by_another(struct rank_env *env)
{
	TRY(env->create_error);
	if (env->rank == 1)
		strcpy((char *)env->comm->settings.algo, "pat");
	return run_otherwise(env, "by doubling");
}

Test(signature, ranks_that_run_two_algorithms_receive_both_names, .timeout = 60)
{
	struct world world = { .size = 2, .algo = "doubling", .timeout_ms = 20000 };
	struct rank_outcome outcomes[WORLD_MAX];

	cr_expect_eq(world_run(&world, run_by_another, NULL, outcomes), 0, "%s", outcomes[0].text);
}
