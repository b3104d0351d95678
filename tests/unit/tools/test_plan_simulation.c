/* ctest label: threads */
/* Simulations of rondo-plan: against replays, and against times computed by hand. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/algorithms.h"
#include "plan/simulated.h"
#include "plan/timeline.h"
#include "plan/windows.h"
#include "rondo.h"
#include "tuner/eligible.h"

/* The network of all tests by hand: 100 Gbit/s is 80 ps a byte; 500 ns a link. */
#define BYTE_PS 80
#define LINK_PS 500000

static struct plan_problem made;
static struct plan_simulated simulated;
static struct network *network;

static struct plan_options options_of(enum rd_collective collective, int ranks, size_t size)
{
	return (struct plan_options){ .collective = collective,
		.ranks = ranks,
		.hosts = 1,
		.size = size,
		.piece_size = 1 << 20 };
}

/* Simulates it on the network's links, which alone take time: steps cost nothing. */
static void simulate_on_network(const struct plan_options *options, const char *algorithm)
{
	cr_assert_eq(plan_problem_make(&made, options), 0, "%s", rondo_last_error());
	made.costs = (struct rd_costs){ .cores = 1, .cache_bytes = 1 };
	cr_assert_eq(plan_simulated_create(
			     &simulated, &made, options, rd_algorithm_called(algorithm), network),
		0, "%s", rondo_last_error());
	cr_assert_eq(plan_simulated_run(&simulated, options->size), 0, "%s", rondo_last_error());
}

static void simulate_links(
	const struct plan_options *options, const char *algorithm, const char *topology)
{
	cr_assert_eq(
		network_create(&network, topology, options->hosts), 0, "%s", rondo_last_error());
	simulate_on_network(options, algorithm);
}

static int parse(const char *text)
{
	network = calloc(1, sizeof(*network));
	return network_parse(network, "net.json", text, strlen(text));
}

static void finish(void)
{
	plan_simulated_destroy(&simulated);
	network_destroy(network);
}

static const struct simulated_link *link_called(const char *name)
{
	int link = 0;

	while (link < network->link_count && strcmp(network->links[link].name, name) != 0)
		link++;
	cr_assert_lt(link, network->link_count, "there is no link '%s'", name);
	return &simulated.simulation.links[link];
}

/* ---- Against replays ------------------------------------------------------------------------ */

static void compare_with_replay(const struct rd_algorithm *algorithm, struct plan_options *options)
{
	struct rd_link_cost *far = &made.costs.links[RD_FAR];
	struct plan_timeline timeline;

	options->algorithm = algorithm->name;
	cr_assert_eq(plan_problem_make(&made, options), 0, "%s", rondo_last_error());
	/* Without a network no ranks share a cable: bytes take no time there. */
	for (int i = 1; i < RD_COST_POINT_COUNT; i++) {
		far->way_ns[i] = far->way_ns[0];
		far->busy_ns[i] = far->busy_ns[0];
		far->both_ns[i] = far->both_ns[0];
	}
	if (rd_algorithm_can(algorithm, &made.problem) != 1)
		return;
	cr_assert_eq(plan_timeline_create(&timeline, &made, options), 0, "%s", rondo_last_error());
	cr_assert_eq(plan_simulated_create(&simulated, &made, options, algorithm, NULL), 0, "%s",
		rondo_last_error());
	cr_assert_eq(plan_simulated_run(&simulated, options->size), 0, "%s", rondo_last_error());
	cr_assert_eq((int)simulated.pieces, timeline.pieces);
	cr_assert_eq(simulated.simulation.end_ps, 1000 * timeline.end_ns, "%s, %d ranks",
		algorithm->name, options->ranks);
	plan_simulated_destroy(&simulated);
	plan_timeline_destroy(&timeline);
}

