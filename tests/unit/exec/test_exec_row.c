/* An executor tells a link when another message follows. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "exec/exec_init.h"
#include "plan/plan.h"
#include "tree/tree.h"

enum { PIECES = 4, PIECE = 4096, COUNT = PIECES * PIECE / sizeof(float) };

static unsigned sends;
static bool announced[PIECES]; /* another one, by each send */

static bool note_send(struct rd_link *link, const struct rd_tag *tag, const void *from, size_t size)
{
	(void)tag, (void)from;
	cr_assert_eq(size, PIECE);
	cr_assert_lt(sends, PIECES);
	announced[sends++] = link->more;
	link->sent = ++link->posted;
	return true;
}

/* Rank 0 of two sends all, and copies it unless input and output are one. */
static void broadcast(const float *in, float *out)
{
	static const struct rd_link_ops ops = { .send = note_send };
	struct rd_call call = { .problem = { .collective = RD_BROADCAST, .size = 2 },
		.in = in,
		.out = out,
		.count = COUNT,
		.type = RONDO_F32 };
	struct rd_link link = { .ops = &ops, .peer = 1, .message_max = PIECE };
	struct rd_link *links[] = { NULL, &link };
	uint64_t send_marks[8];
	struct rd_exec exec;
	struct rd_plan *plan;

	sends = 0;
	cr_assert_eq(rd_plan_create(&plan, &rd_binomial, &call.problem), 0);
	cr_assert_leq(plan->step_count, 8);
	rd_exec_init(&exec, (const struct rd_plan *const *)&plan, &call, links, 1, PIECE, NULL,
		send_marks);
	cr_assert_eq(rd_exec_step(&exec), RD_DONE);
	cr_assert_eq(sends, PIECES);
	rd_plan_destroy(plan);
}

Test(exec_row, a_root_announces_each_next_piece)
{
	float *buffer = calloc(COUNT, sizeof(*buffer));

	broadcast(buffer, buffer);
	for (unsigned i = 0; i < PIECES; i++)
		cr_assert_eq(announced[i], i + 1 < PIECES, "piece %u", i);
	free(buffer);
}

Test(exec_row, a_first_piece_does_not_wait_for_a_copy)
{
	float *in = calloc(COUNT, sizeof(*in)), *out = calloc(COUNT, sizeof(*out));

	broadcast(in, out);
	for (unsigned i = 0; i < PIECES; i++)
		cr_assert_eq(announced[i], i > 0 && i + 1 < PIECES, "piece %u", i);
	free(in);
	free(out);
}
