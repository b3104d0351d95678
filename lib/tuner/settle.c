#include "tuner/settle.h"

#include "tuner/thresholds.h"

/* Costs that are disturbed together, and replaced together. */
enum group { NEAR_LINKS, FAR_LINKS, MEMORY, SWITCHES, GROUP_COUNT };

/* Numbers of struct rd_costs, all of which are uint32_t. */
#define NUMBERS(group_, field) \
	{ \
		group_, offsetof(struct rd_costs, field) / sizeof(uint32_t), \
			sizeof(((struct rd_costs *)NULL)->field) / sizeof(uint32_t) \
	}
#define LINK(group_, class) \
	NUMBERS(group_, links[class].way_ns), NUMBERS(group_, links[class].busy_ns), \
		NUMBERS(group_, links[class].both_ns), NUMBERS(group_, links[class].send_ns), \
		NUMBERS(group_, links[class].recv_ns), NUMBERS(group_, links[class].past_caches)

static const struct numbers {
	enum group group;
	size_t first, count;
} all_numbers[] = { LINK(NEAR_LINKS, RD_NEAR), LINK(FAR_LINKS, RD_FAR), NUMBERS(MEMORY, copy_ps),
	NUMBERS(MEMORY, reduce_ps), NUMBERS(MEMORY, memory_copy_ps),
	NUMBERS(MEMORY, memory_reduce_ps), NUMBERS(MEMORY, beyond_copy_ps),
	NUMBERS(MEMORY, beyond_reduce_ps), NUMBERS(SWITCHES, switch_ns) };
#define NUMBERS_COUNT (sizeof(all_numbers) / sizeof(all_numbers[0]))

static uint32_t *at(struct rd_costs *costs, size_t number)
{
	return (uint32_t *)costs + number;
}

static uint32_t get(const struct rd_costs *costs, size_t number)
{
	return ((const uint32_t *)costs)[number];
}

/* The usual costs of links like the measured ones. On one host those through the kernel cost as
   much as between hosts, but for the network. Any link's messages may wait for a core. */
static struct rd_costs usual_like(const struct rd_costs *usual, const struct rd_costs *measured)
{
	struct rd_costs like = *usual;

	for (int class = 0; class < RD_LINK_CLASS_COUNT; class ++) {
		const struct rd_link_cost *link = &measured->links[class];
		bool in_kernel = class == RD_FAR || (link->posts && !link->single_copy);
		const struct rd_link_cost *from = &usual->links[in_kernel ? RD_FAR : RD_NEAR];

		for (int i = 0; i < RD_COST_POINT_COUNT; i++) {
			like.links[class].way_ns[i] = from->way_ns[i];
			like.links[class].busy_ns[i] = from->busy_ns[i];
			like.links[class].both_ns[i] = from->both_ns[i];
			like.links[class].send_ns[i] = link->send_ns[i] ? from->busy_ns[i] : 0;
			like.links[class].recv_ns[i] = link->recv_ns[i] ? from->busy_ns[i] : 0;
		}
	}
	return like;
}

static bool is_unusual(
	const struct rd_costs *usual, const struct numbers *numbers, size_t number, uint32_t cost)
{
	uint64_t most = get(usual, number);

	if (numbers->group <= FAR_LINKS)
		most += usual->switch_ns;
	return cost > RD_UNUSUAL * most;
}

bool rd_settling_add(
	struct rd_settling *settling, const struct rd_costs *measured, bool is_time_left)
{
	struct rd_costs usual = usual_like(&settling->usual, measured);
	bool again = settling->count > 0;

	settling->rounds[settling->count++] = *measured;
	for (size_t k = 0; k < NUMBERS_COUNT; k++)
		for (size_t i = 0; i < all_numbers[k].count; i++) {
			size_t number = all_numbers[k].first + i;

			again |= is_unusual(&usual, &all_numbers[k], number, get(measured, number));
		}
	return again && is_time_left && !settling->gave_up && settling->count < RD_SETTLE_ROUNDS;
}

/* The lower of two is their median. */
struct spread {
	uint32_t least, median;
};

static struct spread spread_of(const struct rd_settling *settling, size_t number)
{
	uint32_t sorted[RD_SETTLE_ROUNDS];

	for (int i = 0; i < settling->count; i++) {
		uint32_t cost = get(&settling->rounds[i], number);
		int k = i;

		for (; k > 0 && sorted[k - 1] > cost; k--)
			sorted[k] = sorted[k - 1];
		sorted[k] = cost;
	}
	return (struct spread){ sorted[0], sorted[(settling->count - 1) / 2] };
}

enum state { SETTLED, UNKNOWN, DISTURBED };

/* Within a host nothing is that slow, however often a busy machine repeats it. A network may be:
   two measurements that are alike show it, whatever delayed the third. */
static enum state judge(const struct rd_settling *settling, const struct rd_costs *usual,
	const struct numbers *numbers, size_t number, const struct spread *spread)
{
	if (settling->gave_up && numbers->group != FAR_LINKS)
		return DISTURBED;
	if (!is_unusual(usual, numbers, number, spread->median))
		return SETTLED;
	if (numbers->group != FAR_LINKS)
		return DISTURBED;
	if (settling->count < RD_SETTLE_ROUNDS)
		return UNKNOWN;
	return spread->median / RD_CONFIRMS <= spread->least ? SETTLED : DISTURBED;
}

bool rd_settling_end(const struct rd_settling *settling, struct rd_costs *costs)
{
	struct rd_costs usual = usual_like(&settling->usual, &settling->rounds[0]);
	enum state states[GROUP_COUNT] = { SETTLED }, worst = SETTLED;

	*costs = settling->rounds[0];
	for (size_t k = 0; k < NUMBERS_COUNT; k++)
		for (size_t i = 0; i < all_numbers[k].count; i++) {
			const struct numbers *numbers = &all_numbers[k];
			size_t number = numbers->first + i;
			struct spread spread = spread_of(settling, number);
			enum state state = judge(settling, &usual, numbers, number, &spread);

			*at(costs, number) = spread.median;
			if (state > states[numbers->group])
				states[numbers->group] = state;
		}
	for (size_t k = 0; k < NUMBERS_COUNT; k++) {
		enum state state = states[all_numbers[k].group];

		worst = state > worst ? state : worst;
		for (size_t i = 0; i < all_numbers[k].count && state == DISTURBED; i++)
			*at(costs, all_numbers[k].first + i) =
				get(&usual, all_numbers[k].first + i);
	}
	return worst == SETTLED;
}