Test(plan_simulation, it_ends_when_a_replay_does)
{
	static const int ranks[] = { 1, 2, 5, 8, 16, 33 };

	for (int i = 0; rd_algorithms[i]; i++)
		for (int c = 0; c < RD_COLLECTIVE_COUNT; c++)
			for (size_t n = 0; n < sizeof(ranks) / sizeof(*ranks); n++)
				for (int hosts = 1; hosts <= 3 && hosts <= ranks[n]; hosts++) {
					struct plan_options options = options_of(c, ranks[n], 4096);

					options.hosts = hosts;
					options.pieces = 3;
					options.piece_size = 2000;
					if (c != RD_TRANSFER || ranks[n] > 1)
						compare_with_replay(rd_algorithms[i], &options);
				}
}

/* ---- By hand -------------------------------------------------------------------------------- */

/* 2 (n-1) messages, one after the other, of m/n bytes each: 2 (n-1) (alpha + beta m/n). Alpha is
   the latency of a link up and one down; cut-through pays for the bytes once. */
Test(plan_simulation, a_ring_over_equal_links_takes_what_its_formula_says)
{
	for (int ranks = 2; ranks <= 64; ranks *= 2) {
		size_t size = 1 << 20;
		struct plan_options options = options_of(RD_ALL_REDUCE, ranks, size);
		int64_t message = 2 * LINK_PS + BYTE_PS * (int64_t)(size / (size_t)ranks);

		options.hosts = ranks;
		simulate_links(&options, "ring", "card:mbps=100000,ns=500");
		cr_assert_eq(simulated.simulation.end_ps, 2 * (ranks - 1) * message);
		finish();
	}
}

/* All send to rank 0 at once. Its link down serves one after the other. */
Test(plan_simulation, messages_to_one_host_share_its_card)
{
	struct plan_options options = options_of(RD_GATHER, 5, 10000);

	options.hosts = 5;
	simulate_links(&options, "linear", "card:mbps=100000,ns=500");
	cr_assert_eq(simulated.simulation.end_ps, 2 * LINK_PS + 4 * 10000 * BYTE_PS);
	cr_assert_eq(link_called("host 0 down")->busy_ps, 4 * 10000 * BYTE_PS);
	cr_assert_eq(link_called("host 0 down")->messages, 4);
	cr_assert_eq(link_called("host 1 up")->bytes, 10000);
	finish();
}

/* Eight hosts exchange in pairs at once. The fabric has the bandwidth of two cards, so in the first
   round the last message comes to it at once and waits for seven others, each of half a card's
   time. From then on messages come one after the other, and wait for none. */
Test(plan_simulation, an_oversubscribed_switch_is_the_bottleneck)
{
	struct plan_options options = options_of(RD_ALL_REDUCE, 8, 4000);

	options.hosts = 8;
	simulate_links(&options, "doubling", "switch:over=4,mbps=100000,ns=500");

	int64_t card = 4000 * BYTE_PS;

	cr_assert_eq(simulated.simulation.end_ps, 3 * (2 * LINK_PS + card) + 7 * card / 2);
	cr_assert_eq(link_called("fabric")->busy_ps, 24 * card / 2);
	finish();
}

/* Round a torus of four nodes: 1 and 3 are neighbours of 0, and 2 goes by way of 3. Node 3's own
   message has the link to 0 first; that of 2 comes after one latency and waits. */
Test(plan_simulation, a_link_serves_messages_as_they_come)
{
	struct plan_options options = options_of(RD_GATHER, 4, 10000);

	options.hosts = 4;
	simulate_links(&options, "linear", "torus:4,mbps=100000,ns=500");
	cr_assert_eq(simulated.simulation.end_ps, 2 * 10000 * BYTE_PS + LINK_PS);
	cr_assert_eq(link_called("node 3 +x")->messages, 2);
	cr_assert_eq(link_called("node 1 -x")->messages, 1);
	finish();
}

static void see_end(
	void *context, int rank, uint64_t piece, int step, int64_t begin_ps, int64_t end_ps)
{
	int64_t *ends = context;

	(void)piece;
	(void)begin_ps;
	if (rank == 0)
		ends[step] = end_ps;
}

