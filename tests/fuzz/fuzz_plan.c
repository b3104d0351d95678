/*
 * Plans of a plug-in, and their proof: the input has the algorithm's calls on each rank, any of
 * them wrong. The plan keeps the first mistake, and the checker refuses the others.
 */
#include "check/checker.h"
#include "fuzz.h"

#define CALLS_MAX 96
#define EVERY_RANK 7

struct call {
	uint8_t rank, what;
	int8_t peer, chunk;
};

static struct call calls[CALLS_MAX];
static int call_count;

static void view(struct rd_plan *plan, const struct call *call)
{
	rd_view_begin(plan, (enum rd_collective)(call->what % RD_COLLECTIVE_COUNT), call->peer);
	for (int i = 0; i < 3; i++) {
		rd_view_rank(plan, (call->peer + i) % 8);
		rd_view_block(plan);
		rd_view_chunk(plan, (call->chunk + i) % 32);
	}
	if (call->chunk & 1)
		rd_view_partial(plan);
	rd_view_write(plan, rd_algorithm_named(call->chunk & 2 ? "ring" : "doubling"));
}

static void make_call(struct rd_plan *plan, const struct call *call)
{
	int peer = call->peer, chunk = call->chunk;

	switch (call->what % 16) {
	case 0:
		rd_send(plan, peer, chunk);
		return;
	case 1:
		rd_recv(plan, peer, chunk);
		return;
	case 2:
		rd_recv_reduce(plan, peer, chunk);
		return;
	case 3:
		rd_recv_reduce_last(plan, peer, chunk);
		return;
	case 4:
		rd_recv_merge(plan, chunk);
		return;
	case 5:
		rd_fetch(plan, peer, chunk);
		return;
	case 6:
		rd_combine(plan, peer, chunk);
		return;
	case 7:
		rd_combine_aside(plan, chunk);
		return;
	case 8:
		rd_expect(plan, chunk);
		return;
	case 9:
		rd_signal(plan, peer);
		return;
	case 10:
		rd_await(plan, peer);
		return;
	case 11:
		rd_plan_parts(plan, peer);
		return;
	case 12:
		rd_view_begin(plan, RD_ALL_GATHER, peer);
		return;
	case 13:
		rd_view_rank(plan, peer);
		return;
	case 14:
		rd_view_chunk(plan, chunk);
		return;
	default:
		view(plan, call);
		return;
	}
}

static void write_plan(struct rd_plan *plan)
{
	int rank = rd_problem_of(plan)->rank;

	for (int i = 0; i < call_count; i++)
		if (calls[i].rank % 8 == rank || calls[i].rank % 8 == EVERY_RANK)
			make_call(plan, &calls[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct rd_algorithm algorithm = { .name = "fuzzed" };
	struct fuzz_input input = { data, size };
	enum rd_collective collective = (enum rd_collective)fuzz_below(&input, RD_COLLECTIVE_COUNT);
	int ranks = 1 + fuzz_below(&input, 4), kind = fuzz_byte(&input);
	/* As rd_plan_create() is called: root and target make sense. */
	int root = fuzz_below(&input, ranks), target = 0;

	if (collective == RD_TRANSFER)
		target = fuzz_below(&input, ranks);
	if (!rd_collective_has_root(collective))
		root = 0;
	algorithm.write[collective] = write_plan;
	algorithm.direct_access = kind & 1;
	algorithm.along_line = kind & 2;
	call_count = 0;
	while (input.left >= sizeof(*calls) && call_count < CALLS_MAX)
		fuzz_take(&input, &calls[call_count++], sizeof(*calls));
	rd_check_algorithm(&algorithm, collective, ranks, root, target, NULL);
	return 0;
}
