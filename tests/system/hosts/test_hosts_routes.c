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

#include "comm/comm.h"
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
	cr_expect_eq(warnings_of(text), 1, "%s", text);
	cr_expect(strstr(text, "[2] RONDO WARN NET/Socket : rank 2 does not reach rank 1 at 10."),
		"%s", text);
	cr_expect(strstr(text, " by eth0 ("), "%s", text);
}

Test(hosts_routes, of_two_interfaces_that_are_named_a_dead_one_is_done_without, .timeout = 60)
{
	struct hosts *hosts = world_hosts(&(struct hosts_shape){ .count = 2, .networks = 2 });
	struct world world = { .size = 2, .channels = 2, .hosts = hosts, .host_of = { 0, 1 } };
	const char *text;

	cr_assert(hosts_unplug(hosts, 0, 1));
	setenv("RONDO_INTERFACE", "eth1,eth0", 1);
	text = world_run_captured(&world, all_reduce, NULL);
	cr_expect_eq(warnings_of(text), 1, "%s", text);
	cr_expect(strstr(text, " by eth1 ("), "%s", text);
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
}

/* ---- Bytes over several interfaces ---------------------------------------------------------- */

#define CALLS 8
#define INTERFACES 3

/* Interfaces, from the first on, that carry equal parts of the bytes; the others next to none. */
struct striping {
	int carrying;
	int there; /* of each host */
};

/* Bytes out and in at each interface; no rank is in another call. */
static bool read_traffic(const struct rank_env *env, uint64_t bytes[INTERFACES])
{
	const struct striping *striping = env->argument;
	bool valid = env->comm && !rondo_barrier(env->comm, NULL);

	for (int i = 0; i < striping->there && valid; i++) {
		struct hosts_traffic traffic;

		valid = hosts_traffic(i, &traffic);
		bytes[i] = traffic.sent + traffic.received;
	}
	return valid && !rondo_barrier(env->comm, NULL);
}

/* An interface's part of the bytes, in thousandths: equal to the others', or next to nothing. */
static bool is_right(const struct striping *striping, int interface, uint64_t part)
{
	uint64_t equal = 1000 / (uint64_t)striping->carrying;

	if (interface >= striping->carrying)
		return part < 10;
	return part > equal * 8 / 10 && part < equal * 12 / 10 + 1;
}

static int check_parts(struct rank_env *env, const uint64_t bytes[INTERFACES])
{
	const struct striping *striping = env->argument;
	uint64_t sum = 0;

	for (int i = 0; i < striping->there; i++)
		sum += bytes[i];
	/* Each rank sends as much as it receives. */
	if (sum < 2 * CALLS * sizeof(values))
		return world_report(
			env, "only %llu bytes went by all interfaces", (unsigned long long)sum);
	for (int i = 0; i < striping->there; i++)
		if (!is_right(striping, i, bytes[i] * 1000 / sum))
			return world_report(env, "eth%d carried %llu of %llu bytes", i,
				(unsigned long long)bytes[i], (unsigned long long)sum);
	return 0;
}

/* The number: channels of long calls by the picker's choice. */
static int look_up_channels(struct rank_env *env)
{
	struct rondo_way ways[16];
	int count = rondo_explain(env->comm, "all_reduce", COUNT, RONDO_F32, 0, ways, 16);

	for (int i = 0; i < count && i < 16; i++)
		if (ways[i].chosen)
			*env->number = (uint64_t)ways[i].channels;
	return *env->number ? 0 : world_report(env, "no choice: %s", rondo_last_error());
}

static int stripe(struct rank_env *env)
{
	uint64_t before[INTERFACES], after[INTERFACES];

	if (!read_traffic(env, before))
		return world_report(env, "before: %s", rondo_last_error());
	for (int i = 0; i < CALLS; i++)
		if (all_reduce(env))
			return 1;
	if (!read_traffic(env, after))
		return world_report(env, "after: %s", rondo_last_error());
	for (int i = 0; i < INTERFACES; i++)
		after[i] -= before[i];

	int wrong = check_parts(env, after);

	return wrong ? wrong : look_up_channels(env);
}

/* All ranks choose `channels` channels, over which `striping` holds. */
static void expect_striping(
	const struct world *world, const struct striping *striping, uint64_t channels)
{
	struct rank_outcome outcomes[WORLD_MAX];
	struct striping copy = *striping;

	cr_expect_eq(world_run(world, stripe, &copy, outcomes), 0);
	for (int rank = 0; rank < world->size; rank++)
		cr_expect_eq(outcomes[rank].number, channels, "rank %d chose %d channels", rank,
			(int)outcomes[rank].number);
}

/* By built-in costs, where a wire of 10 Gbit/s limits each interface. */
static void expect_striping_unmeasured(int networks, int channels_there, const char *first,
	const char *second, int carrying, uint64_t channels)
{
	struct hosts *hosts =
		world_hosts(&(struct hosts_shape){ .count = 2, .networks = networks });
	const char *const interfaces[] = { first, second };
	struct world world = { .size = 2,
		.channels = channels_there,
		.hosts = hosts,
		.host_of = { 0, 1 },
		.interfaces = interfaces };

	setenv("RONDO_REPRODUCIBLE", "1", 1);
	expect_striping(&world, &(struct striping){ carrying, networks }, channels);
}

Test(hosts_routes, bytes_spread_over_the_interfaces_that_are_named, .timeout = 60)
{
	expect_striping_unmeasured(2, 2, "eth0,eth1", "eth0,eth1", 2, 2);
}

Test(hosts_routes, three_interfaces_carry_a_third_each, .timeout = 60)
{
	const char *all = "eth0,eth1,eth2";

	expect_striping_unmeasured(3, 3, all, all, 3, 3);
}

