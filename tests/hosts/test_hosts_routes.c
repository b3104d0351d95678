/* Ranks on several hosts with two networks between them, of which one does not carry a pair. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "text.h"
#include "world.h"

#define COUNT (1 << 20)

static float values[COUNT];

static int all_reduce(struct rank_env *env)
{
	return world_sum(env, values, COUNT);
}

Test(hosts_routes, a_pair_goes_by_another_network_where_its_own_is_cut, .timeout = 60)
{
	struct hosts *hosts = world_hosts(&(struct hosts_shape){ .count = 3, .networks = 2 });
	struct world world = { .size = 3, .hosts = hosts, .host_of = { 0, 1, 2 } };
	const char *text;

	cr_assert(hosts_divide(hosts, 1, 2, 0));
	text = world_run_captured(&world, all_reduce, NULL);
	cr_expect_eq(count_of(text, " WARN "), 1, "%s", text);
	cr_expect(strstr(text, "[2] RONDO WARN NET/Socket : rank 2 does not reach rank 1 at 10."),
		"%s", text);
	cr_expect(strstr(text, " by eth0 ("), "%s", text);
	hosts_destroy(hosts);
}

Test(hosts_routes, of_two_interfaces_that_are_named_a_dead_one_is_done_without, .timeout = 60)
{
	struct hosts *hosts = world_hosts(&(struct hosts_shape){ .count = 2, .networks = 2 });
	struct world world = { .size = 2, .channels = 2, .hosts = hosts, .host_of = { 0, 1 } };
	const char *text;

	cr_assert(hosts_unplug(hosts, 0, 1));
	setenv("RONDO_INTERFACE", "eth1,eth0", 1);
	text = world_run_captured(&world, all_reduce, NULL);
	cr_expect_eq(count_of(text, " WARN "), 1, "%s", text);
	cr_expect(strstr(text, " by eth1 ("), "%s", text);
	hosts_destroy(hosts);
}

/* Connected sockets of this process at an address of its own. */
static int connections_at(const char *address)
{
	int found = 0;

	for (int fd = 0; fd < 1024; fd++) {
		struct sockaddr_in here, there;
		socklen_t size = sizeof(here), there_size = sizeof(there);
		char text[INET_ADDRSTRLEN];

		if (getsockname(fd, (struct sockaddr *)&here, &size) ||
			here.sin_family != AF_INET ||
			getpeername(fd, (struct sockaddr *)&there, &there_size))
			continue;
		inet_ntop(AF_INET, &here.sin_addr, text, sizeof(text));
		found += strcmp(text, address) == 0;
	}
	return found;
}

/* The control connection goes by the first too, until the peer has left. */
static int count_links(struct rank_env *env)
{
	const struct world *world = env->world;
	int host = world->host_of[env->rank];
	int first, second;

	if (all_reduce(env))
		return 1;
	first = connections_at(hosts_address(world->hosts, host, 0));
	second = connections_at(hosts_address(world->hosts, host, 1));
	if (first >= 2 && second == 1)
		return 0;
	return world_report(env, "%d connections over eth0, %d over eth1", first, second);
}

Test(hosts_routes, channels_are_connected_over_the_interfaces_that_are_named, .timeout = 60)
{
	struct hosts *hosts = world_hosts(&(struct hosts_shape){ .count = 2, .networks = 2 });
	struct world world = { .size = 2, .channels = 3, .hosts = hosts, .host_of = { 0, 1 } };

	setenv("RONDO_INTERFACE", "eth0,eth1", 1);
	cr_expect_eq(count_of(world_run_captured(&world, count_links, NULL), " RONDO "), 0);
	hosts_destroy(hosts);
}

#define CALLS 8
#define INTERFACES 2

/* Bytes out and in at each interface; no rank is in another call. */
static bool read_traffic(const struct rank_env *env, uint64_t bytes[INTERFACES])
{
	bool valid = env->comm && !rondo_barrier(env->comm, NULL);

	for (int i = 0; i < INTERFACES && valid; i++) {
		struct hosts_traffic traffic;

		valid = hosts_traffic(i, &traffic);
		bytes[i] = traffic.sent + traffic.received;
	}
	return valid && !rondo_barrier(env->comm, NULL);
}

/* The number: per cent of the bytes of some long calls over eth1. */
static int measure_share(struct rank_env *env)
{
	uint64_t before[INTERFACES], after[INTERFACES];

	if (!read_traffic(env, before))
		return world_report(env, "before: %s", rondo_last_error());
	for (int i = 0; i < CALLS; i++)
		if (all_reduce(env))
			return 1;
	if (!read_traffic(env, after))
		return world_report(env, "after: %s", rondo_last_error());

	uint64_t first = after[0] - before[0], second = after[1] - before[1];

	if (first + second < CALLS * sizeof(values))
		return world_report(env, "only %llu bytes went by both interfaces",
			(unsigned long long)(first + second));
	*env->number = second * 100 / (first + second);
	return 0;
}

/*
 * EXPECTED TO FAIL: both interfaces are named and connected, but the first carries all bytes. The
 * test fails once the second carries one per cent. Then turn it over: each must carry LEAST_SHARE
 * per cent or more.
 */
#define LEAST_SHARE 25

Test(hosts_routes, bytes_spread_over_the_interfaces_that_are_named, .timeout = 60)
{
	struct hosts *hosts = world_hosts(&(struct hosts_shape){ .count = 2, .networks = 2 });
	struct world world = { .size = 2, .channels = 2, .hosts = hosts, .host_of = { 0, 1 } };
	struct rank_outcome outcomes[WORLD_MAX];

	setenv("RONDO_INTERFACE", "eth0,eth1", 1);
	/* By built-in costs: disturbed measurements sometimes lead to both channels by chance. */
	setenv("RONDO_REPRODUCIBLE", "1", 1);
	cr_assert_eq(world_run(&world, measure_share, NULL, outcomes), 0);
	for (int rank = 0; rank < world.size; rank++) {
		int share = (int)outcomes[rank].number;

		fprintf(stderr,
			"expected to fail: eth1 carried %d %% of rank %d's bytes, not %d or more\n",
			share, rank, LEAST_SHARE);
		cr_expect_eq(share, 0,
			"expected to fail, and eth1 carried %d %% of rank %d's bytes: turn this "
			"test over",
			share, rank);
	}
	hosts_destroy(hosts);
}
