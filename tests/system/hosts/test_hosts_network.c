/* Networks between hosts: few bytes cross slow cables, dead interfaces do no harm, and nothing is
   left of hosts after their test. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "text.h"
#include "world.h"

/* ---- Traffic on the cables ------------------------------------------------------------------ */

#define COUNT (1 << 20)
#define BYTES (COUNT * sizeof(float))

static float many[COUNT];

/* How often the values of one all-reduce may cross an interface of each host, each way. */
struct crossing {
	int network;
	double times;
};

/* Headers, acknowledgements and control messages come on top. */
static bool is_about(uint64_t bytes, double times)
{
	return bytes >= times * BYTES && bytes <= (times * 1.1 + 0.01) * BYTES;
}

/* No rank is in another call. */
static bool read_traffic(const struct rank_env *env, struct hosts_traffic *traffic)
{
	const struct crossing *crossing = env->argument;

	return env->comm && !rondo_barrier(env->comm, NULL) &&
	       hosts_traffic(crossing->network, traffic) && !rondo_barrier(env->comm, NULL);
}

static int cross(struct rank_env *env)
{
	const struct crossing *crossing = env->argument;
	struct hosts_traffic before, after;

	if (!read_traffic(env, &before))
		return world_report(env, "before: %s", rondo_last_error());

	int wrong = world_sum(env, many, COUNT);

	if (wrong)
		return wrong;
	if (!read_traffic(env, &after))
		return world_report(env, "after: %s", rondo_last_error());
	after.sent -= before.sent;
	after.received -= before.received;
	if (!is_about(after.sent, crossing->times) || !is_about(after.received, crossing->times))
		return world_report(env, "%.2f times out and %.2f times in, not %.2f times",
			(double)after.sent / BYTES, (double)after.received / BYTES,
			crossing->times);
	return 0;
}

static void cross_slowly(const struct world *ranks, double times, const char *rate)
{
	struct hosts *hosts = world_hosts(&(struct hosts_shape){ .count = 2 });
	struct world world = *ranks;
	struct crossing crossing = { .times = times };

	world.hosts = hosts;
	cr_assert(hosts_slow(hosts, 0, 0, rate));
	cr_assert_eq(world_run(&world, cross, &crossing, NULL), 0);
}

static const struct world two_and_two = { .size = 4, .host_of = { 0, 0, 1, 1 } };
static const struct world four_and_four = { .size = 8, .host_of = { 0, 0, 0, 0, 1, 1, 1, 1 } };
static const struct world one_and_three = { .size = 4, .host_of = { 0, 1, 1, 1 } };
static const struct world by_turns = { .size = 4, .host_of = { 0, 1, 0, 1 } };

/* Each host must receive the other's sum: once the bytes of all values. */
static void cross_with_the_least(const char *rate)
{
	cross_slowly(&two_and_two, 1, rate);
	cross_slowly(&four_and_four, 1, rate);
	cross_slowly(&one_and_three, 1, rate);
	cross_slowly(&by_turns, 1, rate);
}

Test(hosts_network, hierarchical_crosses_a_slow_link_with_as_few_bytes_as_can_be, .timeout = 120)
{
	setenv("RONDO_ALGO", "hierarchical", 1);
	cross_with_the_least("50mbit");
}

/* So slow that links within a host are cheaper even on a busy machine. */
Test(hosts_network, so_does_what_is_chosen_over_a_slow_link, .timeout = 120)
{
	cross_with_the_least("10mbit");
}

/* A ring has 2 (n - 1) steps of 1/n of the values; one rank of each host sends all of its own
   away. */
Test(hosts_network, a_ring_enters_and_leaves_each_host_once_however_ranks_lie, .timeout = 120)
{
	setenv("RONDO_ALGO", "ring", 1);
	cross_slowly(&two_and_two, 1.5, "50mbit");
	cross_slowly(&by_turns, 1.5, "50mbit");
}