/* All send to rank 0 at once, and it takes their messages in the order of ranks. */
Test(plan_simulation, of_two_messages_at_once_the_lower_ranks_passes_first)
{
	struct plan_options options = options_of(RD_GATHER, 5, 10000);
	int64_t ends[8] = { 0 };

	options.hosts = 5;
	simulate_links(&options, "linear", "card:mbps=100000,ns=500");
	simulated.watch = see_end;
	simulated.watch_context = ends;
	cr_assert_eq(plan_simulated_run(&simulated, options.size), 0, "%s", rondo_last_error());
	for (int step = 0; step < 4; step++)
		cr_assert_eq(ends[step], 2 * LINK_PS + (step + 1) * 10000 * BYTE_PS);
	finish();
}

/* ---- Windows -------------------------------------------------------------------------------- */

static int64_t draw(uint64_t *random, int64_t most)
{
	*random = *random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (int64_t)(*random >> 33) % most;
}

/* Each message comes out in its own window, and windows come one after the other. */
Test(plan_simulation, messages_come_out_by_windows)
{
	struct windows windows = { .shift = 4 };
	struct message_list list = { 0 };
	uint64_t random = 1, before = 0;
	int put = 0, taken = 0, err = 0;

	for (; put < 1000; put++)
		cr_assert(windows_put(
			&windows, &(struct message){ .at_ps = draw(&random, 1 << 20) }));
	while (windows_next(&windows, &list, &err)) {
		int count = list.count;

		cr_assert(windows.now > before || taken == 0);
		before = windows.now;
		for (int i = 0; i < count; i++)
			cr_assert_eq((uint64_t)list.messages[i].at_ps >> 4, before);
		list.count = 0;
		taken += count;
		for (int i = 0; i < count && put < 20000; i++, put++)
			cr_assert(windows_put(
				&windows, &(struct message){ .at_ps = (int64_t)(before + 1) * 16 +
								      draw(&random, 1 << 12) }));
	}
	cr_assert_eq(err, 0);
	cr_assert_eq(taken, 20000);
	free(list.messages);
	windows_finish(&windows);
}

Test(plan_simulation, messages_are_sorted_by_time_and_queue)
{
	for (int count = 1; count <= 100; count += 33) {
		struct message_list list = { 0 };
		uint64_t random = 1;

		for (int i = 0; i < count; i++)
			cr_assert(message_list_add(
				&list, &(struct message){ .at_ps = draw(&random, 9), .queue = i }));
		message_list_sort(&list);
		for (int i = 1; i < count; i++)
			cr_assert(list.messages[i].at_ps < list.messages[i - 1].at_ps ||
				  (list.messages[i].at_ps == list.messages[i - 1].at_ps &&
					  list.messages[i].queue < list.messages[i - 1].queue));
		free(list.messages);
	}
}

/* ---- Links above others --------------------------------------------------------------------- */

/* Ranks 2 and 3 share two links to the last one, and come there before rank 1, whose link is long.
   The last link serves them first. */
Test(plan_simulation, messages_over_many_links_pass_in_order_of_time)
{
	struct plan_options options = options_of(RD_GATHER, 4, 1000);
	int64_t ends[8] = { 0 };

	options.hosts = 4;
	cr_assert_eq(parse("{\"hosts\": 4, \"links\": ["
			   "{\"name\": \"a\", \"mbps\": 1000000, \"ns\": 100},"
			   "{\"name\": \"b\", \"mbps\": 1000000, \"ns\": 100},"
			   "{\"name\": \"long\", \"mbps\": 1000000, \"ns\": 400},"
			   "{\"name\": \"last\", \"mbps\": 40000, \"ns\": 100}],"
			   "\"routes\": ["
			   "{\"from\": 3, \"to\": 0, \"links\": [\"a\", \"b\", \"last\"]},"
			   "{\"from\": 2, \"to\": 0, \"links\": [\"a\", \"b\", \"last\"]},"
			   "{\"from\": 1, \"to\": 0, \"links\": [\"long\", \"last\"]}]}"),
		0, "%s", rondo_last_error());
	simulate_on_network(&options, "linear");
	simulated.watch = see_end;
	simulated.watch_context = ends;
	cr_assert_eq(plan_simulated_run(&simulated, options.size), 0, "%s", rondo_last_error());
	/* They come there after 200 and 208 ns, and take 200 ns each: it is free at 600. */
	cr_assert_eq(ends[0], 600000 + 200000 + 100000);
	cr_assert_eq(link_called("a")->messages, 2);
	finish();
}

