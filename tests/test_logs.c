/* The kinds of lines that docs/logs.md lists are what ranks say at INFO and TRACE. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "said.h"
#include "world.h"

#define RANKS 4

static int sum_up(struct citizen *citizen)
{
	float number = 1;

	if (citizen->create_error ||
		rondo_all_reduce(citizen->comm, &number, &number, 1, RONDO_F32, RONDO_SUM, NULL))
		return world_say(citizen, "%s", rondo_last_error());
	return 0;
}

/* What the ranks of a world say, at a level and of some subsystems: two hosts of two ranks where it
   is "mixed". */
static const char *said(const char *level, const char *subsystems, const char *transport)
{
	struct world world = { .size = RANKS, .channels = 2, .transport = transport };
	const char *text;
	int failed;

	setenv("RONDO_DEBUG", level, 1);
	setenv("RONDO_DEBUG_SUBSYS", subsystems, 1);
	said_begin();
	failed = world_run(&world, sum_up, NULL, NULL);
	text = said_end();
	cr_assert_eq(failed, 0, "%s", text);
	return text;
}

/* Whether some line of this rank, at this level, is wholly what the pattern says. */
static bool says(const char *text, int rank, const char *level, const char *pattern)
{
	char whole[512];
	regex_t regex;
	bool found;

	snprintf(whole, sizeof(whole), "^[^ ]+:[0-9]+:[0-9]+ \\[%d\\] RONDO %s %s$", rank, level,
		pattern);
	cr_assert_eq(regcomp(&regex, whole, REG_EXTENDED | REG_NEWLINE | REG_NOSUB), 0);
	found = regexec(&regex, text, 0, NULL, 0) == 0;
	regfree(&regex);
	return found;
}

static void expect_from_all(const char *text, const char *pattern)
{
	for (int rank = 0; rank < RANKS; rank++)
		cr_expect(says(text, rank, "INFO", pattern), "rank %d does not say \"%s\" in:\n%s",
			rank, pattern, text);
}

Test(logs, all_ranks_say_how_they_meet_and_what_they_found, .timeout = 60)
{
	const char *text = said("INFO", "ALL", "mixed");

	expect_from_all(
		text, "Plugin : none \\(RONDO_TRANSPORT_PLUGIN and RONDO_ALGO_PLUGIN are.*");
	expect_from_all(text, "NUMA nodes [0-9]+, GPUs [0-9]+, RDMA devices .*");
	expect_from_all(text, "on host .*: core .*, NUMA node .*, slot .*");
	expect_from_all(text, "NET/Socket : Using \\[0\\][^:]+:[^ ]+:[0-9]+");
	expect_from_all(text, "Bootstrap : Using [^:]+:[^ ]+<[0-9]+>");
	expect_from_all(text, "Affinity of rank [0-3] : CPUs [0-9,-]+");
	expect_from_all(text, "Using network tcp");
	expect_from_all(text, "2 coll channels, 2 p2p channels per peer, 4 ranks on 2 hosts");
	expect_from_all(text, "all_reduce of 4 bytes on 4 ranks: .*");
	expect_from_all(text,
		"all_reduce of 4 bytes and up: [a-z]+, 1 calls, predicted [0-9.]+ us, "
		"measured [0-9.]+ us on average");
	expect_from_all(text, "comm 0x[0-9a-f]+ rank [0-3] nranks 4 - Init COMPLETE in [0-9.]+ ms");
	cr_expect(says(text, 0, "INFO", "costs .*"), "%s", text);
	cr_expect_null(strstr(text, " RONDO WARN "), "%s", text);
}

Test(logs, all_ranks_say_by_which_transport_they_reach_each_other, .timeout = 60)
{
	const char *text = said("INFO", "ROUTE", "mixed");

	for (int rank = 0; rank < RANKS; rank++) {
		for (int link = 0; link < 2 * RANKS; link++) {
			char line[128];
			int peer = link / 2;

			snprintf(line, sizeof(line),
				"Channel 0%d : %d\\[[0-9]+\\] -> %d\\[[0-9]+\\] via %s", link % 2,
				rank, peer, rank / 2 == peer / 2 ? "shm" : "tcp");
			cr_expect_eq(says(text, rank, "INFO", line), peer != rank, "%s in:\n%s",
				line, text);
		}
	}
}

Test(logs, rings_and_trees_are_those_of_each_channel, .timeout = 60)
{
	const char *text = said("INFO", "RING,TREE", "mixed");

	/* Each channel enters and leaves the two hosts by other ranks. */
	cr_expect(says(text, 0, "INFO", "Channel 00/02 : 0 1 2 3"), "%s", text);
	cr_expect(says(text, 0, "INFO", "Channel 01/02 : 1 0 3 2"), "%s", text);
	cr_expect(says(text, 0, "INFO", "Ring 00 : 3 -> 0 -> 1"), "%s", text);
	cr_expect(says(text, 0, "INFO", "Ring 01 : 1 -> 0 -> 3"), "%s", text);
	cr_expect(says(text, 3, "INFO", "Ring 00 : 2 -> 3 -> 0"), "%s", text);
	expect_from_all(text, "Trees( \\[[0-3]\\] -?[0-9]/-?[0-9]->[0-3]->-?[0-9]){4}");
}

Test(logs, of_one_host_they_say_that_no_network_is_used, .timeout = 60)
{
	expect_from_all(said("INFO", "NET", "shm"), "Using no network : all ranks are on one host");
}

/* How many lines of this rank hold this text. */
static int count(const char *text, int rank, const char *part)
{
	char from[16];
	int lines = 0;

	snprintf(from, sizeof(from), " [%d] ", rank);
	for (const char *line = text; line && *line; line = strchr(line, '\n')) {
		const char *at = strstr(++line, part), *sender = strstr(line, from);
		const char *end = line + strcspn(line, "\n");

		lines += at && at < end && sender && sender < end;
	}
	return lines;
}

/* Also where direct access was thought of, and not worth the asking. */
Test(logs, the_choice_of_an_algorithm_is_told_once, .timeout = 60)
{
	const char *text = said("INFO", "PICK", "shm");

	for (int rank = 0; rank < RANKS; rank++)
		cr_expect_eq(
			count(text, rank, " all_reduce of 4 bytes on 4 ranks: "), 1, "%s", text);
}

Test(logs, calls_are_traced, .timeout = 60)
{
	const char *text = said("TRACE", "COLL", "shm");

	for (int rank = 0; rank < RANKS; rank++)
		cr_expect(says(text, rank, "TRACE",
				  "all_reduce #[0-9]+ : count 1 type f32 op sum root 0 in "
				  "0x[0-9a-f]+ "
				  "out 0x[0-9a-f]+"),
			"%s", text);
}

Test(logs, ranks_with_devices_say_how_these_reach_each_other, .timeout = 60)
{
	setenv("RONDO_DEVICE", "emulated:4", 1);

	const char *text = said("INFO", "ROUTE", "shm");

	expect_from_all(
		text, "Channel 00 : [0-3]\\[[0-9a-f]+\\] -> [0-3]\\[[0-9a-f]+\\] via P2P/IPC");
	expect_from_all(text, "rank [0-3] on emulated device [0-3]: fused .*");
}
