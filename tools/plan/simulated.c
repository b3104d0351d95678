#include "simulated.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/json.h"
#include "commands.h"
#include "document.h"

#define LINES_MOST 10 /* of a list, in text */
/* Steps of one simulation. Each takes some ten nanoseconds: these take hours. */
#define STEPS_MOST INT64_C(100000000000)

/* ---- Running one ---------------------------------------------------------------------------- */

static int make_faults(struct plan_simulated *simulated)
{
	const struct plan_options *options = simulated->options;
	size_t ranks = (size_t)options->ranks;

	simulated->slow = malloc(ranks * sizeof(*simulated->slow));
	simulated->deaths_ps = malloc(ranks * sizeof(*simulated->deaths_ps));
	if (!simulated->slow || !simulated->deaths_ps)
		return rd_fail(RONDO_MEMORY, "no memory for a simulation");
	for (size_t rank = 0; rank < ranks; rank++) {
		simulated->slow[rank] = 1000;
		simulated->deaths_ps[rank] = INT64_MAX;
	}
	for (int i = 0; i < options->slow.count; i++)
		simulated->slow[options->slow.list[i].rank] = (int)options->slow.list[i].value;
	for (int i = 0; i < options->kills.count; i++)
		simulated->deaths_ps[options->kills.list[i].rank] = options->kills.list[i].value;
	return 0;
}

int plan_simulated_check(const struct plan_problem *made, const struct rd_algorithm *algorithm)
{
	return plan_can_simulate(made, algorithm)
		       ? 0
		       : rd_fail(RONDO_INVALID, "%s has direct access, and works within one host",
				 algorithm->name);
}

int plan_simulated_create(struct plan_simulated *simulated, const struct plan_problem *made,
	const struct plan_options *options, const struct rd_algorithm *algorithm,
	struct network *network)
{
	*simulated = (struct plan_simulated){
		.made = made, .options = options, .algorithm = algorithm, .network = network
	};

	int err = make_faults(simulated);

	if (!err)
		err = packed_create(&simulated->packed, algorithm, &made->problem);
	if (err)
		plan_simulated_destroy(simulated);
	return err;
}

static struct rd_step_cost cut_costs(
	const struct plan_simulated *simulated, size_t size, uint64_t *pieces)
{
	const struct plan_problem *made = simulated->made;
	struct rd_cut cut = plan_cut(simulated->options, simulated->algorithm, size);

	return rd_cut_costs(simulated->packed->parts, rd_most_blocks(&made->problem),
		rd_most_near_blocks(&made->problem), &made->costs, &cut, pieces);
}

int64_t plan_simulated_steps(const struct plan_simulated *simulated, size_t size)
{
	int64_t steps = 0;
	uint64_t pieces;

	cut_costs(simulated, size, &pieces);
	for (int rank = 0; rank < simulated->packed->size; rank++)
		steps += simulated->packed->plans[rank].count;
	return __builtin_mul_overflow(pieces, steps, &steps) ? INT64_MAX : steps;
}

int plan_simulated_run(struct plan_simulated *simulated, size_t size)
{
	const struct plan_problem *made = simulated->made;
	struct rd_step_cost step_cost = cut_costs(simulated, size, &simulated->pieces);
	struct simulation_setup setup = {
		.packed = simulated->packed,
		.step_cost = &step_cost,
		.pieces = simulated->pieces,
		.hosts = made->group,
		.network = simulated->network,
		.slow = simulated->slow,
		.starts_ps = simulated->starts_ps,
		.deaths_ps = simulated->deaths_ps,
		.jitter = simulated->options->jitter * 10,
		.seed = (uint64_t)simulated->options->seed,
		.watch = simulated->watch,
		.watch_context = simulated->watch_context,
	};

	simulation_finish(&simulated->simulation);
	simulated->size = size;
	if (plan_simulated_steps(simulated, size) > STEPS_MOST)
		return rd_fail(RONDO_UNSUPPORTED,
			"%s of %zu bytes has more than %" PRId64 " steps to simulate: give a "
			"larger --piece",
			simulated->algorithm->name, size, STEPS_MOST);

	int err = simulation_run(&simulated->simulation, &setup);

	if (!err && simulated->simulation.stuck && simulated->options->kills.count == 0)
		err = rd_fail(RONDO_INVALID, "the ranks of %s wait for each other for ever",
			simulated->algorithm->name);
	return err;
}

