#include "tuner/predict.h"

#include <stdlib.h>

#include "tuner/replay.h"
#include "tuner/thresholds.h"
#include "exec/slice.h"

/* A call that never ends takes longer than any other (RD_CALL_NS_MAX). */
#define NEVER (INT64_MAX / 4)
/* No memory has more bytes; computing with more would overflow 64 bits. */
#define BLOCK_MAX (UINT64_C(1) << 62)

/* ---- Adding up ------------------------------------------------------------------------------ */

/* The work of each rank schedule, in ns. The tuner's schedules have few; a whole one may have more,
   which get memory of their own. */
struct sums {
	int64_t few[RD_REPLAYED_MAX];
	int64_t *rank_ns; /* NULL: there was no memory */
};

_Static_assert(RD_SAMPLED + RD_SAMPLED_EDGES <= RD_REPLAYED_MAX,
	"the tuner's schedules have no more rank schedules");

static void begin_sums(struct sums *sums, const struct rd_schedule *schedule)
{
	sums->rank_ns = schedule->rank_count <= RD_REPLAYED_MAX
				? sums->few
				: calloc((size_t)schedule->rank_count, sizeof(*sums->rank_ns));
}

static void end_sums(struct sums *sums)
{
	if (sums->rank_ns != sums->few)
		free(sums->rank_ns);
}

static void add_up(
	struct sums *sums, const struct rd_schedule *schedule, const struct rd_step_cost *step_cost)
{
	for (int row = 0; row < schedule->rank_count; row++) {
		const struct rd_rank_schedule *rank = &schedule->rank_schedules[row];
		int64_t sum = 0;

		for (int i = 0; i < rank->count; i++) {
			const struct rd_event *event = &schedule->events[rank->first + i];

			sum += event->times *
			       rd_step_cost_event_ns(step_cost, event, schedule->size);
		}
		sums->rank_ns[row] = sum;
	}
}

static int takes_count(const struct rd_schedule *schedule, int row)
{
	int count = 0;

	for (int i = 0; i < schedule->rank_schedules[row].count; i++) {
		const struct rd_event *event =
			&schedule->events[schedule->rank_schedules[row].first + i];

		count += event->takes ? event->times : 0;
	}
	return count;
}

/* A host's cores share the work of its ranks. Ranks outside the sample count as busy as those in
   it. Each message that one takes costs more_ns more. */
static int64_t host_ns(const struct rd_schedule *schedule, const struct rd_costs *costs,
	const struct sums *sums, int host, int64_t more_ns)
{
	int64_t sum = 0;
	int rank_schedules = 0;

	for (int i = 0; i < schedule->even_count; i++) {
		if (schedule->rank_schedules[i].host != host)
			continue;
		rank_schedules++;
		sum += sums->rank_ns[i];
		if (more_ns > 0)
			sum += more_ns * takes_count(schedule, i);
	}
	if (rank_schedules == 0)
		return 0;
	return rd_ns_product((uint64_t)sum, (uint64_t)schedule->host_ranks[host]) / rank_schedules /
	       costs->cores;
}

/* A host's cable carries the messages of all its ranks, at once in each direction. A sample has few
   ranks of each host, so it shows the mean host's. */
static int64_t cable_ns(
	const struct rd_schedule *schedule, const struct rd_step_cost *step_cost, int host)
{
	int64_t out = 0, in = 0;
	int rank_schedules = 0;

	for (int i = 0; i < schedule->even_count; i++) {
		const struct rd_rank_schedule *rank = &schedule->rank_schedules[i];
		bool counts = schedule->sampled || rank->host == host;

		rank_schedules += counts;
		for (int k = 0; counts && k < rank->count; k++) {
			const struct rd_event *event = &schedule->events[rank->first + k];

			out += event->puts && event->to == RD_FAR ? event->times : 0;
			in += event->takes && event->from == RD_FAR ? event->times : 0;
		}
	}
	return rank_schedules == 0
		       ? 0
		       : rd_ns_product((uint64_t)(rd_longer(out, in) * schedule->host_ranks[host]),
				 (uint64_t)step_cost->message[RD_FAR].cable_ns) /
				 rank_schedules;
}

