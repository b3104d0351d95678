/* A small call of one rank whose peers are silent: what they find when they come. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "gpu/compile_direct.h"
#include "gpus.h"

#define RANKS 3
#define COUNT 101 /* of f32: the last unit is half full */
#define UNITS ((COUNT * sizeof(float) + 7) / 8)

/* Were units sent one by one, each would wait for the one before it to come from all peers. */
Test(small_work, all_units_are_sent_before_the_first_is_awaited)
{
	struct rd_call call = {
		.problem = { .collective = RD_ALL_REDUCE, .rank = 1, .size = RANKS },
		.type = RONDO_F32,
		.count = COUNT,
	};
	struct rd_abort_flag abort_flag = { 0 };
	struct rd_device_flags *flags = calloc(RANKS, sizeof(*flags));
	float in[COUNT + 1], out[COUNT];
	struct rd_small_work work;

	for (int i = 0; i <= COUNT; i++)
		in[i] = (float)i;
	call.in = in;
	call.out = out;
	rd_compile_small(&work, &call);
	work.timeout_ns = 1;
	work.abort_flag = &abort_flag;
	work.signature = 77;
	for (int rank = 0; rank < RANKS; rank++)
		work.peer_device_flags[rank] = &flags[rank];
	run_small_kernel(&work);
	cr_expect_eq(abort_flag.error, RD_ABORT_SILENCE);
	for (int peer = 0; peer < RANKS; peer += 2) {
		const struct rd_ll *got = flags[peer].ll_buffer[1][1];

		cr_expect_eq(got[0].low, 77);
		for (size_t at = 0; at <= UNITS; at++)
			cr_expect(got[at].number_a == 1 && got[at].number_b == 1,
				"unit %zu has not been sent to rank %d", at, peer);
		for (size_t i = 0; i < COUNT; i++)
			cr_expect_eq(
				((const float *)&got[1 + i / 2])[2 * (i % 2)], in[i], "%zu", i);
	}
	free(flags);
}
