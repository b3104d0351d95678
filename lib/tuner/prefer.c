#include "tuner/pick.h"

#include <limits.h>

#include "tuner/thresholds.h"

/* The cheapest of those of the least load, or nearly so. */
static const struct rd_choice *lightest_of(const struct rd_choice *predicted, int count)
{
	const struct rd_choice *lightest = NULL;
	int load = INT_MAX;

	for (int i = 0; i < count; i++)
		if (!predicted[i].algorithm->direct_access && predicted[i].shape.load < load)
			load = predicted[i].shape.load;
	for (int i = 0; i < count; i++)
		if (!predicted[i].algorithm->direct_access &&
			predicted[i].shape.load <= load + load / RD_LOAD_ALIKE &&
			(!lightest || predicted[i].predicted_ns < lightest->predicted_ns))
			lightest = &predicted[i];
	return lightest;
}

/* The bounds within which an algorithm is preferred for its few rounds, or peers. */
struct slack {
	int64_t most_ns;
	int most_load;
	bool by_peers;
};

static struct slack alike(const struct rd_choice *best, int part, bool by_peers)
{
	return (struct slack){ best->predicted_ns + best->predicted_ns / part, best->shape.load,
		by_peers };
}

/* Within the slack, the algorithm of the fewest rounds or peers. */
static const struct rd_choice *fewest_of(const struct rd_choice *best, const struct slack *slack,
	const struct rd_choice *predicted, int count)
{
	const struct rd_choice *fewest = best;

	for (int i = 0; i < count; i++) {
		const struct rd_shape *shape = &predicted[i].shape;
		bool fewer = slack->by_peers ? shape->peers < fewest->shape.peers
					     : shape->rounds < fewest->shape.rounds;

		if (!predicted[i].algorithm->direct_access &&
			predicted[i].predicted_ns <= slack->most_ns &&
			shape->load <= slack->most_load && fewer)
			fewest = &predicted[i];
	}
	return fewest;
}

/*
 * Where ranks share cores, turns cost more than the model predicts, and messages less: the
 * calibrated cost of a message has turns in it. Many peers cost more, too, because each of their
 * links has memory of its own.
 *
 * The fewest rounds of light blocks are not for data that one rank has: it waits for no rank, and
 * others for few. A broadcast of 8 bytes among 8 ranks takes 2 us by binomial, and 20 by tree,
 * which has fewer rounds.
 */
static struct slack oversubscribed_slack(const struct rd_tuner_config *config,
	enum rd_collective collective, uint64_t block_size, const struct rd_choice *best)
{
	const struct rd_link_cost *link = &config->costs.links[RD_NEAR];
	bool from_all = !rd_collective_has_root(collective);

	/* A link that sends from the user's memory without single copy hands the bytes to the
	   kernel. A message's time does not show this: it has turns in it. */
	if (link->posts && !link->single_copy)
		return alike(best, RD_ALIKE_IN_KERNEL, false);
	if (from_all && block_size < RD_FEW_MOST)
		return (struct slack){ RD_FEW_TIME * best->predicted_ns,
			best->shape.load * RD_FEW_LOAD / 2, false };
	if (from_all && block_size < RD_LIGHT_MOST)
		return (struct slack){ RD_LIGHT_TIME * best->predicted_ns,
			best->shape.load * RD_LIGHT_LOAD / 2, false };
	if (rd_ns_product(block_size, (uint64_t)best->shape.load) / 1000 > RD_PEERS_ABOVE)
		return alike(best, RD_ALIKE_BY_PEERS, true);
	return alike(best, RD_ALIKE, false);
}

/* Between hosts the network outweighs these effects. */
const struct rd_choice *rd_prefer(const struct rd_tuner_config *config,
	enum rd_collective collective, uint64_t block_size, const struct rd_choice *cheapest,
	const struct rd_choice *predicted, int count)
{
	bool oversubscribed = (uint32_t)config->size > config->costs.cores;
	const struct rd_choice *best = cheapest;
	struct slack slack;

	if (config->layout && config->layout->group_count > 1)
		return cheapest;
	if (!oversubscribed && block_size >= RD_ALIKE_MOST)
		return cheapest;
	if (oversubscribed && block_size >= RD_HEAVY_LEAST) {
		const struct rd_choice *lightest = lightest_of(predicted, count);

		if (lightest->predicted_ns < RD_HEAVY_TIME * cheapest->predicted_ns)
			best = lightest;
	}
	slack = oversubscribed ? oversubscribed_slack(config, collective, block_size, best)
			       : alike(best, RD_ALIKE, false);
	return fewest_of(best, &slack, predicted, count);
}