/* The least that a piece takes however many are under way: the busiest rank, or where ranks share
   cores, the busiest host, or its cable. */
static int64_t busy_ns(const struct rd_schedule *schedule, const struct rd_step_cost *step_cost,
	const struct sums *sums)
{
	int64_t busiest = 0;

	for (int i = 0; i < schedule->rank_count; i++)
		busiest = rd_longer(busiest, sums->rank_ns[i]);
	for (int host = 0; host < schedule->host_count; host++) {
		busiest = rd_longer(busiest, host_ns(schedule, step_cost->costs, sums, host, 0));
		busiest = rd_longer(busiest, cable_ns(schedule, step_cost, host));
	}
	return busiest;
}

static bool has_rails(const struct rd_costs *costs)
{
	for (int class = 0; class < RD_LINK_CLASS_COUNT; class ++)
		if (costs->links[class].rails > 1)
			return true;
	return false;
}

/* The same over each number of channels. `sums` is of one before, and of any after. */
static void find_busy(struct rd_timing *timing, const struct rd_schedule *schedule,
	const struct rd_step_cost *step_cost, struct sums *sums, int channels)
{
	timing->busy_ns[0] = busy_ns(schedule, step_cost, sums);
	for (int more = 2; more <= channels; more++) {
		timing->busy_ns[more - 1] = timing->busy_ns[0];
		if (!has_rails(step_cost->costs))
			continue;

		struct rd_step_cost striped = rd_step_cost_striped(step_cost, more);

		add_up(sums, schedule, &striped);
		timing->busy_ns[more - 1] = busy_ns(schedule, &striped, sums);
	}
}

static int64_t path_ns(const struct rd_path *path, const struct rd_step_cost *step_cost, int size)
{
	int64_t ns = 0;

	for (int i = 0; i < path->work.count; i++)
		ns += path->work.events[i].times *
		      rd_step_cost_event_ns(step_cost, &path->work.events[i], size);
	for (int i = 0; i < path->flights.count; i++)
		ns += path->flights.events[i].times *
		      rd_step_cost_flight_ns(step_cost, &path->flights.events[i]);
	return path->hops > 0 ? rd_ns_product((uint64_t)ns, (uint64_t)path->all) / path->hops : ns;
}

/* The work of the busiest rank, which waits for each message from the moment it was sent. */
static int64_t waiting_ns(const struct rd_schedule *schedule, const struct rd_step_cost *step_cost,
	const struct sums *sums)
{
	int64_t longest = 0;

	for (int i = 0; i < schedule->rank_count; i++) {
		int64_t sum = sums->rank_ns[i];

		for (int k = 0; k < schedule->rank_schedules[i].count; k++) {
			const struct rd_event *event =
				&schedule->events[schedule->rank_schedules[i].first + k];

			if (event->receives)
				sum += event->times * step_cost->message[event->from].flight_ns;
		}
		longest = rd_longer(longest, sum);
	}
	return longest;
}

/* Too many ranks to replay: the first piece takes the path of messages. The next one begins when a
   rank is done with this one's messages, from the first to the last. Where ranks share cores, adds
   a switch now and then. */
static void time_sampled(const struct rd_schedule *schedule, const struct rd_step_cost *step_cost,
	const struct sums *sums, struct rd_timing *timing)
{
	const struct rd_costs *costs = step_cost->costs;

	timing->first_ns = path_ns(&schedule->paths[0], step_cost, schedule->size);
	timing->each_ns = rd_longer(waiting_ns(schedule, step_cost, sums),
		timing->first_ns - path_ns(&schedule->paths[1], step_cost, schedule->size));
	for (int host = 0; host < schedule->host_count; host++)
		if (schedule->host_ranks[host] > (int)costs->cores)
			timing->first_ns = rd_longer(
				timing->first_ns, host_ns(schedule, costs, sums, host,
							  costs->switch_ns / RD_TURNS_ONE_IN));
	timing->each_ns = rd_shorter(timing->first_ns, timing->each_ns);
}

