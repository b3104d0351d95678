/* ctest label: threads */
/* Comms that meet by a unique id, which the program itself passes on. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rondo.h"

#define SIZE 4

static struct rondo_config config_of(int rank, int size, const struct rondo_unique_id *id)
{
	struct rondo_config config = RONDO_CONFIG_INIT;

	config.rank = rank;
	config.size = size;
	config.unique_id = id;
	return config;
}

/* Returns 0, or a number for the step that failed. */
static int meet_and_sum(int rank, int size, const struct rondo_unique_id *id)
{
	struct rondo_config config = config_of(rank, size, id);
	int32_t mine = rank + 1, sum = 0;
	rondo_comm *comm;

	if (rondo_comm_create(&comm, &config))
		return 1;
	if (rondo_all_reduce(comm, &mine, &sum, 1, RONDO_I32, RONDO_SUM, NULL) ||
		sum != size * (size + 1) / 2)
		return 2;
	return rondo_comm_destroy(comm) ? 3 : 0;
}

struct rank {
	pthread_t thread;
	int rank, result;
	const struct rondo_unique_id *id;
};

static void *run_rank(void *argument)
{
	struct rank *rank = argument;

	rank->result = meet_and_sum(rank->rank, SIZE, rank->id);
	return NULL;
}

/* As with NCCL: each id serves one comm, and two comms may be made side by side. */
Test(unique_id, threads_meet_by_ids_in_several_comms_at_once, .timeout = 60)
{
	struct rondo_unique_id ids[2];
	struct rank ranks[2][SIZE];

	for (int job = 0; job < 2; job++) {
		cr_assert_eq(rondo_get_unique_id(&ids[job]), 0, "%s", rondo_last_error());
		for (int i = 0; i < SIZE; i++)
			ranks[job][i] = (struct rank){ .rank = i, .id = &ids[job] };
	}
	cr_assert(memcmp(&ids[0], &ids[1], sizeof(ids[0])));
	for (int i = 0; i < 2 * SIZE; i++)
		pthread_create(&ranks[i % 2][i / 2].thread, NULL, run_rank, &ranks[i % 2][i / 2]);
	for (int i = 0; i < 2 * SIZE; i++) {
		pthread_join(ranks[i % 2][i / 2].thread, NULL);
		cr_expect_eq(ranks[i % 2][i / 2].result, 0);
	}
}

/* The bytes of rank 0's process reach the others, which have never called the library before. */
Test(unique_id, processes_meet_by_bytes_that_rank_0_made, .timeout = 60)
{
	struct rondo_unique_id id;
	int ends[2];

	for (int rank = SIZE - 1; rank >= 0; rank--) {
		if (rank == SIZE - 1)
			cr_assert_eq(pipe(ends), 0);
		pid_t child = fork();

		if (child > 0)
			continue;
		setenv("RONDO_RENDEZVOUS_FD", "77", 1);
		setenv("MASTER_ADDR", "nowhere.invalid", 1);
		if (rank > 0) {
			if (read(ends[0], &id, sizeof(id)) != sizeof(id))
				_exit(9);
			_exit(meet_and_sum(rank, SIZE, &id));
		}
		if (rondo_get_unique_id(&id))
			_exit(8);
		for (int i = 1; i < SIZE; i++)
			if (write(ends[1], &id, sizeof(id)) != sizeof(id))
				_exit(7);
		_exit(meet_and_sum(0, SIZE, &id));
	}
	for (int i = 0; i < SIZE; i++) {
		int status;

		cr_assert_gt(wait(&status), 0);
		cr_expect_eq(status, 0, "%x", status);
	}
}

Test(unique_id, a_parent_may_make_it_for_children, .timeout = 60)
{
	struct rondo_unique_id id;

	cr_assert_eq(rondo_get_unique_id(&id), 0, "%s", rondo_last_error());
	for (int rank = 0; rank < SIZE; rank++)
		if (fork() == 0)
			_exit(meet_and_sum(rank, SIZE, &id));
	for (int i = 0; i < SIZE; i++) {
		int status;

		cr_assert_gt(wait(&status), 0);
		cr_expect_eq(status, 0, "%x", status);
	}
}

