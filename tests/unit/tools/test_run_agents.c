/* Agents of one job on one host: each rondo-run is a node. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/pidfd.h"
#include "free_port.h"
#include "filter.h"
#include "hosts.h"
#include "program.h"
#include "text.h"

#define LIMIT_MS 25000

/* Rank and world of a rank that runs until it is ended. */
#define SLEEPER "echo pid $$; echo rank $RANK of $WORLD_SIZE; exec sleep 1000"

static char endpoint[ENDPOINT_SIZE];

static void start_agent(struct program *agent, const char *nodes, const char *option,
	const char *value, const char *script)
{
	*agent = program_files();
	program_start(agent, RONDO_TOOL, "--nnodes", nodes, "--rdzv-endpoint", endpoint,
		"--rdzv-conf", "last_call_timeout=1,join_timeout=60", "--grace", "2", option, value,
		"sh", "-c", script, NULL);
}

static void start_agents(struct program *agents, int count, const char *nodes, const char *option,
	const char *value, const char *script)
{
	endpoint_choose("127.0.0.1", endpoint);
	for (int i = 0; i < count; i++)
		start_agent(&agents[i], nodes, option, value, script);
}

static void await(int fd, const char *part)
{
	bool there = hosts_await(fd, part, LIMIT_MS);
	char *text = file_text(fd);

	cr_assert(there, "no '%s' in:\n%s", part, text);
}

static void ends_with(struct program *agent, int status)
{
	char *text;

	program_finish(agent);
	text = file_text(agent->err);
	cr_assert_eq(agent->status, status, "status %d:\n%s", agent->status, text);
}

/* But for lines of agents that had to wait for another: load makes that one late. */
static void is_empty(int fd)
{
	char *text = file_text(fd);
	int lines = count_of(text, "\n");

	cr_assert_eq(lines, count_of(text, "rondo-run: waiting for other nodes"), "%s", text);
}

/* The agent of this rank, which has printed it. */
static int agent_of(struct program *agents, int count, const char *rank)
{
	for (int waited_ms = 0; waited_ms < LIMIT_MS; waited_ms += 10) {
		for (int i = 0; i < count; i++) {
			char *text = file_text(agents[i].out);
			bool found = strstr(text, rank) != NULL;

			if (found)
				return i;
		}
		poll(NULL, 0, 10);
	}
	cr_assert_fail("no agent has printed '%s'", rank);
	return -1;
}

static void end_agent(struct program *agent)
{
	kill(agent->pid, SIGTERM);
	program_finish(agent);
	cr_assert_eq(agent->status, 128 + SIGTERM);
}

/* ---- Jobs that end well --------------------------------------------------------------------- */

Test(run_agents, print_nothing_of_their_own_where_all_goes_well, .timeout = 60)
{
	struct program agents[3];

	start_agents(agents, 3, "3", "--max-restarts", "2", "echo rank $RANK of $WORLD_SIZE");
	for (int i = 0; i < 3; i++) {
		ends_with(&agents[i], 0);
		is_empty(agents[i].err);
		assert_contains(agents[i].out, " of 3\n");
	}
}

Test(run_agents, find_each_other_by_localhost_and_by_address, .timeout = 60)
{
	struct program agents[3];
	char *colon;

	endpoint_choose("localhost", endpoint);
	start_agent(&agents[0], "3", "--max-restarts", "0", "exit 0");
	start_agent(&agents[1], "3", "--max-restarts", "0", "exit 0");
	colon = strchr(endpoint, ':');
	memmove(endpoint + strlen("127.0.0.1"), colon, strlen(colon) + 1);
	memcpy(endpoint, "127.0.0.1", strlen("127.0.0.1"));
	start_agent(&agents[2], "3", "--max-restarts", "0", "exit 0");
	for (int i = 0; i < 3; i++) {
		ends_with(&agents[i], 0);
		is_empty(agents[i].err);
	}
}

/* ---- Where they listen ---------------------------------------------------------------------- */

static bool has_socket(pid_t pid, unsigned long inode)
{
	char path[64], link[64], wanted[64];

	snprintf(wanted, sizeof(wanted), "socket:[%lu]", inode);
	for (int fd = 0; fd < 64; fd++) {
		snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, fd);

		ssize_t size = readlink(path, link, sizeof(link) - 1);

		link[size < 0 ? 0 : size] = '\0';
		if (strcmp(link, wanted) == 0)
			return true;
	}
	return false;
}