void plan_simulated_destroy(struct plan_simulated *simulated)
{
	simulation_finish(&simulated->simulation);
	packed_destroy(simulated->packed);
	free(simulated->slow);
	free(simulated->deaths_ps);
	*simulated = (struct plan_simulated){ 0 };
}

/* ---- Text ----------------------------------------------------------------------------------- */

static const char *end_name(enum simulated_end end)
{
	static const char *const names[] = { "ended", "died", "waits" };

	return names[end];
}

static const char *ps_text(int64_t ps, char text[PLAN_TIME_SIZE])
{
	return plan_time_text(ps / 1000, text);
}

/* The rank of the first, or last, end; the busiest. -1: none ended. */
struct extremes {
	int first, last, busiest, ended;
};

static struct extremes extremes_of(const struct simulation *simulation)
{
	struct extremes it = { -1, -1, 0, 0 };

	for (int rank = 0; rank < simulation->rank_count; rank++) {
		const struct simulated_rank *at = &simulation->ranks[rank];

		if (at->work_ps > simulation->ranks[it.busiest].work_ps)
			it.busiest = rank;
		if (at->end != SIMULATED_ENDED)
			continue;
		it.ended++;
		if (it.first < 0 || at->end_ps < simulation->ranks[it.first].end_ps)
			it.first = rank;
		if (it.last < 0 || at->end_ps > simulation->ranks[it.last].end_ps)
			it.last = rank;
	}
	return it;
}

static void write_ends(const struct simulation *simulation, FILE *out)
{
	struct extremes it = extremes_of(simulation);
	char first[PLAN_TIME_SIZE], last[PLAN_TIME_SIZE], work[PLAN_TIME_SIZE];

	if (it.ended > 0 && simulation->ranks[it.first].end_ps == simulation->end_ps)
		fprintf(out, "%d rank%s ended after %s\n", it.ended, RD_PLURAL(it.ended),
			ps_text(simulation->end_ps, last));
	else if (it.ended > 0)
		fprintf(out, "%d rank%s ended: rank %d first, after %s, rank %d last, after %s\n",
			it.ended, RD_PLURAL(it.ended), it.first,
			ps_text(simulation->ranks[it.first].end_ps, first), it.last,
			ps_text(simulation->ranks[it.last].end_ps, last));
	fprintf(out, "rank %d has the most work: %s\n", it.busiest,
		ps_text(simulation->ranks[it.busiest].work_ps, work));
}

/* Another rank on the host of a dead one waits for its death (bootstrap/peer_watch.h). */
static int watcher_of(const struct plan_simulated *simulated, int dead)
{
	const struct simulated_rank *ranks = simulated->simulation.ranks;

	for (int rank = 0; rank < simulated->simulation.rank_count; rank++)
		if (simulated->made->group[rank] == simulated->made->group[dead] &&
			(ranks[rank].end != SIMULATED_DIED ||
				ranks[rank].end_ps > ranks[dead].end_ps))
			return rank;
	return -1;
}

static void write_death(const struct plan_simulated *simulated, int rank, FILE *out)
{
	char time[PLAN_TIME_SIZE];
	int watcher = watcher_of(simulated, rank);

	fprintf(out, "rank %d died after %s; ", rank,
		ps_text(simulated->simulation.ranks[rank].end_ps, time));
	if (watcher >= 0)
		fprintf(out, "a rank on its host, such as %d, reports that at once", watcher);
	else
		fprintf(out, "no rank is left on its host, and the end of %s reports that at once",
			rank == 0 ? "the others' connections to it" : "its connection to rank 0");
	fprintf(out, "; were its host lost, %s would after 10 s without a heartbeat\n",
		rank == 0 ? "the others" : "rank 0");
}

