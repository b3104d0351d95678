/* Elastic jobs on several hosts, which are network namespaces: nodes that vanish, come and go. */
#include <criterion/criterion.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/pidfd.h"
#include "secret_file.h"
#include "text.h"
#include "world.h"

#define LIMIT_MS 60000
#define ARGUMENTS 24

#define SLEEPER "echo pid $$; echo rank $RANK of $WORLD_SIZE; exec sleep 1000"

static struct hosts *hosts;
static char *endpoint = "host0";
static const char *nodes = "2:4", *timeouts = "last_call_timeout=2,join_timeout=60";
static char *const sleeper[] = { "sh", "-c", SLEEPER, NULL };

static void start_agent(int host, char *const *program, struct hosts_program *agent)
{
	char *arguments[ARGUMENTS] = { RONDO_TOOL, "--nnodes", (char *)nodes, "--rdzv-endpoint",
		endpoint, "--rdzv-conf", (char *)timeouts, "--grace", "2" };
	int count = 9;

	for (int i = 0; program[i]; i++)
		arguments[count++] = program[i];
	hosts_start(hosts, host, arguments, agent);
}

static void await(int fd, const char *part)
{
	bool there = hosts_await(fd, part, LIMIT_MS);
	char *text = file_text(fd);

	cr_assert(there, "no '%s' in:\n%s", part, text);
}

static void awaits_ranks(struct hosts_program *agent, int size)
{
	char line[32];

	snprintf(line, sizeof(line), " of %d\n", size);
	await(agent->out, line);
}

/* The host's agent comes first, and so hosts the meeting. */
static void start_job(struct hosts_program *agents, int count, char *const *program)
{
	hosts = world_hosts(&(struct hosts_shape){ .count = HOSTS_MAX });
	for (int i = 0; i < count; i++)
		start_agent(i, program, &agents[i]);
}

static void end_agent(struct hosts_program *agent, int signal)
{
	kill(agent->pid, signal);
	hosts_finish(agent, LIMIT_MS);
	cr_assert_eq(agent->status, 128 + signal);
}

static void end_job(struct hosts_program *agents, int first, int count)
{
	for (int i = first; i < first + count; i++)
		end_agent(&agents[i], SIGKILL);
}

/* The last rank that printed its pid. */
static struct pollfd rank_of(const struct hosts_program *agent)
{
	char *text = file_text(agent->out), *last = NULL;
	struct pollfd end = { .events = POLLIN };

	for (char *at = text; (at = strstr(at, "pid ")); at++)
		last = at;
	cr_assert_not_null(last);
	end.fd = rd_pidfd_open(atoi(last + 4));
	cr_assert_geq(end.fd, 0);
	return end;
}

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* ---- Nodes that are lost -------------------------------------------------------------------- */

/* Without a word: neither side gets an error. The figure is below a second. A machine with other
   work gets more time, and less than the 30 s of a host that may only be slow. */
TestSuite(run_elastic, .init = secret_file_use, .fini = secret_file_remove);

Test(run_elastic, a_node_whose_cable_is_pulled_is_noticed_on_both_sides, .timeout = 120)
{
	struct hosts_program agents[3];
	struct pollfd rank;
	double start;

	start_job(agents, 3, sleeper);
	for (int i = 0; i < 3; i++)
		awaits_ranks(&agents[i], 3);
	rank = rank_of(&agents[2]);
	start = seconds();
	cr_assert(hosts_unplug(hosts, 2, 0));
	await(agents[0].err, "(host host2) is lost: its host does not answer\n");
	cr_log_info("noticed after %.0f ms\n", 1e3 * (seconds() - start));
	cr_assert_lt(seconds() - start, 25);
	await(agents[2].err,
		"rondo-run: host host0, which led the meeting, is lost: its host does not "
		"answer\n");
	/* Its ranks end, though nobody can ask it to. */
	cr_assert_eq(poll(&rank, 1, LIMIT_MS), 1);
	for (int i = 0; i < 2; i++) {
		await(agents[i].err, "rondo-run: the ranks start again on 2 nodes\n");
		awaits_ranks(&agents[i], 2);
	}
	end_job(agents, 0, 3);
}

