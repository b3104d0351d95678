/* An executor tells a link when another message follows. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "exec/exec_init.h"
#include "mesh/mesh.h"
#include "plan/plan.h"
#include "tree/tree.h"

enum { PIECES = 4, PIECE = 4096, COUNT = PIECES * PIECE / sizeof(float), TAIL = 8 };

/* A link that accepts each message, unless told otherwise. */
struct counted {
	struct rd_link base; /* first */
	unsigned sends;
	bool announced[PIECES]; /* another one, by each send */
	bool full;
	char room[PIECE];
};

static bool note_send(struct rd_link *link, const struct rd_tag *tag, const void *from, size_t size)
{
	struct counted *counted = (struct counted *)link;

	(void)tag, (void)from;
	cr_assert_eq(size, PIECE);
	cr_assert_lt(counted->sends, PIECES);
	if (counted->full)
		return false;
	counted->announced[counted->sends++] = link->more;
	link->sent = ++link->posted;
	return true;
}

static void *reserve(struct rd_link *link, size_t size)
{
	cr_assert_eq(size, TAIL);
	return ((struct counted *)link)->room;
}

static void commit(struct rd_link *link, const struct rd_tag *tag, size_t size)
{
	(void)tag;
	cr_assert(!link->more && size == TAIL);
}

static struct counted link_to(int peer)
{
	static const struct rd_link_ops ops = {
		.send = note_send, .reserve = reserve, .commit = commit
	};

	return (struct counted){
		.base = { .ops = &ops, .peer = peer, .message_max = PIECE, .send_min = TAIL + 1 }
	};
}

/* Runs the call of rank 0 until it can go no further, and then, with room on the link to rank 1, to
   its end. */
static void run(const struct rd_algorithm *algorithm, const struct rd_call *call,
	struct counted *one, struct counted *two)
{
	struct rd_link *links[] = { NULL, &one->base, &two->base };
	uint64_t send_marks[8];
	struct rd_exec exec;
	struct rd_plan *plan;

	cr_assert_eq(rd_plan_create(&plan, algorithm, &call->problem), 0);
	cr_assert_leq(plan->step_count, 8);
	rd_exec_init(&exec, (const struct rd_plan *const *)&plan, call, links, 1, PIECE, NULL,
		send_marks);
	if (one->full) {
		cr_assert_eq(rd_exec_step(&exec), RD_IDLE);
		cr_assert_not(one->base.more, "what a refused message announced is still there");
		one->full = false;
	}
	cr_assert_eq(rd_exec_step(&exec), RD_DONE);
	cr_assert_not(one->base.more || two->base.more);
	rd_plan_destroy(plan);
}

/* Rank 0 of two sends all, and copies it unless input and output are one. */
static struct counted broadcast(const float *in, float *out, bool full)
{
	struct rd_call call = { .problem = { .collective = RD_BROADCAST, .size = 2 },
		.in = in,
		.out = out,
		.count = COUNT,
		.type = RONDO_F32 };
	struct counted one = link_to(1), two = link_to(2);

	one.full = full;
	run(&rd_binomial, &call, &one, &two);
	cr_assert_eq(one.sends, PIECES);
	return one;
}

Test(exec_row, a_root_announces_each_next_piece)
{
	float *buffer = calloc(COUNT, sizeof(*buffer));

	for (unsigned full = 0; full < 2; full++) {
		struct counted link = broadcast(buffer, buffer, full);

		for (unsigned i = 0; i < PIECES; i++)
			cr_assert_eq(link.announced[i], i + 1 < PIECES, "piece %u", i);
	}
	free(buffer);
}

Test(exec_row, a_first_piece_does_not_wait_for_a_copy)
{
	float *in = calloc(COUNT, sizeof(*in)), *out = calloc(COUNT, sizeof(*out));
	struct counted link = broadcast(in, out, false);

	for (unsigned i = 0; i < PIECES; i++)
		cr_assert_eq(link.announced[i], i > 0 && i + 1 < PIECES, "piece %u", i);
	free(in);
	free(out);
}

/* Blocks end in different pieces: rank 1's after two, rank 2's after three and a message that is
   copied. */
Test(exec_row, a_block_s_last_piece_announces_none)
{
	struct rd_vcounts *vcounts = rd_vcounts_create(3, 1);
	struct counted one = link_to(1), two = link_to(2);
	struct rd_call call = { .problem = { .collective = RD_SCATTER, .size = 3 },
		.count = COUNT,
		.type = RONDO_F32,
		.vcounts = vcounts };
	float *in = calloc(2 * COUNT, sizeof(*in));

	vcounts->in[1] = (struct rd_extent){ 0, (size_t)2 * PIECE };
	vcounts->in[2] = (struct rd_extent){ (size_t)2 * PIECE, (size_t)3 * PIECE + TAIL };
	call.in = call.out = in;
	run(&rd_linear, &call, &one, &two);
	cr_assert(one.sends == 2 && one.announced[0] && !one.announced[1]);
	cr_assert(two.sends == 3 && two.announced[0] && two.announced[1] && !two.announced[2]);
	rd_vcounts_destroy(vcounts);
	free(in);
}