static void write_faults(const struct plan_simulated *simulated, FILE *out)
{
	const struct simulation *simulation = &simulated->simulation;
	char time[PLAN_TIME_SIZE];
	int waiting = 0;

	for (int rank = 0; rank < simulation->rank_count; rank++)
		if (simulation->ranks[rank].end == SIMULATED_DIED)
			write_death(simulated, rank, out);
	for (int rank = 0; rank < simulation->rank_count; rank++)
		waiting += simulation->ranks[rank].end == SIMULATED_WAITS;
	if (waiting > 0)
		fprintf(out, "%d rank%s would wait for ever\n", waiting, RD_PLURAL(waiting));
	for (int rank = 0, left = LINES_MOST; rank < simulation->rank_count && left > 0; rank++)
		if (simulation->ranks[rank].end == SIMULATED_WAITS && left-- > 0)
			fprintf(out, "  rank %d for rank %d, since %s\n", rank,
				simulation->ranks[rank].waits_for,
				ps_text(simulation->ranks[rank].end_ps, time));
	if (waiting > LINES_MOST)
		fprintf(out, "  ... (--tsv and --json have all)\n");
}

/* When the last event was: the links' use is a part of that. */
static int64_t span_ps(const struct simulation *simulation)
{
	int64_t span = 1;

	for (int rank = 0; rank < simulation->rank_count; rank++)
		if (simulation->ranks[rank].end_ps > span)
			span = simulation->ranks[rank].end_ps;
	return span;
}

static double share_of(const struct simulation *simulation, int link)
{
	return 100.0 * (double)simulation->links[link].busy_ps / (double)span_ps(simulation);
}

/* The busiest link that is less busy than `before`, or as busy and later; -1: none is left. */
static int next_busiest(const struct simulation *simulation, int before)
{
	const struct simulated_link *links = simulation->links;
	int best = -1;

	for (int i = 0; i < simulation->link_count; i++) {
		bool left = before < 0 || links[i].busy_ps < links[before].busy_ps ||
			    (links[i].busy_ps == links[before].busy_ps && i > before);

		if (left && links[i].messages > 0 &&
			(best < 0 || links[i].busy_ps > links[best].busy_ps))
			best = i;
	}
	return best;
}

static void write_links(const struct plan_simulated *simulated, FILE *out)
{
	const struct simulation *simulation = &simulated->simulation;
	int used = 0, link = -1;

	for (int i = 0; i < simulation->link_count; i++)
		used += simulation->links[i].messages > 0;
	fprintf(out, "%d of %d links were used; the busiest:\n", used, simulation->link_count);
	for (int i = 0; i < LINES_MOST && (link = next_busiest(simulation, link)) >= 0; i++)
		fprintf(out, "  %5.1f %%  %s: %llu messages, %llu bytes\n",
			share_of(simulation, link), simulated->network->links[link].name,
			(unsigned long long)simulation->links[link].messages,
			(unsigned long long)simulation->links[link].bytes);
}

static void write_text(const struct plan_simulated *simulated, FILE *out)
{
	char heading[200];

	plan_call_text(simulated->made, simulated->algorithm, simulated->size, simulated->pieces,
		heading, sizeof(heading));
	fprintf(out, "%s\n", heading);
	write_ends(&simulated->simulation, out);
	write_faults(simulated, out);
	if (simulated->network)
		write_links(simulated, out);
}

/* ---- Lines, and JSON ------------------------------------------------------------------------ */

