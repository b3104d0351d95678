/* rondo-run on several hosts, started once on each, as people do it by hand. The hosts are network
   namespaces (hosts.h). */
#include <criterion/criterion.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "secret_file.h"
#include "text.h"
#include "world.h"

#define LIMIT_MS 60000
#define COMMAND_MAX 16

/* The arguments that all nodes share. */
struct job {
	int nodes;
	char *local_size, *address;
	char *wait; /* --rdzv-conf; NULL: none */
	char *program[COMMAND_MAX]; /* and its arguments */
};

static void start_node(
	const struct hosts *hosts, const struct job *job, int node, struct hosts_program *launcher)
{
	char nodes[16], number[16];
	char *arguments[12 + COMMAND_MAX] = { RONDO_TOOL, "--nnodes", nodes, "--node-rank", number,
		"--nproc-per-node", job->local_size, "--master-addr", job->address };
	int count = 9;

	snprintf(nodes, sizeof(nodes), "%d", job->nodes);
	snprintf(number, sizeof(number), "%d", node);
	if (job->wait) {
		arguments[count++] = "--rdzv-conf";
		arguments[count++] = job->wait;
	}
	for (int i = 0; job->program[i]; i++)
		arguments[count++] = job->program[i];
	hosts_start(hosts, node, arguments, launcher);
}

static void start(const struct hosts *hosts, const struct job *job, struct hosts_program *launchers)
{
	for (int node = 0; node < job->nodes; node++)
		start_node(hosts, job, node, &launchers[node]);
}

static void print_all(struct hosts_program *launchers, int count)
{
	for (int i = 0; i < count; i++) {
		char *out = file_text(launchers[i].out), *err = file_text(launchers[i].err);

		fprintf(stderr, "---- node %d: status %d\n%s%s", i, launchers[i].status, out, err);
	}
}

/* Every launcher ends with 0. */
static void finish_well(struct hosts_program *launchers, int count)
{
	int failed = 0;

	for (int i = 0; i < count; i++) {
		hosts_finish(&launchers[i], LIMIT_MS);
		failed += launchers[i].status != 0;
	}
	if (failed)
		print_all(launchers, count);
	cr_assert_eq(failed, 0);
}

/* ---- It works ------------------------------------------------------------------------------ */

/* Each node's launcher printed the sums of its ranks, and no others. */
static void assert_sums(const struct hosts_program *launcher, int first, int ranks, int size)
{
	char *text = file_text(launcher->out), line[64];

	for (int rank = first; rank < first + ranks; rank++) {
		snprintf(line, sizeof(line), "rank %d of %d: the sum is %d\n", rank, size,
			size * (size + 1) / 2);
		cr_assert_eq(count_of(text, line), 1, "no '%s' in:\n%s", line, text);
	}
	cr_assert_eq(count_of(text, "\n"), ranks, "%s", text);
}

static void assert_two_nodes_work(const struct hosts_shape *shape, char *address)
{
	struct hosts *hosts = world_hosts(shape);
	struct job job = {
		.nodes = 2, .local_size = "2", .address = address, .program = { RONDO_EXAMPLE }
	};
	struct hosts_program launchers[HOSTS_MAX];

	start(hosts, &job, launchers);
	finish_well(launchers, 2);
	for (int node = 0; node < 2; node++)
		assert_sums(&launchers[node], 2 * node, 2, 4);
}

TestSuite(run_hosts, .init = secret_file_use, .fini = secret_file_remove);

Test(run_hosts, node_0_is_found_by_its_name, .timeout = 120)
{
	assert_two_nodes_work(&(struct hosts_shape){ .count = 2 }, "host0");
}

Test(run_hosts, node_0_is_found_by_its_address_where_no_name_resolves, .timeout = 120)
{
	assert_two_nodes_work(&(struct hosts_shape){ .count = 2, .nameless = true }, "10.7.0.1");
}

Test(run_hosts, an_address_of_IPv6_stands_with_brackets, .timeout = 120)
{
	assert_two_nodes_work(&(struct hosts_shape){ .count = 2, .v6_only = true }, "[fd07:0::1]");
}

Test(run_hosts, or_without_brackets, .timeout = 120)
{
	assert_two_nodes_work(&(struct hosts_shape){ .count = 2, .v6_only = true }, "fd07:0::1");
}

