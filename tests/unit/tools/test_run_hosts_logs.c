/* The logs of rondo-run on several hosts, which are network namespaces (hosts.h). */
#include <criterion/criterion.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "secret_file.h"
#include "text.h"
#include "world.h"

#define LIMIT_MS 60000
#define NODES 2
#define NODE_RANKS 4
#define JOB_RANKS (NODES * NODE_RANKS)

static bool matches(const char *text, const char *pattern)
{
	regex_t regex;
	bool found;

	cr_assert_eq(regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB), 0, "%s", pattern);
	found = regexec(&regex, text, 0, NULL, 0) == 0;
	regfree(&regex);
	return found;
}

/* A kind of lines, and their number from rank 0, and from each other rank; -1: one and more. */
struct kind {
	const char *text; /* an extended regular expression */
	int first, others;
};

/* The lines of the subsystems below: these, and no others. */
static const struct kind kinds[] = {
	{ "^Rondo version [0-9.]+$", 1, 0 },
	{ "^Bootstrap : Using eth0:10\\.7\\.0\\.[12]<[0-9]+>$", 1, 1 },
	{ "^NET/Socket : Using \\[0\\]eth0:10\\.7\\.0\\.[12]:[0-9]+$", 1, 1 },
	{ "^Channel 00 : [0-7]\\[[0-9]+\\] -> [0-7]\\[[0-9]+\\] via [a-zA-Z]+(/0)?$", -1, -1 },
	{ "^Plugin : none ", 1, 1 },
	{ "^Using network tcp$", 1, 1 },
	{ "^Channel 00/01 : 0( [1-7]){7}$", 1, 0 },
	{ "^Ring 00 : [0-7] -> [0-7] -> [0-7]$", 1, 1 },
	{ "^Trees( \\[[01]\\] (-1|[0-7])/(-1|[0-7])->[0-7]->(-1|[0-7])){2}$", 1, 1 },
	{ "^1 coll channel, 1 p2p channel per peer, 8 ranks on 2 hosts$", 1, 1 },
	{ "^comm 0x[0-9a-f]+ rank [0-7] nranks 8 - Init COMPLETE in [0-9.]+ ms$", 1, 1 },
};

#define KINDS (sizeof(kinds) / sizeof(*kinds))

/* Within a host by memory, between hosts by sockets. */
static void check_channel(const char *text, int rank)
{
	int from, to;
	char by[64];

	if (sscanf(text, "Channel %*d : %d[%*d] -> %d[%*d] via %63s", &from, &to, by) != 3)
		return;
	cr_assert_eq(from, rank, "%s", text);
	cr_assert_neq(from, to, "%s", text);
	cr_assert_str_eq(by, from / NODE_RANKS == to / NODE_RANKS ? "shm" : "tcp/0", "%s", text);
}

/* The log so far. */
struct reading {
	int counts[JOB_RANKS][KINDS];
	int crossings; /* of a ring from one host to another */
};

static int count_crossing(const char *text)
{
	int rank, next;

	return sscanf(text, "Ring %*d : %*d -> %d -> %d", &rank, &next) == 2 &&
	       rank / NODE_RANKS != next / NODE_RANKS;
}

/* "host1:4803:4803 [5] RONDO INFO ..." */
static void check_line(const char *line, int node, struct reading *reading)
{
	int host, rank, at = 0;

	sscanf(line, "host%d:%*d:%*d [%d] RONDO INFO %n", &host, &rank, &at);
	cr_assert_gt(at, 0, "not a line of a log at INFO: %s", line);
	cr_assert_eq(host, node, "%s", line);
	cr_assert_eq(rank / NODE_RANKS, node, "%s", line);
	check_channel(line + at, rank);
	reading->crossings += count_crossing(line + at);
	for (size_t i = 0; i < KINDS; i++)
		if (matches(line + at, kinds[i].text)) {
			reading->counts[rank][i]++;
			return;
		}
	cr_assert_fail("a line of no known kind: %s", line);
}

/* The demo: two machines of four ranks each. */
static void run_demo(struct hosts_program launchers[NODES])
{
	struct hosts *hosts = world_hosts(&(struct hosts_shape){ .count = NODES });

	setenv("OMP_NUM_THREADS", "1", 1);
	setenv("RONDO_DEBUG", "INFO", 1);
	for (int node = 0; node < NODES; node++) {
		char *arguments[] = { RONDO_TOOL, "--nnodes", "2", "--node-rank", node ? "1" : "0",
			"--nproc-per-node", "4", "--master-addr", "host0", RONDO_EXAMPLE, NULL };

		hosts_start(hosts, node, arguments, &launchers[node]);
	}
	for (int node = 0; node < NODES; node++) {
		hosts_finish(&launchers[node], LIMIT_MS);
		cr_assert_eq(launchers[node].status, 0, "node %d", node);
	}
}

TestSuite(run_hosts_logs, .init = secret_file_use, .fini = secret_file_remove);

Test(run_hosts_logs, the_log_of_two_hosts_of_four_ranks_is_what_people_know, .timeout = 120)
{
	struct hosts_program launchers[NODES];
	struct reading reading = { .crossings = 0 };

	setenv("RONDO_DEBUG_SUBSYS", "BOOTSTRAP,NET,ROUTE,RING,TREE,COLL", 1);
	setenv("RONDO_TRANSPORT", "shm,tcp", 1); /* this machine may have RDMA devices, or none */
	run_demo(launchers);
	for (int node = 0; node < NODES; node++) {
		char *text = file_text(launchers[node].err), *rest = NULL;

		for (char *line = strtok_r(text, "\n", &rest); line;
			line = strtok_r(NULL, "\n", &rest))
			check_line(line, node, &reading);
	}
	for (int rank = 0; rank < JOB_RANKS; rank++)
		for (size_t i = 0; i < KINDS; i++) {
			int count = reading.counts[rank][i];
			int expected = rank == 0 ? kinds[i].first : kinds[i].others;

			cr_assert(expected < 0 ? count > 0 && count < JOB_RANKS : count == expected,
				"rank %d has printed %d lines as %s", rank, count, kinds[i].text);
		}
	cr_assert_eq(reading.crossings, NODES, "the ring leaves hosts %d times", reading.crossings);
}

Test(run_hosts_logs, a_healthy_job_of_two_hosts_warns_of_nothing, .timeout = 120)
{
	struct hosts_program launchers[NODES];

	run_demo(launchers);
	for (int node = 0; node < NODES; node++) {
		char *text = file_text(launchers[node].err), *rest = NULL;

		for (char *line = strtok_r(text, "\n", &rest); line;
			line = strtok_r(NULL, "\n", &rest))
			cr_assert(matches(line,
					  "^host[01]:[0-9]+:[0-9]+ (\\[[0-7]\\] )?RONDO INFO ."),
				"%s", line);
	}
}