Test(run_elastic, the_meeting_survives_a_host_that_vanishes, .timeout = 120)
{
	struct hosts_program agents[3];

	start_job(agents, 3, sleeper);
	for (int i = 0; i < 3; i++)
		awaits_ranks(&agents[i], 3);
	cr_assert(hosts_unplug(hosts, 0, 0));
	for (int i = 1; i < 3; i++) {
		await(agents[i].err, "host host0, which led the meeting, is lost: ");
		await(agents[i].err, "rondo-run: the ranks start again on 2 nodes\n");
		awaits_ranks(&agents[i], 2);
	}
	end_job(agents, 0, 3);
}

/* A newcomer finds the meeting at its old place, and brings in later ones. */
Test(run_elastic, newcomers_find_the_meeting_at_the_old_endpoint, .timeout = 120)
{
	struct hosts_program agents[4];

	start_job(agents, 3, sleeper);
	for (int i = 0; i < 3; i++)
		awaits_ranks(&agents[i], 3);
	end_agent(&agents[0], SIGKILL);
	awaits_ranks(&agents[1], 2);
	awaits_ranks(&agents[2], 2);
	start_agent(0, sleeper, &agents[0]);
	await(agents[0].out, "rank 2 of 3\n");
	start_agent(3, sleeper, &agents[3]);
	await(agents[3].out, "rank 3 of 4\n");
	awaits_ranks(&agents[1], 4);
	end_job(agents, 0, 4);
}

/* The endpoint leads nowhere then: a node of the job does. */
Test(run_elastic, a_spare_node_takes_the_place_of_the_host_that_vanishes, .timeout = 120)
{
	struct hosts_program agents[3];

	nodes = "1:2";
	start_job(agents, 2, sleeper);
	awaits_ranks(&agents[0], 2);
	awaits_ranks(&agents[1], 2);
	start_agent(2, sleeper, &agents[2]);
	await(agents[2].err, "this one waits for a place\n");
	cr_assert(hosts_unplug(hosts, 0, 0));
	await(agents[2].out, "rank 1 of 2\n");
	end_job(agents, 0, 3);
}

/* It could start a job of its own, and would not wait for others. */
Test(run_elastic, a_host_that_comes_back_at_once_joins_the_survivors, .timeout = 120)
{
	struct hosts_program agents[2];

	nodes = "1:2";
	timeouts = "last_call_timeout=0,join_timeout=60";
	start_job(agents, 1, sleeper);
	awaits_ranks(&agents[0], 1);
	start_agent(1, sleeper, &agents[1]);
	awaits_ranks(&agents[1], 2);
	end_agent(&agents[0], SIGKILL);
	start_agent(0, sleeper, &agents[0]);
	await(agents[0].out, "rank 1 of 2\n");
	end_job(agents, 0, 2);
}

Test(run_elastic, a_job_with_too_few_nodes_left_waits_for_another_one, .timeout = 120)
{
	struct hosts_program agents[3];

	start_job(agents, 2, sleeper);
	awaits_ranks(&agents[0], 2);
	awaits_ranks(&agents[1], 2);
	end_agent(&agents[1], SIGKILL);
	await(agents[0].err, "(host host1) is lost: its rondo-run has ended\n");
	start_agent(2, sleeper, &agents[2]);
	await(agents[2].out, "rank 1 of 2\n");
	agents[1] = agents[2];
	end_job(agents, 0, 2);
}

/* ---- The endpoint --------------------------------------------------------------------------- */

Test(run_elastic, the_endpoint_is_localhost_to_one_agent_and_an_address_to_the_others,
	.timeout = 120)
{
	struct hosts_program agents[2];
	char *const program[] = { "sh", "-c", "echo at $MASTER_ADDR", NULL };

	hosts = world_hosts(&(struct hosts_shape){ .count = 2, .nameless = true });
	nodes = "2";
	endpoint = "localhost:29411";
	start_agent(0, program, &agents[0]);
	endpoint = "10.7.0.1:29411";
	start_agent(1, program, &agents[1]);
	for (int i = 0; i < 2; i++) {
		char *text;

		hosts_finish(&agents[i], LIMIT_MS);
		cr_assert_eq(agents[i].status, 0);
		text = file_text(agents[i].err);
		cr_assert_str_empty(text);
		text = file_text(agents[i].out);
		cr_assert(
			strstr(text, "at 10.7.0.1\n") || strstr(text, "at 10.7.0.2\n"), "%s", text);
	}
}

