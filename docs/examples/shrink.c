/*
 * Going on after a death: ranks fit a line to the points of a fixed batch, of which each rank has
 * a part. Where a rank dies, the others shrink the communicator, agree on the step that all of
 * them have, and divide the batch anew.
 *
 *     rondo-run --nproc-per-node 4 --keep-going ./shrink [STEPS [DEATH]]
 *
 * With DEATH, rank 2 kills itself before that step. --keep-going leaves the other ranks alone.
 */
#include <rondo.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#define POINTS 12
#define RATE 0.03
#define VICTIM 2

/* The line after so many steps. A death may end a call on one rank and not on another, so ranks
   are at most one step apart: the last two are kept. */
struct state {
	int steps;
	double slope, offset;
};

static struct state now, before;

/* Ends this rank and prints the reason. The other ranks' next calls then return an error. */
static void check(int err)
{
	if (!err)
		return;
	fprintf(stderr, "%s: %s\n", rondo_error_name(err), rondo_last_error());
	exit(1);
}

/* The gradient of this rank's points, added up over all ranks. */
static int add_gradients(rondo_comm *comm, double gradient[2])
{
	int rank = rondo_comm_rank(comm), size = rondo_comm_size(comm);

	gradient[0] = gradient[1] = 0;
	for (int x = rank; x < POINTS; x += size) {
		double error = now.slope * x + now.offset - (3 * x + 7);

		gradient[0] += error * x;
		gradient[1] += error;
	}
	return rondo_all_reduce(comm, gradient, gradient, 2, RONDO_F64, RONDO_SUM, NULL);
}

/* Takes the comm's place, without the ranks that died. They may die here, too: then the new comm
   fails, and shrinks in turn. */
static rondo_comm *go_on(rondo_comm *comm)
{
	for (;;) {
		int failed[16], count = rondo_comm_failed(comm, failed, 16), least = now.steps;
		rondo_comm *left;

		check(rondo_comm_shrink(comm, &left));
		check(rondo_comm_destroy(comm));
		comm = left;
		if (rondo_all_reduce(comm, &least, &least, 1, RONDO_I32, RONDO_MIN, NULL))
			continue;
		if (least < now.steps)
			now = before;
		if (rondo_comm_rank(comm) == 0 && count > 0)
			printf("%d ranks go on without rank %d\n", rondo_comm_size(comm),
				failed[0]);
		return comm;
	}
}

/* One step; an error where a rank died. */
static int step(rondo_comm *comm)
{
	double gradient[2];
	int err = add_gradients(comm, gradient);

	if (err)
		return err;
	before = now;
	now.slope -= RATE * gradient[0] / POINTS;
	now.offset -= RATE * gradient[1] / POINTS;
	now.steps++;
	return 0;
}

int main(int count, char **arguments)
{
	int steps = count > 1 ? atoi(arguments[1]) : 1000;
	int death = count > 2 ? atoi(arguments[2]) : -1;
	int dies, ends, err;
	rondo_comm *comm;

	if (steps < 1) {
		fprintf(stderr, "usage: %s [STEPS [DEATH]]\n", arguments[0]);
		return 2;
	}
	check(rondo_comm_create(&comm, NULL));
	dies = rondo_comm_rank(comm) == VICTIM;
	do {
		if (dies && now.steps == death)
			raise(SIGKILL);
		/* No rank leaves before all have the last step. */
		ends = now.steps == steps;
		err = ends ? rondo_barrier(comm, NULL) : step(comm);
		if (err)
			comm = go_on(comm);
	} while (err || !ends);
	if (rondo_comm_rank(comm) == 0)
		printf("%d ranks end at step %d: y = %.6f x + %.6f\n", rondo_comm_size(comm),
			now.steps, now.slope, now.offset);
	check(rondo_comm_destroy(comm));
	return 0;
}
