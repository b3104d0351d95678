/* Votes for the plan of a shrink, after one whose end this rank does not know. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "bootstrap/shrink/host.h"
#include "bootstrap/shrink/vote.h"
#include "rondo.h"

static struct rd_vote vote;

/* A shrink of rank `origin`, which has voted for a comm of the lineage's first `size` ranks. */
static struct rd_shrink after_a_vote(int origin, int size)
{
	static struct rd_lineage lineage;

	lineage.place.origin = origin;
	vote = (struct rd_vote){ size, calloc((size_t)size + 1, sizeof(int)) };
	for (int i = 0; i < size; i++)
		vote.origins[i] = i;
	return (struct rd_shrink){
		.lineage = &lineage, .rank = origin, .planned = 1, .lost = 1, .vote = &vote
	};
}

/* Its vote for a comm of itself alone. */
static void expect_vote(struct rd_shrink *shrink, int wanted)
{
	int before = vote.size;

	cr_expect_eq(rd_vote(shrink, NULL), wanted);
	if (wanted)
		cr_expect(strstr(rondo_last_error(), "of them are here, fewer than half"), "%s",
			rondo_last_error());
	cr_expect_eq(vote.size, wanted ? before : 1);
	cr_expect(wanted || vote.origins[0] == shrink->rank);
}

static void forget(void)
{
	rd_vote_forget(&vote);
	cr_expect_eq(vote.size, 0);
}

TestSuite(shrink_vote, .fini = forget);

Test(shrink_vote, a_first_plan_gets_it)
{
	struct rd_shrink shrink = after_a_vote(1, 0);

	expect_vote(&shrink, 0);
}

Test(shrink_vote, half_of_the_plan_before_goes_on_with_its_first_rank)
{
	struct rd_shrink first = after_a_vote(0, 2);

	expect_vote(&first, 0);
}

Test(shrink_vote, half_of_the_plan_before_goes_on_nowhere_without_its_first_rank)
{
	struct rd_shrink second = after_a_vote(1, 2);

	expect_vote(&second, RONDO_TIMEOUT);
}

/* And it stays so: the others may go on for long. */
Test(shrink_vote, less_than_half_of_the_plan_before_goes_on_nowhere)
{
	struct rd_shrink first = after_a_vote(0, 3);

	expect_vote(&first, RONDO_TIMEOUT);
	expect_vote(&first, RONDO_TIMEOUT);
}

/* It may be called again, and must then know the plan still. */
Test(shrink_vote, a_host_that_has_not_voted_keeps_the_plan_before)
{
	static const struct rd_settings settings = { .init_timeout_ms = 1000 };
	static int visit_of[] = { -1 };
	struct rd_shrink first = after_a_vote(0, 3);

	first.settings = &settings;
	first.size = 1;
	first.visit_of = visit_of;
	first.rings = &(struct rd_ring){ .fd = -1 };
	first.epoll_fd = -1;
	cr_expect_eq(rd_host_agree(&first, RONDO_TIMEOUT, true), RONDO_TIMEOUT);
	cr_expect_eq(rd_host_agree(&first, RONDO_DIED, false), 1);
	cr_expect_eq(vote.size, 3);
	expect_vote(&first, RONDO_TIMEOUT);
}

Test(shrink_vote, where_all_others_are_dead_for_certain_one_rank_goes_on)
{
	struct rd_shrink last = after_a_vote(2, 3);

	last.lost = 0;
	expect_vote(&last, 0);
}