static void run_with_eth1(int network, double times)
{
	struct hosts *hosts = world_hosts(&(struct hosts_shape){ .count = 2, .networks = 2 });
	struct world world = { .size = 2, .hosts = hosts, .host_of = { 0, 1 } };
	struct crossing crossing = { .network = network, .times = times };

	setenv("RONDO_INTERFACE", "eth1", 1);
	cr_assert_eq(world_run(&world, cross, &crossing, NULL), 0);
}

Test(hosts_network, the_interface_that_was_named_carries_what_ranks_send, .timeout = 60)
{
	run_with_eth1(1, 1);
}

Test(hosts_network, and_the_one_to_the_master_next_to_nothing, .timeout = 60)
{
	run_with_eth1(0, 0);
}

/* Both interfaces are on one network, and the routing table prefers eth0. */
static struct hosts *hosts_with_eth1_beside_eth0(void)
{
	struct hosts *hosts = world_hosts(&(struct hosts_shape){ .count = 2, .networks = 2 });

	cr_assert(hosts_configure(
		hosts, 0, "addr flush dev eth1\naddr add 10.7.0.101/24 dev eth1\n"));
	cr_assert(hosts_configure(
		hosts, 1, "addr flush dev eth1\naddr add 10.7.0.102/24 dev eth1\n"));
	return hosts;
}

static void run_with_eth1_beside_eth0(int network, double times)
{
	struct hosts *hosts = hosts_with_eth1_beside_eth0();
	struct world world = { .size = 3, .hosts = hosts, .host_of = { 0, 1, 1 } };
	struct crossing crossing = { .network = network, .times = times };

	setenv("RONDO_INTERFACE", "eth1", 1);
	setenv("RONDO_ALGO", "ring", 1);
	/* Ranks of one host connect to an address of it, too. */
	setenv("RONDO_TRANSPORT", "tcp", 1);
	cr_assert_eq(warnings_of(world_run_captured(&world, cross, &crossing)), 0);
}

/* Each rank sends 2 * 2/3 of the values, and one rank of each host sends them away. */
Test(hosts_network, the_interface_that_was_named_carries_all_where_another_has_its_network,
	.timeout = 60)
{
	run_with_eth1_beside_eth0(1, 4.0 / 3);
}

Test(hosts_network, and_the_other_on_its_network_next_to_nothing, .timeout = 60)
{
	run_with_eth1_beside_eth0(0, 0);
}

/* Rank 0 answers by eth0, and rank 1 waits for the answer at eth1. */
Test(hosts_network, where_the_peer_answers_by_the_other_one_line_warns, .timeout = 60)
{
	struct hosts *hosts = hosts_with_eth1_beside_eth0();
	const char *const interfaces[] = { NULL, "eth1" };
	struct world world = {
		.size = 2, .hosts = hosts, .host_of = { 0, 1 }, .interfaces = interfaces
	};
	const char *text = world_run_captured(&world, world_sum_one, NULL);

	cr_expect_eq(warnings_of(text), 1, "%s", text);
	cr_expect(strstr(text, "rank 1 does not reach rank 0 at 10.7.0.1:"), "%s", text);
	cr_expect(strstr(text, " by eth1, and lets the kernel choose"), "%s", text);
}

/* ---- No secret ------------------------------------------------------------------------------ */

Test(hosts_network, a_job_without_a_secret_is_warned, .timeout = 60)
{
	struct hosts *hosts = world_hosts(&(struct hosts_shape){ .count = 2, .networks = 1 });
	struct world world = {
		.size = 2, .hosts = hosts, .host_of = { 0, 1 }, .has_no_secret = true
	};
	const char *text = world_run_captured(&world, world_sum_one, NULL);

	cr_expect_eq(warnings_of(text), 1, "%s", text);
	cr_expect(strstr(text, "[0] RONDO WARN no secret: anyone on the network may join"), "%s",
		text);
}

/* ---- Dead interfaces ------------------------------------------------------------------------ */

/* The library does not even try it: that would be a line of log. */
Test(hosts_network, a_dead_interface_beside_the_one_in_use_is_left_alone, .timeout = 60)
{
	struct hosts *hosts = world_hosts(&(struct hosts_shape){ .count = 2, .networks = 2 });
	struct world world = {
		.size = 4, .channels = 2, .hosts = hosts, .host_of = { 0, 0, 1, 1 }
	};
	const char *text;

	cr_assert(hosts_unplug(hosts, 1, 1));
	text = world_run_captured(&world, world_sum_one, NULL);
	cr_expect_eq(warnings_of(text), 0, "%s", text);
}