Test(run_hosts, one_node_needs_no_IPv4, .timeout = 120)
{
	struct hosts *hosts = world_hosts(&(struct hosts_shape){ .count = 1, .v6_only = true });
	char *arguments[] = { RONDO_TOOL, "--nproc-per-node", "2", RONDO_EXAMPLE, NULL };
	struct hosts_program launcher;

	hosts_start(hosts, 0, arguments, &launcher);
	finish_well(&launcher, 1);
	assert_sums(&launcher, 0, 2, 2);
}

Test(run_hosts, a_name_may_resolve_later, .timeout = 120)
{
	struct hosts *hosts = world_hosts(&(struct hosts_shape){ .count = 2 });
	struct job here = {
		.nodes = 2, .local_size = "1", .address = "10.7.0.1", .program = { RONDO_EXAMPLE }
	};
	struct job there = here;
	struct hosts_program launchers[2], naming;
	char *const name[] = { "/bin/sh", "-c", "echo 10.7.0.1 late >> /etc/hosts", NULL };

	there.address = "late";
	setenv("RONDO_DEBUG", "INFO", 1);
	start_node(hosts, &there, 1, &launchers[1]);
	cr_assert(hosts_await(launchers[1].err, "\"late\" has no address here yet", LIMIT_MS));
	hosts_start(hosts, 1, name, &naming);
	start_node(hosts, &here, 0, &launchers[0]);
	hosts_finish(&naming, LIMIT_MS);
	finish_well(launchers, 2);
}

/* The ranks of both attempts meet at the same port, which the first ones have left. */
Test(run_hosts, a_restart_meets_at_the_same_port, .timeout = 120)
{
	struct hosts *hosts = world_hosts(&(struct hosts_shape){ .count = 2 });
	struct job job = { .nodes = 2,
		.local_size = "2",
		.address = "host0",
		.program = { "--max-restarts", "2", "sh", "-c",
			RONDO_EXAMPLE "; echo port $RONDO_PORT $MASTER_PORT;"
				      "[ $RANK != 3 ] || [ $TORCHELASTIC_RESTART_COUNT = 2 ]" } };
	struct hosts_program launchers[2];

	start(hosts, &job, launchers);
	finish_well(launchers, 2);
	for (int node = 0; node < 2; node++) {
		char *text = file_text(launchers[node].out);

		cr_assert_eq(count_of(text, " of 4: the sum is 10\n"), 6, "%s", text);
		cr_assert_eq(count_of(text, "port 27500 29500\n"), 6, "%s", text);
	}
}

/* ---- The pages in docs/ --------------------------------------------------------------------- */

#define BLOCKS_MAX 16

/* Commands that belong together: consecutive lines, one for each host. */
struct block {
	char commands[2][256];
};

/* All blocks of the page; returns how many. */
static int read_page(const char *path, struct block blocks[BLOCKS_MAX])
{
	FILE *page = fopen(path, "re");
	char line[256];
	int count = 0, host;

	cr_assert_not_null(page);
	while (fgets(line, sizeof(line), page)) {
		int at = 0;

		if (sscanf(line, " host%1d$ %n", &host, &at) != 1 || at == 0)
			continue;
		cr_assert(host == 0 || (host == 1 && count > 0), "%s", line);
		count += host == 0;
		cr_assert_leq(count, BLOCKS_MAX);
		snprintf(blocks[count - 1].commands[host], sizeof(blocks->commands[host]), "%s",
			line + at);
	}
	fclose(page);
	return count;
}

/* Every rank has printed the sum, on any host. */
static void assert_sum_of_all(struct hosts_program *programs, const char *command)
{
	char *texts[2] = { file_text(programs[0].out), file_text(programs[1].out) };
	const char *size_at = strstr(texts[0], "rank 0 of ");
	int size = size_at ? atoi(size_at + strlen("rank 0 of ")) : 0;
	char line[64];
	int sums;

	snprintf(line, sizeof(line), " of %d: the sum is %d\n", size, size * (size + 1) / 2);
	cr_assert(size == 4 || size == 8, "%s", command);
	sums = count_of(texts[0], line) + count_of(texts[1], line);
	if (sums != size)
		print_all(programs, 2);
	cr_assert_eq(sums, size, "%s", command);
}