/* ---- Prediction ------------------------------------------------------------------------------ */

/* How the executor cuts a block (slice.h): slices of equal length that fit a message. */
static void cut(int parts, const struct rd_cut *how, uint64_t *slice, uint64_t *pieces)
{
	uint64_t block = how->block_size < BLOCK_MAX ? how->block_size : BLOCK_MAX, chunk = block;

	if (parts > 1) {
		chunk = (chunk + (unsigned)parts - 1) / (unsigned)parts;
		chunk = (chunk + RD_SLICE_ALIGNMENT - 1) / RD_SLICE_ALIGNMENT * RD_SLICE_ALIGNMENT;
		chunk = chunk < block ? chunk : block;
	}
	*pieces = chunk <= how->piece_size ? 1 : (chunk + how->piece_size - 1) / how->piece_size;
	*slice = (chunk + *pieces - 1) / *pieces;
}

/* Whether a rank's input and output are more than a core's own caches hold. */
static bool is_in_memory(int blocks, const struct rd_costs *costs, const struct rd_cut *how)
{
	return how->block_size > costs->cache_bytes / (unsigned)blocks;
}

/* Thousandths of the buffers' bytes that the caches of all cores do not hold. Other programs use
   these caches, too: with the bytes of all ranks of a host this share grows evenly. */
static uint32_t beyond_share(
	uint64_t near_blocks, const struct rd_costs *costs, const struct rd_cut *how)
{
	if (costs->shared_cache_bytes == 0)
		return 0;
	if (how->block_size >= costs->shared_cache_bytes / near_blocks)
		return 1000;
	return (uint32_t)(how->block_size * near_blocks * 1000 / costs->shared_cache_bytes);
}

static uint32_t between_ps(uint32_t memory_ps, uint32_t beyond_ps, uint32_t share)
{
	return (uint32_t)(memory_ps + ((int64_t)beyond_ps - memory_ps) * share / 1000);
}

static struct rd_buffer_cost buffer_cost(
	int blocks, uint64_t near_blocks, const struct rd_costs *costs, const struct rd_cut *how)
{
	uint32_t share;

	if (!is_in_memory(blocks, costs, how))
		return (struct rd_buffer_cost){ costs->copy_ps, costs->reduce_ps[how->type] };
	share = beyond_share(near_blocks, costs, how);
	return (struct rd_buffer_cost){
		.copy_ps = between_ps(costs->memory_copy_ps, costs->beyond_copy_ps, share),
		.reduce_ps = between_ps(costs->memory_reduce_ps[how->type],
			costs->beyond_reduce_ps[how->type], share),
	};
}

struct rd_step_cost rd_cut_costs(int parts, int blocks, uint64_t near_blocks,
	const struct rd_costs *costs, const struct rd_cut *how, uint64_t *pieces)
{
	uint64_t slice;

	cut(parts, how, &slice, pieces);
	return rd_step_cost_of(
		costs, slice, how->type, buffer_cost(blocks, near_blocks, costs, how));
}

/* The most ranks that take turns on one core. */
static int most_turns(const struct rd_schedule *schedule, const struct rd_costs *costs)
{
	int most = 1;

	for (int host = 0; host < schedule->host_count; host++) {
		int cores = (int)costs->cores;
		int turns = (schedule->host_ranks[host] - 1) / cores + 1;

		most = turns > most ? turns : most;
	}
	return most;
}

/* How many of these begin in a replay of their own. Where ranks are many, fewer do. */
static int replays_of(const struct rd_schedule *schedule, int turns)
{
	int most = RD_REPLAYED_MAX / schedule->rank_count;

	most = most > RD_REPLAYED_TURNS ? RD_REPLAYED_TURNS : most < 1 ? 1 : most;
	return turns < most ? turns : most;
}