/* Listening sockets of the process, of this table of the kernel's; *here: those at 127.0.0.1. */
static int count_listeners(pid_t pid, const char *table, int *here)
{
	FILE *file = fopen(table, "r");
	char line[512], address[40];
	unsigned state;
	unsigned long inode;
	int count = 0;

	cr_assert(file);
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, " %*d: %39[0-9A-F]:%*x %*s %x %*s %*s %*s %*d %*d %lu", address,
			    &state, &inode) != 3 ||
			state != 0x0a || !has_socket(pid, inode))
			continue;
		count++;
		*here += strcmp(address, "0100007F") == 0;
	}
	fclose(file);
	return count;
}

Test(run_agents, listen_at_their_local_address_alone, .timeout = 60)
{
	struct program agents[2];
	const char *const options[] = { "--local-addr", "--max-restarts" };
	const char *const values[] = { "127.0.0.1", "0" };

	endpoint_choose("127.0.0.1", endpoint);
	for (int i = 0; i < 2; i++)
		start_agent(&agents[i], "2", options[i], values[i], SLEEPER);
	for (int i = 0; i < 2; i++)
		await(agents[i].out, " of 2\n");
	for (int i = 0; i < 2; i++) {
		pid_t pid = child_of(agents[i].pid);
		int here = 0, count = count_listeners(pid, "/proc/net/tcp", &here) +
				      count_listeners(pid, "/proc/net/tcp6", &here);

		cr_expect_geq(count, 1, "%s: %d", options[i], count);
		cr_expect_eq(here == count, i == 0, "%s: %d of %d", options[i], here, count);
	}
	for (int i = 0; i < 2; i++)
		kill(agents[i].pid, SIGTERM);
	for (int i = 0; i < 2; i++)
		program_finish(&agents[i]);
}

/* ---- Elastic jobs --------------------------------------------------------------------------- */

Test(run_agents, of_an_elastic_job_start_after_the_last_call, .timeout = 60)
{
	struct program agents[2];

	start_agents(agents, 2, "2:4", "--max-restarts", "0", "echo rank $RANK of $WORLD_SIZE");
	for (int i = 0; i < 2; i++) {
		ends_with(&agents[i], 0);
		assert_contains(agents[i].out, " of 2\n");
	}
}

Test(run_agents, beyond_the_number_of_nodes_wait_for_the_end, .timeout = 60)
{
	struct program agents[2], spare;
	int go = pipe_to_fd_8();

	start_agents(agents, 2, "2", "--max-restarts", "0",
		"echo rank $RANK of $WORLD_SIZE; read go <&8");
	agent_of(agents, 2, "rank 0 of 2");
	agent_of(agents, 2, "rank 1 of 2");
	start_agent(&spare, "2", "--max-restarts", "0", "exit 3");
	await(spare.err, "rondo-run: the job has its 2 nodes: this one waits for a place\n");
	cr_assert_eq(write(go, "\n\n", 2), 2);
	ends_with(&agents[0], 0);
	ends_with(&agents[1], 0);
	ends_with(&spare, 0);
	assert_contains(spare.err, "rondo-run: the job ended before this node had a place\n");
}

/* ---- Failures ------------------------------------------------------------------------------ */

/* Rank 1 fails until the restarts are `enough`. */
#define FAILS_UNTIL(enough) \
	"echo restart $TORCHELASTIC_RESTART_COUNT of $TORCHELASTIC_MAX_RESTARTS;" \
	"[ $TORCHELASTIC_RESTART_COUNT -ge " enough " ] && exit 0; [ $RANK = 1 ] && exit 7;" \
	"exec sleep 1000"

Test(run_agents, restart_all_ranks_when_one_fails, .timeout = 60)
{
	struct program agents[2];

	start_agents(agents, 2, "2", "--max-restarts", "2", FAILS_UNTIL("2"));
	for (int i = 0; i < 2; i++) {
		ends_with(&agents[i], 0);
		assert_contains(agents[i].out, "restart 0 of 2\nrestart 1 of 2\nrestart 2 of 2\n");
		assert_contains(agents[i].err,
			"rondo-run: the ranks start again on 2 nodes (restart 2 of 2)\n");
	}
}

Test(run_agents, end_with_the_failure_when_no_restart_is_left, .timeout = 60)
{
	struct program agents[2];
	char *text;

	start_agents(agents, 2, "2", "--max-restarts", "1", FAILS_UNTIL("2"));
	for (int i = 0; i < 2; i++) {
		ends_with(&agents[i], 7);
		assert_contains(agents[i].err, "rondo-run: first failure: rank 1 (pid ");
		assert_contains(agents[i].err, "exited with status 7\n");
		text = file_text(agents[i].out);
		cr_assert_eq(count_of(text, "\n"), 2, "%s", text);
	}
}

