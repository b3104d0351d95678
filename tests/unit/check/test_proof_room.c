/* The table of algorithms, which is full. */
#include <criterion/criterion.h>

#include "base/error.h"
#include "check/proof.h"
#include "exec/algorithms.h"
#include "ring/ring.h"

Test(proof_room, an_algorithm_without_room_leaves_no_trace)
{
	static const struct rd_algorithm without_room;

	while (!rd_algorithms_check_room())
		cr_assert_eq(rd_algorithm_add(&rd_ring), 0);
	cr_expect_eq(rd_proof_add(&without_room), RONDO_UNSUPPORTED);
	cr_expect_not(rd_proof_is_demanded(&without_room));
}