Test(run_elastic, agents_and_ranks_meet_over_IPv6, .timeout = 120)
{
	struct hosts_program agents[3];
	char *const program[] = { RONDO_EXAMPLE, NULL };

	hosts = world_hosts(&(struct hosts_shape){ .count = 3, .v6_only = true });
	nodes = "3";
	endpoint = "[fd07:0::1]:29412";
	for (int i = 2; i >= 0; i--)
		start_agent(i, program, &agents[i]);
	for (int i = 0; i < 3; i++) {
		hosts_finish(&agents[i], LIMIT_MS);
		cr_assert_eq(agents[i].status, 0);
		await(agents[i].out, " of 3: the sum is 6\n");
	}
}

/* Within 4 s TCP sends a SYN again that a network of a moment's age has lost. */
Test(run_elastic, an_endpoint_that_nobody_reaches_is_reported, .timeout = 120)
{
	struct hosts_program agent;
	char *const program[] = { "--rdzv-conf", "join_timeout=4", "true", NULL };

	hosts = world_hosts(&(struct hosts_shape){ .count = 2 });
	endpoint = "10.7.0.2";
	start_agent(0, program, &agent);
	hosts_finish(&agent, LIMIT_MS);
	cr_assert_eq(agent.status, 1);
	await(agent.err, "rondo-run: no rondo-run answers at 10.7.0.2:29400 within 4 s (Connection "
			 "refused)\n");
}

/* ---- Training ------------------------------------------------------------------------------- */

static int count_in(const struct hosts_program *agent, const char *part)
{
	char *text = file_text(agent->out);
	int count = count_of(text, part);

	return count;
}

/* Waits until the agent's output has grown by a line that begins so. */
static void await_more(const struct hosts_program *agent, const char *part)
{
	int before = count_in(agent, part);

	for (int waited_ms = 0; waited_ms < LIMIT_MS; waited_ms += 20) {
		if (count_in(agent, part) > before)
			return;
		poll(NULL, 0, 20);
	}
	cr_assert_fail("no more '%s'", part);
}

/* Rank 0 counts epochs on from the last checkpoint, whatever nodes there are, and on whatever of
   them it is. */
Test(run_elastic, training_continues_from_the_last_checkpoint, .timeout = 400)
{
	char folder[] = "/tmp/rondo-elastic-XXXXXX", data[64], checkpoint[64], remove[64];
	char *const train[] = { RONDO_TRAIN, "--model", "gpt-nano", "--tokens", "32", "--data",
		data, "--global-batch", "12", "--epochs", "100000", "--checkpoint", checkpoint,
		"--auto-resume", NULL };
	struct hosts_program agents[4];
	FILE *text;

	if (access(RONDO_TRAIN, X_OK) < 0)
		cr_skip_test("rondo-train is not built");
	cr_assert_not_null(mkdtemp(folder));
	snprintf(data, sizeof(data), "%s/text", folder);
	snprintf(checkpoint, sizeof(checkpoint), "%s/checkpoint", folder);
	snprintf(remove, sizeof(remove), "rm -r %s", folder);
	text = fopen(data, "we");
	cr_assert_not_null(text);
	for (int i = 0; i < 600; i++)
		fprintf(text, "line %d of it\n", i * i);
	fclose(text);

	start_job(agents, 3, train);
	await(agents[0].out, "after epoch 2\n");
	/* A node is lost. */
	end_agent(&agents[2], SIGKILL);
	await(agents[0].err, "the ranks start again on 2 nodes\n");
	await_more(&agents[0], "Saved checkpoint");
	/* Another one comes. */
	start_agent(3, train, &agents[3]);
	await(agents[0].err, "the ranks start again on 3 nodes\n");
	await_more(&agents[0], "Saved checkpoint");
	cr_assert_eq(count_in(&agents[0], "Epoch 1\n"), 1);
	/* The node of rank 0, and of the meeting, is lost. */
	end_agent(&agents[0], SIGKILL);
	await(agents[1].out, "Saved checkpoint");
	cr_assert_eq(count_in(&agents[1], "Epoch 1\n"), 0);
	cr_assert_eq(count_in(&agents[1], "Epoch 2\n"), 0);
	end_agent(&agents[1], SIGKILL);
	end_agent(&agents[3], SIGKILL);
	cr_assert_eq(system(remove), 0);
}