static void run_page(const char *page, int least)
{
	struct hosts *hosts = world_hosts(&(struct hosts_shape){ .count = 2, .networks = 2 });
	struct block blocks[BLOCKS_MAX] = { 0 };
	int count = read_page(page, blocks);
	char path[1024];

	cr_assert_geq(count, least, "%s has lost its commands", page);
	snprintf(path, sizeof(path), "%s:%s", RONDO_BUILD, getenv("PATH"));
	setenv("PATH", path, 1);
	cr_assert_eq(chdir(RONDO_BUILD "/examples"), 0);
	for (int i = 0; i < count; i++) {
		struct hosts_program programs[2];

		for (int host = 0; host < 2; host++) {
			char *const shell[] = { "/bin/sh", "-c", blocks[i].commands[host], NULL };

			hosts_start(hosts, host, shell, &programs[host]);
		}
		finish_well(programs, 2);
		assert_sum_of_all(programs, blocks[i].commands[0]);
	}
}

Test(run_hosts, the_commands_of_the_page_on_several_hosts_do_what_it_says, .timeout = 240)
{
	run_page(RONDO_DOCS "/several-hosts.md", 5);
}

Test(run_hosts, so_do_those_of_the_launchers_page, .timeout = 120)
{
	run_page(RONDO_DOCS "/rondo-run.md", 2);
}

/* Ranks go on by the next interface, and each logs the reason once. */
Test(run_hosts, an_interface_that_is_dead_costs_a_line, .timeout = 120)
{
	struct hosts *hosts = world_hosts(&(struct hosts_shape){ .count = 2, .networks = 2 });
	struct job job = {
		.nodes = 2, .local_size = "1", .address = "host0", .program = { RONDO_EXAMPLE }
	};
	struct hosts_program launchers[2];
	char *text;

	setenv("RONDO_INTERFACE", "eth1,eth0", 1);
	cr_assert(hosts_unplug(hosts, 1, 1));
	start(hosts, &job, launchers);
	finish_well(launchers, 2);
	text = file_text(launchers[1].err);
	cr_assert_eq(count_of(text, "rank 1 does not reach rank 0 at 10.7.1.1:"), 1, "%s", text);
	cr_assert_eq(count_of(text, "\n"), 1, "%s", text);
}

/* ---- It fails ------------------------------------------------------------------------------ */

/* A job that runs until it is ended, and prints a line once it has begun. */
static struct hosts *start_endless_job(struct job *job, struct hosts_program launchers[HOSTS_MAX])
{
	struct hosts *hosts = world_hosts(&(struct hosts_shape){ .count = 2 });

	*job = (struct job){ .nodes = 2,
		.local_size = "2",
		.address = "host0",
		.program = { RONDO_BENCH, "all_reduce", "-b", "1M", "-e", "1M", "-n", "1000000" } };
	setenv("RONDO_DEBUG", "INFO", 1);
	start(hosts, job, launchers);
	for (int node = 0; node < 2; node++)
		for (int i = 0; i < 2; i++) {
			char line[64];

			snprintf(line, sizeof(line), "rank %d nranks 4 - Init COMPLETE",
				2 * node + i);
			cr_assert(
				hosts_await(launchers[node].err, line, LIMIT_MS), "no '%s'", line);
		}
	return hosts;
}

/* "host1:4803:4803 [2] RONDO ...": the lines hold the ranks' pids. */
static pid_t pid_of(const struct hosts_program *launcher, int rank)
{
	char *text = file_text(launcher->err), mark[16];
	int pid = 0;

	snprintf(mark, sizeof(mark), " [%d] ", rank);
	for (char *line = strtok(text, "\n"); line && !pid; line = strtok(NULL, "\n"))
		if (strstr(line, mark))
			sscanf(line, "host%*d:%d:", &pid);
	cr_assert_gt(pid, 0, "rank %d has printed nothing", rank);
	return pid;
}

static void assert_ends_with(
	struct hosts_program *launcher, int status, const char *first, const char *second)
{
	char *text;

	hosts_finish(launcher, LIMIT_MS);
	text = file_text(launcher->err);
	cr_assert_eq(launcher->status, status, "status %d:\n%s", launcher->status, text);
	cr_assert_not_null(strstr(text, first), "no '%s' in:\n%s", first, text);
	cr_assert_not_null(strstr(text, second), "no '%s' in:\n%s", second, text);
}

/* The ranks there may still be starting, or in the collective. */
static void assert_bench_ends_by(struct hosts_program *launcher, const char *culprit)
{
	char starting[80], running[80], *text;

	snprintf(starting, sizeof(starting), ": starting: %s", culprit);
	snprintf(running, sizeof(running), ": all_reduce: %s", culprit);
	assert_ends_with(launcher, 1, "rondo-bench: rank ", "rondo-run: rank ");
	text = file_text(launcher->err);
	cr_assert(
		strstr(text, starting) || strstr(text, running), "no '%s' in:\n%s", culprit, text);
}