Test(hosts_network, an_interface_that_leads_nowhere_falls_back_to_one_that_does, .timeout = 60)
{
	struct hosts *hosts = world_hosts(&(struct hosts_shape){ .count = 2, .networks = 2 });
	struct world world = { .size = 4, .hosts = hosts, .host_of = { 0, 0, 1, 1 } };

	setenv("RONDO_INTERFACE", "eth1,eth0", 1);
	cr_assert(hosts_unplug(hosts, 1, 1));
	cr_assert_eq(world_run(&world, world_sum_one, NULL, NULL), 0);
}

static int miss_the_other_host(struct rank_env *env)
{
	const char *name = env->rank == 0 ? "rank 1 (host host1)" : "rank 0 (host host0)";

	if (env->create_error != RONDO_UNREACHABLE || !strstr(rondo_last_error(), name) ||
		!strstr(rondo_last_error(), "10.7.1.1"))
		return world_report(
			env, "got %s: %s", rondo_error_name(env->create_error), rondo_last_error());
	return 0;
}

Test(hosts_network, where_no_other_may_be_used_the_error_says_what_cannot_be_reached, .timeout = 60)
{
	struct hosts *hosts = world_hosts(&(struct hosts_shape){ .count = 2, .networks = 2 });
	struct world world = { .size = 2, .hosts = hosts, .host_of = { 0, 1 } };

	setenv("RONDO_INTERFACE", "eth1", 1);
	cr_assert(hosts_unplug(hosts, 1, 1));
	cr_assert_eq(world_run(&world, miss_the_other_host, NULL, NULL), 0);
}

Test(hosts_network, hosts_that_do_not_reach_each_other_here_meet_elsewhere, .timeout = 60)
{
	struct hosts *hosts = world_hosts(&(struct hosts_shape){ .count = 3, .networks = 2 });
	struct world world = { .size = 3, .hosts = hosts, .host_of = { 0, 1, 2 } };

	cr_assert(hosts_divide(hosts, 1, 2, 0));
	cr_assert_eq(world_run(&world, world_sum_one, NULL, NULL), 0);
}

/* ---- Nothing is left ------------------------------------------------------------------------ */

static void be_hosts_until_killed(pid_t watcher, int ready)
{
	const char *reason;
	struct hosts *hosts = hosts_create(&(struct hosts_shape){ .count = 2 }, &reason);
	char command[160], byte = 0;

	if (!hosts)
		_exit(1);
	if (fork() == 0) {
		hosts_enter(hosts, 1);
		/* The watcher has one end, which closes with the host. */
		snprintf(command, sizeof(command),
			"PATH=$PATH:/usr/sbin:/sbin; ip link add near type veth peer name far "
			"netns %d",
			(int)watcher);
		if (system(command) == 0 && write(ready, &byte, 1) == 1)
			pause();
		_exit(1);
	}
	pause();
}

Test(hosts_network, a_test_that_is_killed_leaves_no_hosts, .timeout = 60)
{
	/* In a namespace of its own: the machine stays as it is. */
	world_hosts(&(struct hosts_shape){ .count = 1 });

	int ready[2];
	char byte;

	cr_assert_eq(pipe2(ready, O_CLOEXEC), 0);
	pid_t watcher = (int)syscall(SYS_gettid), test = fork();

	if (test == 0)
		be_hosts_until_killed(watcher, ready[1]);
	close(ready[1]);
	cr_assert_eq(read(ready[0], &byte, 1), 1, "no hosts within");
	cr_assert(if_nametoindex("far"));
	kill(test, SIGKILL);
	waitpid(test, NULL, 0);
	/* The kernel takes namespaces down when it has time. */
	for (int waited_ms = 0; if_nametoindex("far") && waited_ms < 20000; waited_ms += 10)
		poll(NULL, 0, 10);
	cr_assert_not(if_nametoindex("far"), "the killed test's host is still there");
}
