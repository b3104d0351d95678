/*
 * torus: an all-reduce on a grid of ranks, of other algorithms in views. Each row reduces, so that
 * each rank has a share of its row's sum. Each column all-reduces its share, and each row gathers
 * the shares. It takes some 4 sqrt(n) rounds for n ranks, between neighbours; a ring takes 2 n.
 * On a torus network a row and a column are rings of neighbours.
 *
 *     cc -shared -fPIC plugin_torus.c $(pkg-config --cflags rondo) -o libtorus.so
 */
#include <rondo/algorithm.h>

/* The grid is as square as may be. A prime number of ranks has one row. */
static int rows_of(int size)
{
	int rows = 1;

	for (int i = 2; i * i <= size; i++)
		if (size % i == 0)
			rows = i;
	return rows;
}

/* A view of this rank's row, in which each rank has one share. */
static void begin_row(struct rd_plan *plan, enum rd_collective collective, int columns)
{
	int row = rd_problem_of(plan)->rank / columns;

	rd_view_begin(plan, collective, 0);
	for (int column = 0; column < columns; column++) {
		rd_view_rank(plan, row * columns + column);
		rd_view_block(plan);
		rd_view_chunk(plan, column);
	}
}

static void all_reduce(struct rd_plan *plan)
{
	const struct rd_problem *problem = rd_problem_of(plan);
	const struct rd_algorithm *ring = rd_algorithm_named("ring");
	int rows = rows_of(problem->size), columns = problem->size / rows;
	int column = problem->rank % columns;

	rd_plan_parts(plan, columns); /* the shares */
	begin_row(plan, RD_REDUCE_SCATTER, columns);
	rd_view_partial(plan); /* a row's sum is not the whole sum */
	rd_view_write(plan, ring);

	rd_view_begin(plan, RD_ALL_REDUCE, 0);
	for (int row = 0; row < rows; row++)
		rd_view_rank(plan, row * columns + column);
	rd_view_block(plan);
	rd_view_chunk(plan, column);
	rd_view_write(plan, ring);

	begin_row(plan, RD_ALL_GATHER, columns);
	rd_view_write(plan, ring);
}

/* A ring is as good where there is one row. */
static bool may_run(const struct rd_problem *problem)
{
	return rows_of(problem->size) > 1;
}

static const struct rd_algorithm torus = {
	.name = "torus",
	.write = { [RD_ALL_REDUCE] = all_reduce },
	.may_run = may_run,
	.along_line = true,
};

RONDO_PLUGIN_ALGORITHMS(&torus);