/* The links between leaves and spines have half of a card's bandwidth. */
Test(plan_simulation, an_oversubscribed_fat_tree_is_slower_above_its_leaves)
{
	struct plan_options options = options_of(RD_TRANSFER, 4, 10000);

	options.hosts = 4;
	simulate_links(&options, "linear", "fat-tree:k=4,over=2,mbps=100000,ns=500");
	cr_assert_eq(simulated.simulation.end_ps, 2 * LINK_PS + 10000 * BYTE_PS);
	finish();
	options.root = 1; /* to rank 2, below another leaf */
	simulate_links(&options, "linear", "fat-tree:k=4,over=2,mbps=100000,ns=500");
	cr_assert_eq(simulated.simulation.end_ps, 4 * LINK_PS + 10000 * 2 * BYTE_PS);
	cr_assert_eq(link_called("leaf 0 to spine 0.0")->busy_ps, 10000 * 2 * BYTE_PS);
	cr_assert_eq(link_called("spine 0.0 to leaf 1")->busy_ps, 10000 * 2 * BYTE_PS);
	finish();
}

/* ---- Routes --------------------------------------------------------------------------------- */

static void check_route(const char *topology, int from, int to, const char *wanted)
{
	int links[NETWORK_HOPS_MAX], count;
	char text[400] = "";

	cr_assert_eq(network_create(&network, topology, 2), 0, "%s", rondo_last_error());
	count = network->route(network, from, to, links);
	for (int i = 0; i < count; i++) {
		strcat(text, i ? ", " : "");
		strcat(text, network->links[links[i]].name);
	}
	cr_assert_str_eq(text, wanted);
	network_destroy(network);
}

Test(plan_simulation, shapes_have_their_routes)
{
	check_route("fat-tree:k=4", 0, 1, "host 0 up, host 1 down");
	check_route("fat-tree:k=4", 0, 3,
		"host 0 up, leaf 0 to spine 0.1, spine 0.1 to leaf 1, host 3 down");
	check_route("fat-tree:k=4", 0, 15,
		"host 0 up, leaf 0 to spine 0.1, spine 0.1 to core 3, core 3 to spine 3.1, "
		"spine 3.1 to leaf 7, host 15 down");
	check_route("torus:4x3", 0, 11, "node 0 -x, node 3 -y");
	check_route("torus:5x3", 0, 7, "node 0 +x, node 1 +x, node 2 +y");
	check_route("dragonfly:p=2,a=2,h=1", 0, 3, "host 0 up, group 0 router 0 to 1, host 3 down");
	/* Group 1's second link, of router 1, leads back to group 0. */
	check_route("dragonfly:p=2,a=2,h=1", 0, 4,
		"host 0 up, group 0 to group 1, group 1 router 1 to 0, host 4 down");
	/* Group 0's second link, of router 1, leads to group 2's first, of router 0. */
	check_route("dragonfly:p=2,a=2,h=1", 0, 11,
		"host 0 up, group 0 router 0 to 1, group 0 to group 2, group 2 router 0 to 1, "
		"host 11 down");
}

