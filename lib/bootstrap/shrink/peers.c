/* The ranks of a quorum: whether they come, and whether one may vote. */
#include "bootstrap/shrink/quorum.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/place.h"

void rd_quorum_fail(struct rd_quorum *quorum, int error, const char *format, ...)
{
	char reason[RD_REASON_SIZE];
	va_list args;

	/* The text may be among the arguments. */
	va_start(args, format);
	vsnprintf(reason, sizeof(reason), format, args);
	va_end(args);
	memcpy(quorum->reason, reason, sizeof(reason));
	quorum->error = error;
	quorum->phase = RD_QUORUM_FAILED;
}

void rd_quorum_dial(struct rd_quorum *quorum, int rank, int64_t now_ms)
{
	struct rd_quorum_peer *peer = &quorum->peers[rank];

	peer->dials = true;
	peer->attempt = ++quorum->attempts;
	peer->answered = false;
	peer->next_ms = now_ms + quorum->settings->heartbeat_timeout_ms;
}

bool rd_quorum_judge(struct rd_quorum *quorum, int rank, int error, int64_t now_ms)
{
	struct rd_quorum_peer *peer = &quorum->peers[rank];
	bool sure = peer->standing == RD_ACCUSED ||
		    rd_place_same_host(
			    &quorum->members[quorum->rank].place, &quorum->members[rank].place);

	/* On another host, a firewall may refuse as a kernel does, and mostly for a moment. */
	if (error == ECONNREFUSED && !sure && now_ms < quorum->doubts_ms)
		return false;
	peer->standing = error == ECONNREFUSED && sure ? RD_DIED : RD_ABSENT;
	return true;
}

void rd_quorum_doubt(struct rd_quorum *quorum, int64_t now_ms)
{
	quorum->doubts_ms = now_ms + RD_QUORUM_DOUBTS_MS;
}

/* ---- Votes ---------------------------------------------------------------------------------- */

static bool is_in(const struct rd_vote *plan, int origin)
{
	for (int i = 0; i < plan->size; i++)
		if (plan->origins[i] == origin)
			return true;
	return false;
}

static bool list_ranks(
	const struct rd_quorum *quorum, const struct rd_member *members, struct rd_vote *plan)
{
	plan->size = members ? quorum->planned : 1;
	plan->origins = calloc((size_t)plan->size, sizeof(*plan->origins));
	for (int i = 0; i < plan->size && plan->origins; i++)
		plan->origins[i] = members ? members[i].lineage.origin
					   : quorum->members[quorum->rank].lineage.origin;
	return plan->origins;
}

/* How many ranks of the plan before are here, where those that are not may go on elsewhere; -1:
   they cannot. Where all that are missing are dead for certain, nobody can. */
static int count_too_few(const struct rd_quorum *quorum, const struct rd_vote *plan)
{
	const struct rd_vote *before = quorum->vote;
	int here = 0;

	for (int i = 0; i < before->size; i++)
		here += is_in(plan, before->origins[i]);
	if (before->size == 0 || quorum->lost == 0 || 2 * here > before->size ||
		(2 * here == before->size && is_in(plan, before->origins[0])))
		return -1;
	return here;
}

int rd_vote(struct rd_quorum *quorum, const struct rd_member *members)
{
	struct rd_vote plan;
	int here = -1;

	quorum->error = 0;
	if (!list_ranks(quorum, members, &plan))
		rd_quorum_fail(quorum, RONDO_MEMORY, "rank %d has no memory to shrink a comm",
			quorum->rank);
	else if ((here = count_too_few(quorum, &plan)) >= 0)
		rd_quorum_fail(quorum, RONDO_TIMEOUT,
			"rank %d made a comm of %d ranks, and was cut off before it knew whether "
			"they go on: %d of them are here, fewer than half, or half without the "
			"first",
			quorum->rank, quorum->vote->size, here);
	if (quorum->error) {
		free(plan.origins);
		return quorum->error;
	}
	rd_vote_forget(quorum->vote);
	*quorum->vote = plan;
	return 0;
}

void rd_vote_forget(struct rd_vote *vote)
{
	free(vote->origins);
	*vote = (struct rd_vote){ 0 };
}
