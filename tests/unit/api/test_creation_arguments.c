/* ctest label: threads */
/* Arguments of creations that do not block: each creation has copies, and a test returns errors. */
#include <criterion/criterion.h>
#include <sched.h>
#include <string.h>

#include "free_port.h"
#include "world.h"

/* Tests until the end, or the timeout of the test. */
static int await_end(rondo_creation *creation, rondo_comm **comm)
{
	int result;

	while ((result = rondo_comm_create_test(creation, comm)) == RONDO_PENDING)
		sched_yield();
	return result;
}

Test(creation_arguments, has_the_unique_id_of_the_config_and_outlives_it, .timeout = 60)
{
	struct rondo_unique_id id;
	rondo_creation *creations[2];
	rondo_comm *comms[2];

	cr_assert_eq(rondo_get_unique_id(&id), 0);
	for (int rank = 0; rank < 2; rank++) {
		struct rondo_unique_id copy = id;
		struct rondo_config config = world_config(rank, 2, -1);

		config.address = NULL;
		config.unique_id = &copy;
		creations[rank] = world_create(&config);
		explicit_bzero(&copy, sizeof(copy));
	}
	for (int rank = 0; rank < 2; rank++)
		cr_assert_eq(await_end(creations[rank], &comms[rank]), 0, "%s", rondo_last_error());
	for (int rank = 0; rank < 2; rank++)
		cr_expect_eq(rondo_comm_destroy(comms[rank]), 0);
}

static void expect_invalid(int err, const char *words)
{
	cr_expect_eq(err, RONDO_INVALID);
	cr_expect(strstr(rondo_last_error(), words), "%s", rondo_last_error());
}

Test(creation_arguments, refuses_arguments_that_make_no_sense, .timeout = 60)
{
	struct rondo_config config = world_config(0, 1, -1);
	rondo_creation *creation;
	rondo_comm *comm;

	expect_invalid(rondo_comm_create_begin(NULL, NULL), "_begin: creation is NULL");
	expect_invalid(rondo_comm_create_test(NULL, &comm), "_test: creation is NULL");
	expect_invalid(rondo_comm_create_cancel(NULL), "_cancel: creation is NULL");
	config.struct_size--;
	creation = (rondo_creation *)&config;
	cr_expect_eq(rondo_comm_create_begin(&creation, &config), RONDO_SETTING);
	cr_expect_null(creation);
	config.struct_size++;
	creation = world_create(&config);
	expect_invalid(rondo_comm_create_test(creation, NULL), "_test: comm is NULL");
	cr_assert_eq(await_end(creation, &comm), 0);
	rondo_comm_destroy(comm);
}

/* The others get the reason, as by rondo_comm_create(). */
Test(creation_arguments, returns_a_bad_setting_from_its_test, .timeout = 60)
{
	int port = free_port();
	struct rondo_config right = world_config(0, 2, port), wrong = world_config(1, 2, port);
	rondo_creation *first = world_create(&right), *second;
	rondo_comm *comm;

	wrong.channels = 99;
	second = world_create(&wrong);
	cr_expect_eq(await_end(second, &comm), RONDO_SETTING);
	cr_expect(strstr(rondo_last_error(), "99"), "%s", rondo_last_error());
	cr_expect_eq(await_end(first, &comm), RONDO_SETTING);
	cr_expect(strstr(rondo_last_error(), "rank 1 of 2 could not take part"), "%s",
		rondo_last_error());
}