static void write_tsv(const struct plan_simulated *simulated, FILE *out)
{
	const struct simulation *simulation = &simulated->simulation;

	fprintf(out, "of\tname\tstate\tend_ns\tbusy_ns\tmessages\tbytes\twaits_for\n");
	for (int rank = 0; rank < simulation->rank_count; rank++) {
		const struct simulated_rank *it = &simulation->ranks[rank];

		fprintf(out, "rank\t%d\t%s\t%.3f\t%.3f\t\t\t", rank, end_name(it->end),
			(double)it->end_ps / 1e3, (double)it->work_ps / 1e3);
		if (it->waits_for >= 0)
			fprintf(out, "%d", it->waits_for);
		fprintf(out, "\n");
	}
	for (int i = 0; i < simulation->link_count; i++) {
		const struct simulated_link *it = &simulation->links[i];

		if (it->messages > 0)
			fprintf(out, "link\t%s\t\t\t%.3f\t%llu\t%llu\t\n",
				simulated->network->links[i].name, (double)it->busy_ps / 1e3,
				(unsigned long long)it->messages, (unsigned long long)it->bytes);
	}
}

static void write_json_links(const struct plan_simulated *simulated, FILE *out)
{
	const struct simulation *simulation = &simulated->simulation;
	const char *comma = "";

	for (int i = 0; i < simulation->link_count; i++) {
		const struct simulated_link *it = &simulation->links[i];

		if (it->messages == 0)
			continue;
		fprintf(out, "%s\n    {\"name\": ", comma);
		rd_json_write_string(out, simulated->network->links[i].name);
		fprintf(out, ", \"busy_ns\": %.3f, \"messages\": %llu, \"bytes\": %llu}",
			(double)it->busy_ps / 1e3, (unsigned long long)it->messages,
			(unsigned long long)it->bytes);
		comma = ",";
	}
}

static void write_json(const struct plan_simulated *simulated, FILE *out)
{
	const struct simulation *simulation = &simulated->simulation;
	const struct rd_problem *problem = &simulated->made->problem;

	fprintf(out,
		"{\n  \"format\": \"rondo-simulation 1\",\n  \"algorithm\": \"%s\",\n"
		"  \"collective\": \"%s\",\n  \"root\": %d,\n  \"hosts\": %d,\n"
		"  \"block_bytes\": %zu,\n  \"pieces\": %llu,\n  \"end_ns\": %.3f,\n"
		"  \"ranks\": [",
		simulated->algorithm->name, rd_collective_name(problem->collective), problem->root,
		simulated->made->layout.group_count, simulated->size,
		(unsigned long long)simulated->pieces, (double)simulation->end_ps / 1e3);
	for (int rank = 0; rank < simulation->rank_count; rank++) {
		const struct simulated_rank *it = &simulation->ranks[rank];

		fprintf(out, "%s\n    {\"state\": \"%s\", \"end_ns\": %.3f, \"busy_ns\": %.3f",
			rank ? "," : "", end_name(it->end), (double)it->end_ps / 1e3,
			(double)it->work_ps / 1e3);
		if (it->waits_for >= 0)
			fprintf(out, ", \"waits_for\": %d", it->waits_for);
		fprintf(out, "}");
	}
	fprintf(out, "\n  ],\n  \"links\": [");
	write_json_links(simulated, out);
	fprintf(out, "\n  ]\n}\n");
}

int plan_simulate(struct plan_problem *made, const struct plan_options *options, FILE *out)
{
	struct plan_simulated simulated = { 0 };
	const struct rd_algorithm *algorithm;
	struct network *network = NULL;
	int err = plan_algorithm_find(&algorithm, made, options->algorithm);

	if (!err)
		err = plan_simulated_check(made, algorithm);
	if (!err && options->topology)
		err = network_create(&network, options->topology, options->hosts);
	if (!err)
		err = plan_simulated_create(&simulated, made, options, algorithm, network);
	if (!err)
		err = plan_simulated_run(&simulated, options->size);
	if (!err && options->json)
		write_json(&simulated, out);
	else if (!err && options->tsv)
		write_tsv(&simulated, out);
	else if (!err)
		write_text(&simulated, out);
	plan_simulated_destroy(&simulated);
	network_destroy(network);
	return err;
}
