/* The time of a batch in a comparison with the peers. */
#include <criterion/criterion.h>
#include <stdint.h>

static int64_t clock_of_test(void);

#include "base/clock.h"
#define rd_clock_ns clock_of_test
/* The comparison is built on the machine where it runs; this is its loop. */
#include "bench/peers/measure.c"
#include "bench/peers/pace.c"

static const int64_t *readings; /* of this rank's clock */
static const double *others; /* the other rank's values, one for each greatest() */

static int64_t clock_of_test(void)
{
	return *readings++;
}

static void no_barrier(void)
{
}

static void greatest_of_two(double *value)
{
	*value = fmax(*value, *others++);
}

static void no_call(enum peers_collective collective, const float *send, float *recv, size_t count)
{
	(void)collective, (void)send, (void)recv, (void)count;
}

Test(bench_peers, a_batch_lasts_from_the_first_start_to_the_last_end)
{
	const struct peers_library library = {
		.size = 2, .barrier = no_barrier, .greatest = greatest_of_two, .run = no_call
	};
	const struct run run = { .library = &library };

	/* Each rank took 2000; this one began when the other was nearly done. */
	readings = (const int64_t[]){ 2400, 4400 };
	others = (const double[]){ -400, 2400 };
	cr_assert_eq(batch_ns(&run, 3), 4000);
	readings = (const int64_t[]){ 400, 2400 };
	others = (const double[]){ -2400, 4400 };
	cr_assert_eq(batch_ns(&run, 3), 4000);
}
