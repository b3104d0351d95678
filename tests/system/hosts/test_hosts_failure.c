/* A host that vanishes, its ranks killed or its cable pulled: every rank elsewhere gets an error
   that names one of its ranks, within the bound that was set. */
#include <criterion/criterion.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "world.h"

#define RANKS 4
#define HEARTBEAT_TIMEOUT_MS "1500"
/* Until every rank has ended: the bound, and the time to start and end ranks on a loaded
   machine. */
#define LIMIT_MS 15000

enum way { KILLED, UNPLUGGED, SWITCHED_OFF };

/* The loss of the host, caused by its ranks in their fourth call. */
struct end {
	int host; /* ranks 2 * host and 2 * host + 1 */
	enum way way;
};

static bool is_victim(const struct rank_env *env)
{
	const struct end *end = env->argument;

	return env->world->host_of[env->rank] == end->host;
}

static int vanish(struct rank_env *env)
{
	const struct end *end = env->argument;
	const struct hosts *hosts = env->world->hosts;

	if (end->way == KILLED)
		return raise(SIGKILL);
	if (env->rank % 2)
		return 0;
	if (end->way == UNPLUGGED ? hosts_unplug(hosts, end->host, 0)
				  : hosts_switch_off(hosts, end->host, 0))
		return 0;
	return world_report(env, "the host stays");
}

/* The others name a rank of the lost host; its own ranks, if alive, name one elsewhere. */
static int names_the_other_side(struct rank_env *env, int err)
{
	const struct end *end = env->argument;
	int first = is_victim(env) ? 2 * !end->host : 2 * end->host;
	char one[32], other[32];

	snprintf(one, sizeof(one), "rank %d (", first);
	snprintf(other, sizeof(other), "rank %d (", first + 1);
	/* A kernel resets the connection of a dead rank that had not read all. */
	if (end->way == KILLED && err == RONDO_BROKEN && strstr(rondo_last_error(), "is cut off"))
		err = RONDO_DIED;
	if (err != (end->way == KILLED ? RONDO_DIED : RONDO_TIMEOUT) ||
		(!strstr(rondo_last_error(), one) && !strstr(rondo_last_error(), other)))
		return world_report(env, "got %s: %s", rondo_error_name(err), rondo_last_error());
	return 0;
}

static float values[100000];

static int go_on_until_it_fails(struct rank_env *env)
{
	int err = env->create_error;

	for (int i = 0; !err; i++) {
		if (i == 3 && is_victim(env) && vanish(env))
			return 1;
		err = rondo_all_reduce(
			env->comm, values, values, 100000, RONDO_F32, RONDO_SUM, NULL);
	}
	/* The other rank of its host may have died first, before this one's third call ended. */
	if (is_victim(env) && ((const struct end *)env->argument)->way == KILLED)
		return raise(SIGKILL);
	return names_the_other_side(env, err);
}

static void lose_within(const char *setting, const char *bound_ms, int host, enum way way)
{
	struct hosts *hosts = world_hosts(&(struct hosts_shape){ .count = 2 });
	struct world world = {
		.size = RANKS, .limit_ms = LIMIT_MS, .hosts = hosts, .host_of = { 0, 0, 1, 1 }
	};
	struct end end = { .host = host, .way = way };
	struct rank_outcome outcomes[WORLD_MAX];

	setenv(setting, bound_ms, 1);
	world_run(&world, go_on_until_it_fails, &end, outcomes);
	for (int rank = 0; rank < RANKS; rank++) {
		bool killed = way == KILLED && world.host_of[rank] == host;

		cr_assert_eq(outcomes[rank].status, killed ? 128 + SIGKILL : 0, "rank %d: %d: %s",
			rank, outcomes[rank].status, outcomes[rank].text);
	}
}

static void lose(int host, enum way way)
{
	lose_within("RONDO_HEARTBEAT_TIMEOUT_MS", HEARTBEAT_TIMEOUT_MS, host, way);
}

Test(hosts_failure, a_host_whose_ranks_are_killed_is_named, .timeout = 60)
{
	lose(1, KILLED);
}

Test(hosts_failure, so_is_one_with_rank_0, .timeout = 60)
{
	lose(0, KILLED);
}

Test(hosts_failure, a_host_that_falls_silent_is_named_and_names_the_others, .timeout = 60)
{
	lose(1, UNPLUGGED);
}

