/* Simulations of rondo-plan over light links, which delay nothing. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "exec/algorithms.h"
#include "plan/simulated.h"

/* A byte takes 200 ps on the last link. */
static const char joined[] =
	"{\"hosts\": 4, \"links\": ["
	"{\"name\": \"long\", \"mbps\": 1000000, \"ns\": 400},"
	"{\"name\": \"short\", \"mbps\": 1000000, \"ns\": 100},"
	"{\"name\": \"last\", \"mbps\": 40000, \"ns\": 100}],"
	"\"routes\": [{\"from\": 1, \"to\": 0, \"links\": [\"long\", \"last\"]},"
	"{\"from\": 2, \"to\": 0, \"links\": [\"short\", \"last\"]},"
	"{\"from\": 3, \"to\": 0, \"links\": [\"short\", \"last\"]}]}";

/* The same, behind a link that is quick. */
static const char behind[] =
	"{\"hosts\": 4, \"links\": ["
	"{\"name\": \"long\", \"mbps\": 1000000, \"ns\": 400},"
	"{\"name\": \"short\", \"mbps\": 1000000, \"ns\": 100},"
	"{\"name\": \"last\", \"mbps\": 40000, \"ns\": 100},"
	"{\"name\": \"quick\", \"mbps\": 1000000, \"ns\": 100}],"
	"\"routes\": [{\"from\": 1, \"to\": 0, \"links\": [\"long\", \"quick\", \"last\"]},"
	"{\"from\": 2, \"to\": 0, \"links\": [\"short\", \"quick\", \"last\"]},"
	"{\"from\": 3, \"to\": 0, \"links\": [\"short\", \"quick\", \"last\"]}]}";

static void see_first_end(
	void *context, int rank, uint64_t piece, int step, int64_t begin_ps, int64_t end_ps)
{
	int64_t *first_ps = context;

	(void)piece;
	(void)begin_ps;
	if (rank == 0 && step == 0)
		*first_ps = end_ps;
}

/* A gather of 1000 bytes a rank, whose sends and receives each take step_ns. Returns when rank 0
   has the message of rank 1, which comes last. */
static int64_t first_ps(const char *text, int step_ns)
{
	struct plan_options options = {
		.collective = RD_GATHER, .ranks = 4, .hosts = 4, .size = 1000, .piece_size = 1 << 20
	};
	struct network *network = calloc(1, sizeof(*network));
	struct plan_problem made;
	struct plan_simulated simulated;
	int64_t first = 0;

	cr_assert_eq(network_parse(network, "net.json", text, strlen(text)), 0);
	cr_assert_eq(plan_problem_make(&made, &options), 0, "%s", rondo_last_error());
	made.costs = (struct rd_costs){ .cores = 1, .cache_bytes = 1 };
	for (int i = 0; i < RD_COST_POINT_COUNT; i++) {
		made.costs.links[RD_FAR].way_ns[i] = 2 * (uint32_t)step_ns;
		made.costs.links[RD_FAR].busy_ns[i] = (uint32_t)step_ns;
		made.costs.links[RD_FAR].both_ns[i] = 2 * (uint32_t)step_ns;
	}
	cr_assert_eq(plan_simulated_create(
			     &simulated, &made, &options, rd_algorithm_called("linear"), network),
		0, "%s", rondo_last_error());
	simulated.watch = see_first_end;
	simulated.watch_context = &first;
	cr_assert_eq(plan_simulated_run(&simulated, options.size), 0, "%s", rondo_last_error());
	/* All count. */
	cr_assert_eq(simulated.simulation.links[0].messages, 1);
	cr_assert_eq(simulated.simulation.links[1].messages, 2);
	cr_assert_eq(simulated.simulation.links[2].messages, 3);
	cr_assert_eq(simulated.simulation.links[2].bytes, 3000);
	cr_assert_eq(simulated.simulation.links[2].busy_ps, 600000);
	plan_simulated_destroy(&simulated);
	network_destroy(network);
	return first - 2000 * (int64_t)step_ns;
}

/* Three messages of 200 ns fill a quarter of 2400 ns. The last comes there after 400 ns. Those of
   ranks 2 and 3 came after 100, and a link that is not light is free at 500. */
Test(plan_light, a_link_that_is_a_quarter_full_delays_nothing)
{
	cr_expect_eq(first_ps(joined, 2400), 400000 + 200000 + 100000);
	cr_expect_eq(first_ps(joined, 2399), 500000 + 200000 + 100000);
	cr_expect_eq(first_ps(joined, 0), 500000 + 200000 + 100000);
}

/* It leaves its messages in no order: the next link makes that, though all come from one. */
Test(plan_light, a_link_behind_a_light_one_serves_messages_as_they_come)
{
	cr_expect_eq(first_ps(behind, 1000), 600000 + 200000 + 100000);
	cr_expect_eq(first_ps(behind, 2400), 500000 + 200000 + 100000);
}