Test(run_hosts, a_rank_killed_on_one_host_ends_the_other_hosts_launcher_too, .timeout = 120)
{
	struct hosts_program launchers[HOSTS_MAX];
	struct job job;

	start_endless_job(&job, launchers);
	kill(pid_of(&launchers[1], 3), SIGKILL);
	assert_ends_with(
		&launchers[1], 128 + SIGKILL, "rondo-run: rank 3 (pid ", "was killed by signal 9");
	assert_ends_with(&launchers[0], 128 + SIGKILL, "rondo-run: first failure: rank 3 (pid ",
		"rank 3 (host host1, pid ");
}

Test(run_hosts, a_launcher_killed_with_all_its_ranks_ends_the_others, .timeout = 120)
{
	struct hosts_program launchers[HOSTS_MAX];
	struct job job;

	start_endless_job(&job, launchers);
	kill(launchers[0].pid, SIGKILL);
	assert_bench_ends_by(&launchers[1], "rank 0 (host host0, pid ");
	hosts_finish(&launchers[0], LIMIT_MS);
}

Test(run_hosts, a_cable_that_is_pulled_ends_the_launchers_on_both_sides, .timeout = 120)
{
	struct hosts_program launchers[HOSTS_MAX];
	struct job job;
	struct hosts *hosts;

	setenv("RONDO_TIMEOUT_MS", "1500", 1);
	hosts = start_endless_job(&job, launchers);
	cr_assert(hosts_unplug(hosts, 1, 0));
	assert_ends_with(&launchers[0], 1, "(host host1, pid ", "rondo-run: rank ");
	assert_ends_with(&launchers[1], 1, "(host host0, pid ", "rondo-run: rank ");
}

Test(run_hosts, a_master_whose_name_one_host_cannot_resolve_is_reported_there_and_missed_here,
	.timeout = 120)
{
	struct hosts *hosts = world_hosts(&(struct hosts_shape){ .count = 2 });
	struct job here = { .nodes = 2,
		.local_size = "1",
		.address = "10.7.0.1",
		.wait = "join_timeout=2",
		.program = { RONDO_EXAMPLE } };
	struct job there = here;
	struct hosts_program launchers[2];

	there.address = "nowhere.invalid";
	there.wait = "join_timeout=1";
	start_node(hosts, &here, 0, &launchers[0]);
	start_node(hosts, &there, 1, &launchers[1]);
	assert_ends_with(&launchers[0], 1,
		"rondo-run: 1 of 2 nodes came within 2 s, and node 1 did not\n", "");
	assert_ends_with(&launchers[1], 1,
		"rondo-run: \"nowhere.invalid\" has no address here yet (",
		"rondo-run: no rondo-run answers at nowhere.invalid:28500 within 1 s (");
}

Test(run_hosts, nodes_may_have_different_numbers_of_ranks, .timeout = 120)
{
	struct hosts *hosts = world_hosts(&(struct hosts_shape){ .count = 2 });
	struct job here = {
		.nodes = 2, .local_size = "2", .address = "host0", .program = { RONDO_EXAMPLE }
	};
	struct job there = here;
	struct hosts_program launchers[2];

	there.local_size = "3";
	start_node(hosts, &here, 0, &launchers[0]);
	start_node(hosts, &there, 1, &launchers[1]);
	finish_well(launchers, 2);
	assert_sums(&launchers[0], 0, 2, 5);
	assert_sums(&launchers[1], 2, 3, 5);
}

Test(run_hosts, a_name_that_leads_only_node_0_to_itself_is_reported, .timeout = 120)
{
	struct hosts *hosts = world_hosts(&(struct hosts_shape){ .count = 1, .nameless = true });
	struct job job = { .nodes = 2,
		.local_size = "1",
		.address = "debian",
		.wait = "join_timeout=0.1",
		.program = { RONDO_EXAMPLE } };
	char *const name[] = { "/bin/sh", "-c", "echo 127.0.1.1 debian >> /etc/hosts", NULL };
	struct hosts_program naming, launcher;

	hosts_start(hosts, 0, name, &naming);
	hosts_finish(&naming, LIMIT_MS);
	start_node(hosts, &job, 0, &launcher);
	assert_ends_with(&launcher, 1,
		"rondo-run: debian is 127.0.1.1 on this node, where no other node gets",
		"and node 1 did not");
}