Test(hosts_failure, so_does_one_with_rank_0, .timeout = 60)
{
	lose(0, UNPLUGGED);
}

Test(hosts_failure, a_host_whose_interfaces_go_down_is_named, .timeout = 60)
{
	lose(1, SWITCHED_OFF);
}

Test(hosts_failure, so_is_one_with_rank_0_whose_interfaces_go_down, .timeout = 60)
{
	lose(0, SWITCHED_OFF);
}

/* Long before its heartbeats are missed, which takes 30 s. */
Test(hosts_failure, a_host_that_sends_no_packet_is_named, .timeout = 60)
{
	lose_within("RONDO_UNREACHABLE_MS", "1000", 1, UNPLUGGED);
}

Test(hosts_failure, so_is_one_with_rank_0_that_sends_no_packet, .timeout = 60)
{
	lose_within("RONDO_UNREACHABLE_MS", "1000", 0, UNPLUGGED);
}

/* Waits until the captured log has all of these words. */
static bool log_tells(const char *const words[2])
{
	static char text[65536];
	int64_t end_ms = world_now_ms() + LIMIT_MS;
	ssize_t size;

	do {
		size = pread(STDERR_FILENO, text, sizeof(text) - 1, 0);
		text[size > 0 ? size : 0] = 0;
		if (strstr(text, words[0]) && strstr(text, words[1]))
			return true;
		poll(NULL, 0, 10);
	} while (world_now_ms() < end_ms);
	return false;
}

/* A cable is out until the log tells both sides so. */
static int go_on_after_a_break(struct rank_env *env)
{
	static const char *const out[] = { "[0] RONDO WARN the host of rank ",
		"[2] RONDO WARN the host of rank 0 (host host0, pid " };
	static const char *const in[] = { " answers again, after ",
		"[2] RONDO WARN the host of rank 0 (host host0, pid " };

	TRY(env->create_error);
	for (int i = 0; i < 10; i++) {
		if (i == 3 && env->rank == 2) {
			if (!hosts_unplug(env->world->hosts, 1, 0))
				return world_report(env, "the cable stays in");
			if (!log_tells(out))
				return world_report(env, "the log does not tell of the silence");
			if (!hosts_plug(env->world->hosts, 1, 0))
				return world_report(env, "the cable stays out");
		}
		if (world_sum(env, values, 100000))
			return 1;
	}
	if (env->rank == 2 && !log_tells(in))
		return world_report(env, "the log does not tell of its end");
	TRY(rondo_barrier(env->comm, NULL));
	return 0;
}

Test(hosts_failure, a_break_is_in_the_log_at_once_and_loses_nothing, .timeout = 60)
{
	struct hosts *hosts = world_hosts(&(struct hosts_shape){ .count = 2 });
	struct world world = {
		.size = RANKS, .limit_ms = 40000, .hosts = hosts, .host_of = { 0, 0, 1, 1 }
	};

	world_run_captured(&world, go_on_after_a_break, NULL);
}

/* Two hosts lose each other, while both still reach rank 0. */
static int go_on_until_divided(struct rank_env *env)
{
	int err = env->create_error;

	for (int i = 0; !err; i++) {
		if (i == 3 && env->rank == 1 && !hosts_divide(env->world->hosts, 1, 2, 0))
			return world_report(env, "the network stays whole");
		err = rondo_all_reduce(
			env->comm, values, values, 100000, RONDO_F32, RONDO_SUM, NULL);
	}
	if ((err != RONDO_TIMEOUT && err != RONDO_BROKEN) ||
		(!strstr(rondo_last_error(), "rank 1 ") && !strstr(rondo_last_error(), "rank 2 ")))
		return world_report(env, "got %s: %s", rondo_error_name(err), rondo_last_error());
	return 0;
}

Test(hosts_failure, hosts_that_lose_each_other_are_named, .timeout = 60)
{
	struct hosts *hosts = world_hosts(&(struct hosts_shape){ .count = 3 });
	struct world world = {
		.size = 3, .limit_ms = LIMIT_MS, .hosts = hosts, .host_of = { 0, 1, 2 }
	};

	setenv("RONDO_HEARTBEAT_TIMEOUT_MS", HEARTBEAT_TIMEOUT_MS, 1);
	setenv("RONDO_ALGO", "ring", 1);
	cr_assert_eq(world_run(&world, go_on_until_divided, NULL, NULL), 0);
}