/* A call finds the ranks of a core at any of their turns: the mean over who has the first one. */
static bool replay(const struct rd_schedule *schedule, const struct rd_step_cost *step_cost,
	int pieces, struct rd_timing *timing)
{
	int turns = most_turns(schedule, step_cost->costs), replays = replays_of(schedule, turns);
	int64_t later_ns = 0;
	struct rd_replayed replayed;

	for (int i = 0; i < replays; i++) {
		if (!rd_replay(schedule, step_cost, pieces, i * turns / replays, &replayed))
			return false;
		timing->first_ns += replayed.ends_ns[0] / replays;
		later_ns += (replayed.ends_ns[pieces - 1] - replayed.ends_ns[0]) / replays;
	}
	if (pieces > 1)
		timing->each_ns = later_ns / (pieces - 1);
	return true;
}

struct rd_timing rd_timing_of(
	const struct rd_schedule *schedule, const struct rd_costs *costs, const struct rd_cut *how)
{
	struct rd_timing timing = { 0 };
	struct rd_step_cost step_cost = rd_cut_costs(schedule->parts, schedule->blocks,
		schedule->near_blocks, costs, how, &timing.pieces);
	int pieces = (int)(timing.pieces < RD_REPLAYED_PIECES ? timing.pieces : RD_REPLAYED_PIECES);

	struct sums sums;
	bool summed;

	begin_sums(&sums, schedule);
	summed = sums.rank_ns != NULL;
	if (summed) {
		add_up(&sums, schedule, &step_cost);
		if (schedule->sampled)
			time_sampled(schedule, &step_cost, &sums, &timing);
		find_busy(&timing, schedule, &step_cost, &sums, how->channels);
	}
	end_sums(&sums);
	if (summed && schedule->sampled) {
		timing.first_ns = rd_longer(timing.first_ns, timing.busy_ns[0]);
		return timing;
	}
	if (!summed || !replay(schedule, &step_cost, pieces, &timing)) {
		timing.first_ns = NEVER;
		timing.pieces = 1;
	}
	return timing;
}

int64_t rd_timing_predict(const struct rd_timing *timing, int channels)
{
	/* Pieces and channels hide each other's waiting, but not each other's work. */
	int64_t each = rd_longer(timing->each_ns / channels, timing->busy_ns[channels - 1]);

	int64_t all = timing->first_ns + rd_ns_product(timing->pieces - 1, (uint64_t)each);

	return rd_longer(timing->first_ns, rd_shorter(all, RD_CALL_NS_MAX));
}

int64_t rd_predict(
	const struct rd_schedule *schedule, const struct rd_costs *costs, const struct rd_cut *how)
{
	struct rd_timing timing = rd_timing_of(schedule, costs, how);

	return rd_timing_predict(&timing, how->channels);
}

/* ---- Properties without costs --------------------------------------------------------------- */

static int rounds_of(const struct rd_schedule *schedule)
{
	struct rd_costs costs = { .cores = INT32_MAX };
	struct rd_cut cut = { 0, RD_WHOLE, SIZE_MAX, 1 };

	for (int class = 0; class < RD_LINK_CLASS_COUNT; class ++)
		for (int point = 0; point < RD_COST_POINT_COUNT; point++)
			costs.links[class].way_ns[point] = 1000;
	return (int)((rd_predict(schedule, &costs, &cut) + 500) / 1000);
}

static int load_of(const struct rd_schedule *schedule)
{
	int64_t taken = 0;

	for (int row = 0; row < schedule->even_count; row++)
		taken += takes_count(schedule, row);
	return (int)(taken * 1000 / schedule->parts / schedule->even_count);
}

struct rd_shape rd_schedule_shape(const struct rd_schedule *schedule)
{
	return (struct rd_shape){ rounds_of(schedule), schedule->peers, load_of(schedule) };
}
