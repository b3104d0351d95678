#include "paths.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "topo/rank_order.h"
#include "plan/plan.h"

static int alloc(struct topo_paths *paths, int size)
{
	*paths = (struct topo_paths){ .size = size };
	paths->places = calloc((size_t)size, sizeof(*paths->places));
	paths->host = calloc((size_t)size, sizeof(int));
	paths->ring = calloc((size_t)size, sizeof(int));
	for (int tree = 0; tree < TOPO_TREES; tree++)
		paths->parents[tree] = calloc((size_t)size, sizeof(int));
	if (!paths->places || !paths->host || !paths->ring || !paths->parents[0] ||
		!paths->parents[1])
		return rd_fail(RONDO_MEMORY, "no memory for %d ranks", size);
	return 0;
}

void topo_paths_finish(struct topo_paths *paths)
{
	free(paths->places);
	free(paths->host);
	free(paths->ring);
	for (int tree = 0; tree < TOPO_TREES; tree++)
		free(paths->parents[tree]);
	*paths = (struct topo_paths){ 0 };
}

/* The plan of one rank of an all-reduce. */
static int write_plan(struct rd_plan **plan, const char *algorithm, const struct topo_paths *paths,
	const struct rd_layout *layout, int rank)
{
	struct rd_problem problem = {
		.collective = RD_ALL_REDUCE, .rank = rank, .size = paths->size, .layout = layout
	};

	return rd_plan_create(plan, rd_algorithm_named(algorithm), &problem);
}

static bool is_sending(enum rd_step_kind kind)
{
	return kind == RD_STEP_SEND || kind == RD_STEP_FORWARD || kind == RD_STEP_REDUCE_FORWARD;
}

static int follow_ring(struct topo_paths *paths, const struct rd_layout *layout, int rank)
{
	struct rd_plan *plan;
	int err = write_plan(&plan, "ring", paths, layout, rank);

	paths->ring[rank] = rank;
	if (err)
		return err;
	for (int i = 0; i < plan->step_count; i++)
		if (is_sending(plan->steps[i].kind))
			paths->ring[rank] = plan->steps[i].to;
	rd_plan_destroy(plan);
	return 0;
}

/* Sums go up: a rank's children are the ranks whose sums it adds. Each tree has half of the chunks.
 */
static int follow_trees(struct topo_paths *paths, const struct rd_layout *layout, int rank)
{
	struct rd_plan *plan;
	int err = write_plan(&plan, "tree", paths, layout, rank);

	if (err)
		return err;
	for (int i = 0; i < plan->step_count; i++) {
		const struct rd_step *step = &plan->steps[i];
		if (step->kind == RD_STEP_RECV_REDUCE || step->kind == RD_STEP_REDUCE_FORWARD)
			paths->parents[TOPO_TREES * step->chunk / plan->parts][step->peer] = rank;
	}
	rd_plan_destroy(plan);
	return 0;
}

static int follow_plans(struct topo_paths *paths, const struct rd_layout *layout)
{
	int err = 0;

	for (int tree = 0; tree < TOPO_TREES; tree++)
		for (int rank = 0; rank < paths->size; rank++)
			paths->parents[tree][rank] = -1;
	for (int rank = 0; rank < paths->size && !err; rank++) {
		err = follow_ring(paths, layout, rank);
		if (!err)
			err = follow_trees(paths, layout, rank);
	}
	return err;
}

static void find_hosts(struct topo_paths *paths, const struct rd_topology *topology)
{
	for (int rank = 0; rank < paths->size; rank++)
		for (int i = 0; i < topology->host_count; i++)
			if (!strcmp(paths->places[rank].host_name, topology->hosts[i].name))
				paths->host[rank] = i;
}

int topo_paths_init(struct topo_paths *paths, const struct rd_topology *topology, int size)
{
	struct rd_layout *layout = NULL;
	int err = alloc(paths, size);

	if (!err) {
		rd_topology_places(topology, size, paths->places);
		find_hosts(paths, topology);
		err = rd_order_create(&layout, paths->places, size, 0);
	}
	if (!err)
		err = follow_plans(paths, layout);
	rd_order_destroy(layout);
	if (err)
		topo_paths_finish(paths);
	return err;
}

enum rd_distance topo_paths_distance(const struct topo_paths *paths,
	const struct rd_topology *topology, int a, int b, int *nvlinks)
{
	const struct rd_place *first = &paths->places[a], *second = &paths->places[b];

	*nvlinks = 0;
	if (paths->host[a] != paths->host[b])
		return RD_NETWORK;
	if (first->gpu >= 0 && second->gpu >= 0)
		return rd_gpu_distance(
			&topology->hosts[paths->host[a]], first->gpu, second->gpu, nvlinks);
	if (first->core == second->core)
		return RD_SAME;
	return first->numa_node == second->numa_node ? RD_NODE : RD_SYS;
}