/* A third channel would give one of the two interfaces twice the bytes of the other. */
Test(hosts_routes, of_three_channels_over_two_interfaces_two_are_used, .timeout = 60)
{
	expect_striping_unmeasured(2, 3, "eth0,eth1", "eth0,eth1", 2, 2);
}

/* Channels that the host with fewer interfaces has on one of them add nothing up. */
Test(hosts_routes, hosts_with_different_numbers_of_interfaces_use_the_least, .timeout = 60)
{
	expect_striping_unmeasured(3, 3, "eth0,eth1,eth2", "eth0,eth1", 2, 2);
	expect_striping_unmeasured(3, 3, "eth0,eth1", "eth0,eth1,eth2", 2, 2);
	expect_striping_unmeasured(2, 2, "eth0,eth1", "eth0", 1, 1);
}

/* Each host's ranks send over the same two cables. */
Test(hosts_routes, ranks_that_share_hosts_spread_their_bytes_too, .timeout = 60)
{
	struct hosts *hosts = world_hosts(&(struct hosts_shape){ .count = 2, .networks = 2 });
	struct world world = {
		.size = 4, .channels = 2, .hosts = hosts, .host_of = { 0, 0, 1, 1 }
	};

	setenv("RONDO_INTERFACE", "eth0,eth1", 1);
	setenv("RONDO_REPRODUCIBLE", "1", 1);
	expect_striping(&world, &(struct striping){ 2, 2 }, 2);
}

/* The kernel moves bytes within a host without its cards. */
Test(hosts_routes, within_a_host_interfaces_add_nothing_up, .timeout = 60)
{
	struct hosts *hosts = world_hosts(&(struct hosts_shape){ .count = 1, .networks = 2 });
	struct world world = {
		.size = 2, .transport = "tcp", .channels = 2, .hosts = hosts, .host_of = { 0, 0 }
	};
	struct rank_outcome outcomes[WORLD_MAX];

	setenv("RONDO_INTERFACE", "eth0,eth1", 1);
	setenv("RONDO_REPRODUCIBLE", "1", 1);
	cr_assert_eq(world_run(&world, look_up_channels, NULL, outcomes), 0);
	cr_expect_eq(outcomes[0].number, 1);
	cr_expect_eq(outcomes[1].number, 1);
}

/* A channel short, the third interface is in reserve. */
Test(hosts_routes, the_log_names_the_interface_of_each_channel, .timeout = 60)
{
	struct hosts *hosts = world_hosts(&(struct hosts_shape){ .count = 2, .networks = 3 });
	struct world world = { .size = 2, .channels = 2, .hosts = hosts, .host_of = { 0, 1 } };
	const char *text;

	setenv("RONDO_INTERFACE", "eth2,eth0,eth1", 1);
	setenv("RONDO_DEBUG", "INFO", 1);
	setenv("RONDO_DEBUG_SUBSYS", "NET,ROUTE", 1);
	text = world_run_captured(&world, all_reduce, NULL);
	cr_expect_eq(count_of(text, "NET/Socket : Using [0]eth2:10.7.2."), 2, "%s", text);
	cr_expect_eq(count_of(text, "NET/Socket : Using [1]eth0:10.7.0."), 2, "%s", text);
	cr_expect_eq(count_of(text, "NET/Socket : In reserve [2]eth1:10.7.1."), 2, "%s", text);
	cr_expect_eq(count_of(text, "] via tcp/0"), 2, "%s", text);
	cr_expect_eq(count_of(text, "] via tcp/1"), 2, "%s", text);
	cr_expect_eq(count_of(text, "Using network tcp over 2 rails"), 2, "%s", text);
}

/* Both ranks measure the same two links; the costs differ from the built-in ones by far. */
Test(hosts_routes, interfaces_that_limit_are_measured_to_add_up, .timeout = 120)
{
	struct hosts *hosts = world_hosts(&(struct hosts_shape){ .count = 2, .networks = 2 });
	const char *const interfaces[] = { "eth0,eth1", "eth0,eth1" };
	struct world world = { .size = 2,
		.channels = 2,
		.hosts = hosts,
		.host_of = { 0, 1 },
		.interfaces = interfaces };

	cr_assert(hosts_slow(hosts, 0, 0, "200mbit"));
	cr_assert(hosts_slow(hosts, 0, 1, "200mbit"));
	expect_striping(&world, &(struct striping){ 2, 2 }, 2);
}

/* Measured briefly: 50 Mbit/s are 6.25 bytes/us. */
static int is_priced_as_slow(struct rank_env *env)
{
	TRY(env->create_error);

	const struct rd_link_cost *far = &env->comm->costs.links[RD_FAR];

	for (uint64_t size = 64 << 10; size <= 4 << 20; size *= 2) {
		struct rd_message_cost cost = rd_message_cost(far, size);
		int64_t ns = cost.send_ns + cost.flight_ns + cost.recv_ns;

		if (ns < (int64_t)size * 80)
			return world_report(env, "%llu bytes are thought to take %lld ns",
				(unsigned long long)size, (long long)ns);
	}
	return 0;
}

Test(hosts_routes, a_slow_link_is_priced_as_slow_as_it_is, .timeout = 120)
{
	struct hosts *hosts = world_hosts(&(struct hosts_shape){ .count = 2 });
	struct world world = { .size = 2, .hosts = hosts, .host_of = { 0, 1 } };

	cr_assert(hosts_slow(hosts, 0, 0, "50mbit"));
	cr_assert_eq(world_run(&world, is_priced_as_slow, NULL, NULL), 0);
}