/* Every pair has a way, of links that a shape has named. */
Test(plan_simulation, all_pairs_of_a_shape_have_a_route)
{
	static const char *const shapes[] = { "card", "switch", "fat-tree:k=6", "torus:5x4x2",
		"dragonfly:p=2,a=3,h=2" };

	for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++) {
		int links[NETWORK_HOPS_MAX];

		cr_assert_eq(network_create(&network, shapes[i], 40), 0, "%s", rondo_last_error());
		for (int pair = 0; pair < 40 * 40; pair++) {
			int from = pair / 40, to = pair % 40;
			int count = from == to ? 0 : network->route(network, from, to, links);

			cr_assert(from == to || count > 0);
			for (int k = 0; k < count; k++)
				cr_assert(links[k] >= 0 && links[k] < network->link_count &&
					  network->links[links[k]].mbps > 0);
		}
		network_destroy(network);
	}
}

/* ---- Files ---------------------------------------------------------------------------------- */

#define LINKS_TEXT \
	"{\"hosts\": 2, \"links\": [{\"name\": \"there\", \"mbps\": 1000, \"ns\": 70},\n" \
	"{\"name\": \"back\", \"mbps\": 2000, \"ns\": 0}],\n"

Test(plan_simulation, a_file_names_links_and_routes)
{
	int links[NETWORK_HOPS_MAX];

	cr_assert_eq(parse(LINKS_TEXT "\"routes\": [{\"from\": 0, \"to\": 1, \"links\": "
				      "[\"back\", \"there\"]}]}"),
		0, "%s", rondo_last_error());
	cr_assert_eq(network->route(network, 0, 1, links), 2);
	cr_assert(links[0] == 1 && links[1] == 0);
	cr_assert_eq(network->links[0].latency_ps, 70000);
	cr_assert_eq(network_bytes_ps(&network->links[0], 3), 24000);
	cr_assert_eq(network->route(network, 1, 0, links), 0);
	network_destroy(network);
}

/* Rank 0 sends to 1 over a long link and the shared one, then to 2 over the shared one alone, to
   which the second message comes first. */
Test(plan_simulation, a_later_message_may_come_first_to_a_link)
{
	struct plan_options options = options_of(RD_SCATTER, 3, 1000);

	options.hosts = 3;
	cr_assert_eq(parse("{\"hosts\": 3, \"links\": ["
			   "{\"name\": \"long\", \"mbps\": 100000, \"ns\": 5000},"
			   "{\"name\": \"shared\", \"mbps\": 100000, \"ns\": 0}], \"routes\": ["
			   "{\"from\": 0, \"to\": 1, \"links\": [\"long\", \"shared\"]},"
			   "{\"from\": 0, \"to\": 2, \"links\": [\"shared\"]}]}"),
		0, "%s", rondo_last_error());
	simulate_on_network(&options, "linear");
	cr_assert_eq(simulated.simulation.ranks[2].end_ps, 1000 * BYTE_PS);
	cr_assert_eq(simulated.simulation.ranks[1].end_ps, 10 * LINK_PS + 1000 * BYTE_PS);
	finish();
}

/* Rank 0 sends one after the other, at once: to 1, which the shared link serves after 1 ms, and to
   seven over a slow link. Then it sends to 10, over the shared link alone. */
Test(plan_simulation, messages_on_a_slow_way_hold_no_later_message_up)
{
	struct plan_options options = options_of(RD_SCATTER, 11, 1000);
	char text[2000];
	int length = snprintf(text, sizeof(text),
		"{\"hosts\": 11, \"links\": ["
		"{\"name\": \"far\", \"mbps\": 100000, \"ns\": 1000000},"
		"{\"name\": \"slow\", \"mbps\": 1, \"ns\": 0},"
		"{\"name\": \"last\", \"mbps\": 100000, \"ns\": 0},"
		"{\"name\": \"shared\", \"mbps\": 100000, \"ns\": 0}], \"routes\": ["
		"{\"from\": 0, \"to\": 1, \"links\": [\"far\", \"shared\"]},"
		"{\"from\": 0, \"to\": 9, \"links\": [\"last\"]},"
		"{\"from\": 0, \"to\": 10, \"links\": [\"shared\"]}");

	for (int to = 2; to < 9; to++)
		length += snprintf(text + length, sizeof(text) - (size_t)length,
			",{\"from\": 0, \"to\": %d, \"links\": [\"slow\", \"last\"]}", to);
	snprintf(text + length, sizeof(text) - (size_t)length, "]}");
	options.hosts = 11;
	cr_assert_eq(parse(text), 0, "%s", rondo_last_error());
	simulate_on_network(&options, "linear");
	cr_assert_eq(simulated.simulation.ranks[10].end_ps, 1000 * BYTE_PS);
	cr_assert_eq(simulated.simulation.ranks[1].end_ps, 2000 * LINK_PS + 1000 * BYTE_PS);
	finish();
}