static void assert_refused(const struct rondo_config *config, const char *reason)
{
	rondo_comm *comm = (rondo_comm *)1;

	cr_assert_eq(rondo_comm_create(&comm, config), RONDO_INVALID, "%s", reason);
	cr_assert_null(comm);
	cr_assert(
		strstr(rondo_last_error(), reason), "no \"%s\" in: %s", reason, rondo_last_error());
}

Test(unique_id, bytes_that_are_no_id_and_an_id_of_another_process_are_refused, .timeout = 60)
{
	struct rondo_unique_id id, wrong = { 0 };
	struct rondo_config config = config_of(1, 2, &wrong);

	assert_refused(&config, "rank 1: unique_id in struct rondo_config is none that");
	cr_assert_eq(rondo_get_unique_id(&id), 0, "%s", rondo_last_error());
	/* One byte at a time: what is read is checked. */
	for (size_t i = 0; i < 8; i++) {
		wrong = id;
		wrong.bytes[i] ^= 1;
		assert_refused(&config, "is none that");
	}
	memset(wrong.bytes + 8, 'x', sizeof(wrong.bytes) - 8);
	memcpy(wrong.bytes, id.bytes, 8);
	assert_refused(&config, "is none that");
	/* Another key: that of no id of this process. */
	wrong = id;
	char *last = wrong.bytes + strlen(wrong.bytes) - 1;

	*last = *last == '0' ? '1' : '0';
	config.rank = 0;
	assert_refused(&config, "rank 0: unique_id in struct rondo_config is of another process");
	/* Used twice. */
	config = config_of(0, 1, &id);
	cr_assert_eq(meet_and_sum(0, 1, &id), 0, "%s", rondo_last_error());
	assert_refused(&config, "or was used before");
	config.port = 5;
	assert_refused(&config, "replaces address, port and rendezvous_fd");
	cr_assert_eq(rondo_get_unique_id(NULL), RONDO_INVALID);
}

/* The other rank learns the reason, at once. */
static void *create_with_channels(void *argument)
{
	struct rank *rank = argument;
	struct rondo_config config = config_of(rank->rank, 2, rank->id);
	rondo_comm *comm;

	config.channels = rank->result;
	rank->result = rondo_comm_create(&comm, &config) == RONDO_SETTING &&
		       strstr(rondo_last_error(), "channels in struct rondo_config is \"99\"");
	return NULL;
}

Test(unique_id, a_rank_with_a_bad_setting_sends_the_other_the_reason, .timeout = 60)
{
	for (int bad = 0; bad < 2; bad++) {
		struct rondo_unique_id id;
		struct rank ranks[2];

		cr_assert_eq(rondo_get_unique_id(&id), 0, "%s", rondo_last_error());
		for (int i = 0; i < 2; i++) {
			ranks[i] =
				(struct rank){ .rank = i, .id = &id, .result = i == bad ? 99 : 1 };
			pthread_create(&ranks[i].thread, NULL, create_with_channels, &ranks[i]);
		}
		for (int i = 0; i < 2; i++) {
			pthread_join(ranks[i].thread, NULL);
			cr_expect_eq(ranks[i].result, 1, "rank %d, where rank %d is bad", i, bad);
		}
	}
}

Test(unique_id, the_address_is_that_of_the_interface_that_the_user_names)
{
	struct rondo_unique_id id;

	setenv("RONDO_INTERFACE", "lo", 1);
	cr_assert_eq(rondo_get_unique_id(&id), 0, "%s", rondo_last_error());
	cr_assert(strstr(id.bytes, " 127.0.0.1/"), "%s", id.bytes);
	setenv("RONDO_INTERFACE", "nonesuch,lo", 1);
	cr_assert_eq(rondo_get_unique_id(&id), RONDO_SETTING);
	cr_assert(strstr(rondo_last_error(), "RONDO_INTERFACE is \"nonesuch,lo\": its first"), "%s",
		rondo_last_error());
}