Test(run_agents, of_a_fixed_number_end_when_one_is_killed, .timeout = 60)
{
	struct program agents[3];
	int other;

	start_agents(agents, 3, "3", "--max-restarts", "0", SLEEPER);
	agent_of(agents, 3, "rank 0 of 3");
	agent_of(agents, 3, "rank 1 of 3");
	other = agent_of(agents, 3, "rank 2 of 3");
	kill(agents[other].pid, SIGKILL);
	for (int i = 0; i < 3; i++) {
		if (i == other)
			continue;
		ends_with(&agents[i], 1);
		assert_contains(agents[i].err, " is lost: its rondo-run has ended\n");
		assert_contains(agents[i].err, "rondo-run: first failure: ");
		assert_contains(agents[i].err, " was lost\n");
	}
	program_finish(&agents[other]);
}

/* Also where it is the meeting's host. */
Test(run_agents, of_a_fixed_number_end_when_one_leaves_and_name_it, .timeout = 60)
{
	for (int node = 0; node < 2; node++) {
		struct program agents[2];
		int of_node[2];
		char line[32];

		start_agents(agents, 2, "2", "--max-restarts", "5", SLEEPER);
		of_node[0] = agent_of(agents, 2, "rank 0 of 2");
		of_node[1] = agent_of(agents, 2, "rank 1 of 2");
		end_agent(&agents[of_node[node]]);
		ends_with(&agents[of_node[1 - node]], 128 + SIGTERM);
		snprintf(line, sizeof(line), "rondo-run: node %d (host ", node);
		assert_contains(agents[of_node[1 - node]].err, line);
		assert_contains(agents[of_node[1 - node]].err, ") leaves: Terminated\n");
	}
}

Test(run_agents, of_which_one_cannot_start_its_ranks_end, .timeout = 60)
{
	struct program agents[2];

	endpoint_choose("127.0.0.1", endpoint);
	start_agent(&agents[0], "2", "--max-restarts", "3", "exec sleep 1000");
	agents[1] = program_files();
	program_start(&agents[1], RONDO_TOOL, "--nnodes", "2", "--rdzv-endpoint", endpoint,
		"--max-restarts", "3", "./no-such-program", NULL);
	ends_with(&agents[1], 127);
	ends_with(&agents[0], 127);
	assert_contains(agents[0].err, ") leaves: its ranks cannot be started\n");
}

Test(run_agents, wait_for_another_one_in_place_of_a_lost_one, .timeout = 60)
{
	struct program agents[3];
	int last;

	start_agents(agents, 2, "2", "--max-restarts", "1", SLEEPER);
	agent_of(agents, 2, "rank 0 of 2");
	last = agent_of(agents, 2, "rank 1 of 2");
	kill(agents[last].pid, SIGKILL);
	program_finish(&agents[last]);
	await(agents[1 - last].err, " is lost: its rondo-run has ended\n");
	await(agents[1 - last].err,
		"rondo-run: waiting for other nodes, for at most 60 s: 1 of 2 is here\n");
	start_agent(&agents[2], "2", "--max-restarts", "1", SLEEPER);
	await(agents[2].out, " of 2\n");
	await(agents[1 - last].err, "the ranks start again on 2 nodes (restart 1 of 1)\n");
	end_agent(&agents[2]);
	ends_with(&agents[1 - last], 128 + SIGTERM);
}

/* Either of them may host the other. */
Test(run_agents, of_which_the_host_may_not_accept_end_at_once, .timeout = 60)
{
	struct program agents[2];
	int host, status;

	if (!forbid(SYS_accept4, EPERM))
		cr_skip_test("no filters of system calls here");
	start_agents(agents, 2, "2", "--max-restarts", "0", "exit 0");
	host = wait(&status) == agents[0].pid ? 0 : 1;
	cr_expect_eq(WEXITSTATUS(status), 1);
	assert_contains(agents[host].err,
		"rondo-run: cannot accept other nodes: Operation not permitted\n");
	kill(agents[1 - host].pid, SIGKILL);
	program_finish(&agents[1 - host]);
}

/* ---- Nodes that come and go ----------------------------------------------------------------- */