Test(plan_simulation, a_wrong_file_gets_a_line)
{
	static const struct {
		const char *text, *reason;
	} wrong[] = {
		{ "{\"hosts\": 0}", "net.json:1: \"hosts\" must be a whole number from 1 to 1024" },
		{ "{\"hosts\": 2}", "net.json:1: \"links\" must be an array" },
		{ "{\"hosts\": 2, \"links\": [{\"name\": \"a\"}]}",
			"net.json:1: \"mbps\" must be a whole number" },
		{ "{\"hosts\": 2, \"links\": [\n5]}", "net.json:2: a \"name\" has 1 to 63 bytes" },
		{ LINKS_TEXT "\"routes\": [\n{\"from\": 0, \"to\": 2}]}",
			"net.json:4: \"to\" must be a whole number from 0 to 1" },
		{ LINKS_TEXT "\"routes\": [{\"from\": 1, \"to\": 1, \"links\": [\"back\"]}]}",
			"a route leads from a host to another, once" },
		{ LINKS_TEXT "\"routes\": [{\"from\": 1, \"to\": 0, \"links\": []}]}",
			"a route has 1 to 256 \"links\"" },
		{ LINKS_TEXT "\"routes\": [{\"from\": 1, \"to\": 0, \"links\": [\"b\"]}]}",
			"a route's links are those of \"links\"" },
		{ "{\"hosts\": 2, \"links\": [{\"name\": \"a\", \"mbps\": 1, \"ns\": 1}, "
		  "{\"name\": \"a\", \"mbps\": 1, \"ns\": 1}]}",
			"two links have the name 'a'" },
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		cr_assert_neq(parse(wrong[i].text), 0);
		cr_assert_not_null(
			strstr(rondo_last_error(), wrong[i].reason), "%s", rondo_last_error());
		network_destroy(network);
	}
}

Test(plan_simulation, a_wrong_shape_gets_a_line)
{
	static const char *const wrong[] = { "torus", "torus:", "torus:2x", "torus:1x1x1x1x1",
		"card:ns", "card:ns=", "card:ns=-1", "card:mbps=0", "card,ns=1", "fat-tree:k=3",
		"card:ns=1,", "dragonfly:p=9999,a=9999,h=9999", "torus:999x999", "no/such/file",
		"fat-tree:k=2" };

	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		cr_assert_neq(network_create(&network, wrong[i], 3), 0, "%s", wrong[i]);
}

/* ---- Faults --------------------------------------------------------------------------------- */

static void simulate(const struct plan_options *options, const char *algorithm)
{
	cr_assert_eq(plan_problem_make(&made, options), 0, "%s", rondo_last_error());
	cr_assert_eq(plan_simulated_create(
			     &simulated, &made, options, rd_algorithm_called(algorithm), NULL),
		0, "%s", rondo_last_error());
	cr_assert_eq(plan_simulated_run(&simulated, options->size), 0, "%s", rondo_last_error());
}

