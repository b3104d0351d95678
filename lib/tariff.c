#include "tariff.h"

/* Half so many times as long as an input, which no one has written for a while, takes what the peer
   has just written: its lines must come out of the peer's cache. Measured: 10.6 against 6.5 us for
   64 KiB. */
#define FRESH 3

struct rd_tariff rd_tariff_of(const struct rd_costs *costs, enum rd_dealing dealing, uint64_t slice,
	enum rd_type_class type)
{
	struct rd_tariff tariff = { .costs = costs };

	for (int class = 0; class < RD_LINK_CLASS_COUNT; class ++) {
		const struct rd_link_cost *link = &costs->links[class];

		tariff.copied[class] = rd_message_cost(link, slice, false);
		tariff.posted[class] = rd_message_cost(link, slice, true);
		tariff.empty[class] = rd_message_cost(link, 0, false);
		tariff.posts[class] = link->posts && slice >= link->posts_min &&
				      (!link->lends || slice >= costs->lend_min[dealing]);
	}
	tariff.copy_ns = (int64_t)(slice * costs->copy_ps / 1000);
	tariff.reduce_ns = (int64_t)(slice * costs->reduce_ps[type] / 1000);
	tariff.reach_ns = tariff.copied[RD_NEAR].recv_ns - tariff.empty[RD_NEAR].recv_ns;
	/* A single copy is as good, but for the call that makes it. */
	if (costs->links[RD_NEAR].lends && slice >= costs->links[RD_NEAR].posts_min)
		tariff.reach_ns = rd_shorter(tariff.reach_ns, tariff.posted[RD_NEAR].recv_ns);
	tariff.reach_ns = rd_longer(tariff.copy_ns, tariff.reach_ns);
	return tariff;
}

static bool is_posted(const struct rd_tariff *tariff, const struct rd_score_note *note)
{
	return tariff->posts[note->to] && note->lies &&
	       !(tariff->costs->links[note->to].lends && note->wanted);
}

static bool is_lent(const struct rd_tariff *tariff, const struct rd_score_note *note)
{
	return tariff->costs->links[note->to].lends && is_posted(tariff, note);
}

static int64_t send_ns(const struct rd_tariff *tariff, const struct rd_score_note *note)
{
	return is_posted(tariff, note) ? tariff->posted[note->to].send_ns
				       : tariff->copied[note->to].send_ns;
}

/* Taking it, and combining where that is done: in one pass over what lies in the link's room, but
   in a second where it has to be fetched first. */
static int64_t recv_ns(const struct rd_tariff *tariff, const struct rd_score_note *note,
	const struct rd_score_note *put)
{
	bool reduces = note->kind == RD_STEP_RECV_REDUCE || note->kind == RD_STEP_REDUCE_FORWARD ||
		       note->kind == RD_STEP_HOLD;

	if (put && is_lent(tariff, put))
		return tariff->posted[note->from].recv_ns * (put->fresh ? FRESH : 2) / 2 +
		       (reduces ? tariff->reduce_ns : 0);
	return tariff->copied[note->from].recv_ns +
	       (reduces ? rd_longer(0, tariff->reduce_ns - tariff->copy_ns) : 0);
}

/* A value that came in goes out again: from memory where the link sends from there, else it is
   written straight into the outgoing room. */
static int64_t pass_on_ns(const struct rd_tariff *tariff, const struct rd_score_note *note)
{
	if (is_posted(tariff, note))
		return tariff->posted[note->to].send_ns;
	return tariff->empty[note->to].send_ns + (note->stores ? tariff->copy_ns : 0);
}

int64_t rd_tariff_note_ns(const struct rd_tariff *tariff, const struct rd_score_note *note,
	const struct rd_score_note *put, int size)
{
	switch (note->kind) {
	case RD_STEP_SEND:
		return send_ns(tariff, note);
	case RD_STEP_RECV:
	case RD_STEP_RECV_REDUCE:
	case RD_STEP_HOLD: /* and its part of the MERGE, which takes nothing more */
		return recv_ns(tariff, note, put);
	case RD_STEP_FORWARD:
	case RD_STEP_REDUCE_FORWARD:
		return recv_ns(tariff, note, put) + pass_on_ns(tariff, note);
	case RD_STEP_COPY:
		return tariff->copy_ns;
	case RD_STEP_SIGNAL:
		return tariff->empty[note->to].send_ns;
	case RD_STEP_AWAIT:
		return tariff->empty[note->from].recv_ns;
	case RD_STEP_FETCH:
		return tariff->reach_ns;
	case RD_STEP_SPREAD:
		return tariff->copy_ns + (size - 1) * tariff->reach_ns;
	case RD_STEP_SWAP:
		return 2 * tariff->reach_ns + tariff->copy_ns;
	case RD_STEP_COMBINE:
		/* All inputs but our own come from elsewhere, and all outputs but our own go there.
		 */
		return (size - 1) * rd_longer(tariff->reduce_ns, tariff->reach_ns) +
		       tariff->copy_ns + (note->outs - 1) * tariff->reach_ns;
	default:
		return 0;
	}
}

int64_t rd_tariff_flight_ns(const struct rd_tariff *tariff, const struct rd_score_note *note)
{
	if (note->kind == RD_STEP_SIGNAL)
		return tariff->empty[note->to].flight_ns;
	return is_posted(tariff, note) ? tariff->posted[note->to].flight_ns
				       : tariff->copied[note->to].flight_ns;
}

int64_t rd_tariff_copy_ns(const struct rd_tariff *tariff, const struct rd_score_note *put)
{
	if (!is_lent(tariff, put))
		return 0;
	return tariff->copied[put->to].send_ns - tariff->empty[put->to].send_ns;
}