/* Node 0's agent is the host in half of the cases: any may be killed. */
Test(run_agents, go_on_without_one_that_is_killed_and_take_in_new_ones, .timeout = 60)
{
	struct program agents[3];
	struct pollfd rank[1];
	char *text, *pid;
	int gone;

	start_agents(agents, 2, "1:3", "--max-restarts", "0", SLEEPER);
	gone = agent_of(agents, 2, "rank 0 of 2");
	agent_of(agents, 2, "rank 1 of 2");
	text = file_text(agents[gone].out);
	pid = strstr(text, "pid ");
	cr_assert_not_null(pid);
	rank[0] = (struct pollfd){ .fd = rd_pidfd_open(atoi(pid + 4)), .events = POLLIN };
	cr_assert_geq(rank[0].fd, 0);
	kill(agents[gone].pid, SIGKILL);
	program_finish(&agents[gone]);
	cr_assert(all_end(rank, 1), "a rank outlives its agent");
	await(agents[1 - gone].out, "rank 0 of 1\n");

	/* Wherever the meeting is now, it is found at the endpoint. */
	start_agent(&agents[gone], "1:3", "--max-restarts", "0", SLEEPER);
	await(agents[gone].out, "rank 1 of 2\n");
	await(agents[1 - gone].out, "rank 0 of 2\n");
	start_agent(&agents[2], "1:3", "--max-restarts", "0", SLEEPER);
	await(agents[2].out, "rank 2 of 3\n");
	await(agents[1 - gone].out, "rank 0 of 3\n");

	/* The oldest one leaves: the others go on, and nobody counts a restart. */
	end_agent(&agents[1 - gone]);
	await(agents[gone].out, "rank 0 of 2\n");
	await(agents[2].out, "rank 1 of 2\n");
	end_agent(&agents[gone]);
	await(agents[2].out, "rank 0 of 1\n");
	text = file_text(agents[2].err);
	cr_assert_null(strstr(text, "restart"), "%s", text);
	end_agent(&agents[2]);
}

/* The second one while the ranks of the first attempt are still ending. */
Test(run_agents, go_on_after_the_loss_of_two_hosts_in_turn, .timeout = 60)
{
	struct program agents[4];
	int of_node[4];

	start_agents(agents, 4, "1:4", "--max-restarts", "0", SLEEPER);
	for (int node = 0; node < 4; node++) {
		char line[32];

		snprintf(line, sizeof(line), "rank %d of 4", node);
		of_node[node] = agent_of(agents, 4, line);
	}
	kill(agents[of_node[0]].pid, SIGKILL);
	program_finish(&agents[of_node[0]]);
	await(agents[of_node[2]].err, "which led the meeting, is lost: ");
	kill(agents[of_node[1]].pid, SIGKILL);
	program_finish(&agents[of_node[1]]);
	await(agents[of_node[2]].out, "rank 0 of 2\n");
	await(agents[of_node[3]].out, "rank 1 of 2\n");
	end_agent(&agents[of_node[3]]);
	await(agents[of_node[2]].out, "rank 0 of 1\n");
	end_agent(&agents[of_node[2]]);
}

/* ---- Refusals ------------------------------------------------------------------------------ */

Test(run_agents, that_disagree_are_refused_and_the_others_go_on, .timeout = 60)
{
	struct program first, second, wrong;

	endpoint_choose("127.0.0.1", endpoint);
	start_agent(&first, "2", "--max-restarts", "1", "exit 0");
	endpoint_await(endpoint, LIMIT_MS);
	start_agent(&wrong, "1:2", "--max-restarts", "1", "exit 0");
	ends_with(&wrong, 1);
	assert_contains(wrong.err, "rondo-run: --nnodes is 2:2 on host ");
	start_agent(&wrong, "2", "--max-restarts", "4", "exit 0");
	ends_with(&wrong, 1);
	assert_contains(wrong.err, "rondo-run: --max-restarts is 1 on host ");
	start_agent(&wrong, "2", "--rdzv-id", "other", "exit 0");
	ends_with(&wrong, 1);
	assert_contains(wrong.err, " has the id none, and this one other: ");
	start_agent(&second, "2", "--max-restarts", "1", "exit 0");
	ends_with(&first, 0);
	ends_with(&second, 0);
	is_empty(first.err);
	is_empty(second.err);
}

Test(run_agents, report_an_endpoint_where_something_else_listens, .timeout = 60)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof(at);
	struct program agent;
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), fd;

	cr_assert_eq(bind(listener, (struct sockaddr *)&at, size), 0);
	cr_assert_eq(listen(listener, 1), 0);
	cr_assert_eq(getsockname(listener, (struct sockaddr *)&at, &size), 0);
	snprintf(endpoint, sizeof(endpoint), "127.0.0.1:%d", ntohs(at.sin_port));
	start_agent(&agent, "2", "--max-restarts", "0", "exit 0");
	fd = accept(listener, NULL, NULL);
	cr_assert_eq(write(fd, "SSH-2.0-OpenSSH\r\n", 17), 17);
	ends_with(&agent, 1);
	assert_contains(agent.err, "listens something else than this version of rondo-run\n");
	close(fd);
	close(listener);
}