/* Each rank waits for the one before it; that behind the dead one has waited longest. */
Test(plan_simulation, a_death_leaves_ranks_that_wait)
{
	struct plan_options options = options_of(RD_ALL_REDUCE, 8, 1 << 20);

	options.kills.list[options.kills.count++] = (struct plan_fault){ 3, 20000000 };
	simulate(&options, "ring");
	for (int rank = 0; rank < 8; rank++) {
		const struct simulated_rank *it = &simulated.simulation.ranks[rank];

		cr_assert_eq(it->end, rank == 3 ? SIMULATED_DIED : SIMULATED_WAITS);
		cr_assert_eq(it->waits_for, rank == 3 ? -1 : (rank + 7) % 8);
		cr_assert_geq(it->end_ps, simulated.simulation.ranks[4].end_ps * (rank != 3));
	}
	cr_assert_eq(simulated.simulation.ranks[3].end_ps, 20000000);
	cr_assert(simulated.simulation.stuck);
	plan_simulated_destroy(&simulated);
}

Test(plan_simulation, a_death_after_its_end_changes_nothing)
{
	struct plan_options options = options_of(RD_ALL_REDUCE, 8, 1 << 20);

	options.kills.list[options.kills.count++] = (struct plan_fault){ 3, 1000000000000 };
	simulate(&options, "ring");
	for (int rank = 0; rank < 8; rank++)
		cr_assert_eq(simulated.simulation.ranks[rank].end, SIMULATED_ENDED);
	plan_simulated_destroy(&simulated);
}

/* A slow rank lengthens its own work by its factor, and the call by its part of the ring. */
Test(plan_simulation, a_slow_rank_delays_the_call)
{
	struct plan_options options = options_of(RD_ALL_REDUCE, 8, 1 << 20);

	simulate(&options, "ring");

	int64_t end = simulated.simulation.end_ps, work = simulated.simulation.ranks[3].work_ps;

	plan_simulated_destroy(&simulated);
	options.slow.list[options.slow.count++] = (struct plan_fault){ 3, 1500 };
	simulate(&options, "ring");
	cr_assert_eq(2 * simulated.simulation.ranks[3].work_ps, 3 * work);
	cr_assert_eq(simulated.simulation.ranks[2].work_ps, work);
	cr_assert_gt(simulated.simulation.end_ps, end);
	cr_assert_leq(2 * simulated.simulation.end_ps, 3 * end);
	plan_simulated_destroy(&simulated);
}

static int64_t end_with(int seed, const char *topology)
{
	struct plan_options options = options_of(RD_ALL_REDUCE, 32, 1 << 20);

	options.hosts = 8;
	options.jitter = 20;
	options.seed = seed;
	cr_assert_eq(network_create(&network, topology, 8), 0, "%s", rondo_last_error());
	cr_assert_eq(plan_problem_make(&made, &options), 0);
	cr_assert_eq(plan_simulated_create(&simulated, &made, &options,
			     rd_algorithm_called("hierarchical"), network),
		0, "%s", rondo_last_error());
	cr_assert_eq(plan_simulated_run(&simulated, options.size), 0, "%s", rondo_last_error());

	int64_t end = simulated.simulation.end_ps;

	finish();
	return end;
}

Test(plan_simulation, jitter_follows_from_its_seed)
{
	int64_t first = end_with(1, "torus:4x2"), other = end_with(2, "torus:4x2");

	cr_assert_eq(end_with(1, "torus:4x2"), first);
	cr_assert_neq(first, other);
	cr_assert_lt(llabs(first - other), first / 5);
}

/* ---- Many ranks ----------------------------------------------------------------------------- */

Test(plan_simulation, thousands_of_ranks_take_little_memory, .timeout = 120)
{
	struct plan_options options = options_of(RD_ALL_REDUCE, 1500, 1 << 20);

	simulate(&options, "ring");
	cr_assert_eq(simulated.packed->plans[0].count, 2 * 1500 - 1);
	cr_assert_leq(simulated.packed->plans[0].distinct_count, 8);
	cr_assert_eq(simulated.packed->queue_count, 1500);
	plan_simulated_destroy(&simulated);
}
