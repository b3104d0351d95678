/* docs/logs.md lists the lines that the sources can log, and ranks log them at INFO and TRACE. */
#include <criterion/criterion.h>
#include <ctype.h>
#include <glob.h>
#include <fcntl.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpus.h"
#include "text.h"
#include "world.h"

#define RANKS 4

/* The log of a world's ranks, at a level and for some subsystems; "mixed": two hosts of two
   ranks. */
static const char *log_of(const char *level, const char *subsystems, const char *transport)
{
	struct world world = { .size = RANKS, .channels = 2, .transport = transport };

	setenv("RONDO_DEBUG", level, 1);
	setenv("RONDO_DEBUG_SUBSYS", subsystems, 1);
	return world_run_captured(&world, world_sum_one, NULL);
}

/* Whether a whole line of this rank, at this level, matches the pattern. */
static bool has_line(const char *text, int rank, const char *level, const char *pattern)
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
		cr_expect(has_line(text, rank, "INFO", pattern),
			"rank %d has no line \"%s\" in:\n%s", rank, pattern, text);
}

Test(logs, all_ranks_log_how_they_meet_and_what_they_found, .timeout = 60)
{
	const char *text = log_of("INFO", "ALL", "mixed");

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
		"all_reduce of 4 bytes and up: [a-z_]+, 1 call, predicted [0-9.]+ us, "
		"measured [0-9.]+ us on average");
	expect_from_all(text, "comm 0x[0-9a-f]+ rank [0-3] nranks 4 - Init COMPLETE in [0-9.]+ ms");
	cr_expect(has_line(text, 0, "INFO", "costs .*"), "%s", text);
	cr_expect(has_line(text, 0, "INFO", "Rondo version [0-9]+\\.[0-9]+\\.[0-9]+"), "%s", text);
	cr_expect_eq(count_of(text, "Rondo version "), 1, "%s", text);
	cr_expect_eq(warnings_of(text), 0, "%s", text);
}

Test(logs, all_ranks_log_by_which_transport_they_reach_each_other, .timeout = 60)
{
	const char *text = log_of("INFO", "ROUTE", "mixed");

	for (int rank = 0; rank < RANKS; rank++) {
		for (int link = 0; link < 2 * RANKS; link++) {
			char line[128];
			int peer = link / 2;

			snprintf(line, sizeof(line),
				"Channel 0%d : %d\\[[0-9]+\\] -> %d\\[[0-9]+\\] via %s", link % 2,
				rank, peer, rank / 2 == peer / 2 ? "shm" : "tcp/0");
			cr_expect_eq(has_line(text, rank, "INFO", line), peer != rank, "%s in:\n%s",
				line, text);
		}
	}
}

Test(logs, rings_and_trees_are_those_of_each_channel, .timeout = 60)
{
	const char *text = log_of("INFO", "RING,TREE", "mixed");

	/* Each channel enters and leaves the two hosts by other ranks. */
	cr_expect(has_line(text, 0, "INFO", "Channel 00/02 : 0 1 2 3"), "%s", text);
	cr_expect(has_line(text, 0, "INFO", "Channel 01/02 : 1 0 3 2"), "%s", text);
	cr_expect(has_line(text, 0, "INFO", "Ring 00 : 3 -> 0 -> 1"), "%s", text);
	cr_expect(has_line(text, 0, "INFO", "Ring 01 : 1 -> 0 -> 3"), "%s", text);
	cr_expect(has_line(text, 3, "INFO", "Ring 00 : 2 -> 3 -> 0"), "%s", text);
	expect_from_all(text, "Trees( \\[[0-3]\\] -?[0-9]/-?[0-9]->[0-3]->-?[0-9]){4}");
}

Test(logs, on_one_host_they_log_that_no_network_is_used, .timeout = 60)
{
	expect_from_all(
		log_of("INFO", "NET", "shm"), "Using no network : all ranks are on one host");
}

Test(logs, one_channel_is_logged_in_the_singular, .timeout = 60)
{
	struct world world = { .size = 2, .transport = "shm" };
	const char *text;

	setenv("RONDO_DEBUG", "INFO", 1);
	text = world_run_captured(&world, world_sum_one, NULL);
	cr_expect(has_line(text, 0, "INFO",
			  "1 coll channel, 1 p2p channel per peer, 2 ranks on 1 host"),
		"%s", text);
}

/* Each rank's file has its lines, and no others; standard error has none. */
static void expect_files(bool threads)
{
	struct world world = { .size = 2, .transport = "shm", .threads = threads };
	char dir[] = "/tmp/rondo-log-XXXXXX", path[64];

	cr_assert_not_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/%%h.%%r.100%%%%", dir);
	setenv("RONDO_DEBUG", "INFO", 1);
	setenv("RONDO_DEBUG_FILE", path, 1);
	cr_expect_str_eq(world_run_captured(&world, world_sum_one, NULL), "");
	for (int rank = 0; rank < 2; rank++) {
		char host[65] = "", file[256];

		gethostname(host, sizeof(host) - 1);
		host[strcspn(host, ".")] = '\0';
		snprintf(file, sizeof(file), "%s/%s.%d.100%%", dir, host, rank);

		const char *text = file_text_at(file);

		cr_expect(has_line(text, rank, "INFO", "comm .* Init COMPLETE .*"), "%s", text);
		cr_expect_eq(has_line(text, 0, "INFO", "Rondo version .*"), rank == 0, "%s", text);
		cr_expect_not(has_line(text, 1 - rank, "INFO", ".*"), "%s", text);
		unlink(file);
	}
	cr_expect_eq(rmdir(dir), 0, "there are other files");
}

Test(logs, each_rank_may_log_to_a_file_of_its_own, .timeout = 60)
{
	if (!ONLY_THREADS)
		expect_files(false);
	expect_files(true);
}

Test(logs, a_file_that_cannot_be_opened_is_one_line, .timeout = 60)
{
	struct world world = { .size = 2, .transport = "shm", .threads = true };
	const char *text;

	setenv("RONDO_DEBUG", "INFO", 1);
	setenv("RONDO_DEBUG_FILE", "/no/such/directory/%p", 1);
	text = world_run_captured(&world, world_sum_one, NULL);
	cr_expect_eq(warnings_of(text), 1, "%s", text);
	cr_expect_eq(count_of(text, "RONDO WARN RONDO_DEBUG_FILE: cannot open /no/such/directory/"),
		1, "%s", text);
	cr_expect_eq(
		count_of(text, ": No such file or directory: the log goes to standard error\n"), 1,
		"%s", text);
	cr_expect_eq(count_of(text, " Init COMPLETE "), 2, "%s", text);
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

/* Also where the library considered direct access, and its exchange cost more than it saved. */
Test(logs, the_choice_of_an_algorithm_is_logged_once, .timeout = 60)
{
	const char *text = log_of("INFO", "PICK", "shm");

	for (int rank = 0; rank < RANKS; rank++)
		cr_expect_eq(
			count(text, rank, " all_reduce of 4 bytes on 4 ranks: "), 1, "%s", text);
}

Test(logs, calls_are_traced, .timeout = 60)
{
	const char *text = log_of("TRACE", "COLL", "shm");

	for (int rank = 0; rank < RANKS; rank++)
		cr_expect(has_line(text, rank, "TRACE",
				  "all_reduce #[0-9]+ : count 1 type f32 op sum root 0 in "
				  "0x[0-9a-f]+ "
				  "out 0x[0-9a-f]+"),
			"%s", text);
}

Test(logs, ranks_with_devices_log_how_these_reach_each_other, .timeout = 60)
{
	const char *text;

	need_tests_gpus("4");
	text = log_of("INFO", "ROUTE", "shm");

	expect_from_all(
		text, "Channel 00 : [0-3]\\[[0-9a-f]+\\] -> [0-3]\\[[0-9a-f]+\\] via P2P/IPC");
	expect_from_all(text, "rank [0-3] on CUDA device [0-3]: fused .*");
}

/* Short and long ones, of memory that ranks do not share. */
static int sum_up_several_times(struct rank_env *env)
{
	static float numbers[64 << 10];
	rondo_comm *again;

	TRY(env->create_error);
	TRY(rondo_barrier(env->comm, NULL));
	for (size_t count = 1; count <= 64 << 10; count *= 16)
		TRY(rondo_all_reduce(
			env->comm, numbers, numbers, count, RONDO_F32, RONDO_SUM, NULL));
	TRY(rondo_broadcast(env->comm, numbers, numbers, 4, RONDO_F32, 0, NULL));
	if (!env->argument)
		return 0;
	/* The library calls all_gather for it, which the user must not see. */
	TRY(rondo_comm_duplicate(env->comm, &again));
	TRY(rondo_all_reduce(again, numbers, numbers, 1, RONDO_F32, RONDO_SUM, NULL));
	TRY(rondo_comm_destroy(again));
	return 0;
}

static const char *log_with_algorithm(const char *algo, bool twice)
{
	struct world world = { .size = 3, .transport = "shm", .algo = algo };

	setenv("RONDO_DEBUG", "WARN", 1);
	return world_run_captured(&world, sum_up_several_times, twice ? &world : NULL);
}

Test(logs, an_algorithm_that_is_asked_for_and_cannot_run_is_one_warning_a_collective, .timeout = 60)
{
	/* All-reduces by tree take four ranks; broadcasts do not. */
	const char *text = log_with_algorithm("tree", false);

	cr_expect_eq(warnings_of(text), 1, "%s", text);
	cr_expect(has_line(text, 0, "WARN",
			  "algo=tree is not used for all_reduce on 3 ranks: it does not run "
			  "with so many ranks, .*; [a-z_]+ runs it"),
		"%s", text);
	text = log_with_algorithm("two_shot", false);
	cr_expect(has_line(text, 0, "WARN",
			  "algo=two_shot is not used for all_reduce on 3 ranks: not all "
			  "buffers can be addressed from all ranks \\(rondo_mem_alloc\\(\\)\\); "
			  "[a-z_]+ runs it"),
		"%s", text);
	cr_expect_eq(warnings_of(text), 2, "all_reduce and broadcast: %s", text);
	text = log_with_algorithm("doubling", false);
	cr_expect(has_line(text, 0, "WARN",
			  "algo=doubling is not used for broadcast on 3 ranks: it has no such "
			  "collective; [a-z_]+ runs it"),
		"%s", text);
	cr_expect_eq(warnings_of(text), 1, "%s", text);
	cr_expect_eq(warnings_of(log_with_algorithm("ring", false)), 0);
}

static int revoke_as_0(struct rank_env *env)
{
	if (env->rank == 0)
		TRY(rondo_comm_revoke(env->comm, "enough"));
	return rondo_barrier(env->comm, NULL) == RONDO_REVOKED ? 0 : world_report(env, "no end");
}

Test(logs, the_end_of_a_communicator_names_the_page_of_its_error, .timeout = 60)
{
	struct world world = { .size = RANKS, .quiet = true };
	const char *text;

	setenv("RONDO_DEBUG", "INFO", 1);
	text = world_run_captured(&world, revoke_as_0, NULL);
	expect_from_all(text, "RONDO_REVOKED: rank 0 revoked the communicator: enough "
			      "\\(docs/errors\\.md#rondo_revoked\\)");
}

Test(logs, another_communicator_warns_again, .timeout = 60)
{
	const char *text = log_with_algorithm("tree", true);

	cr_expect_geq(count_of(text, "algo=tree is not used for all_reduce"), 2, "%s", text);
}

/* ---- The page, and the sources --------------------------------------------------------------- */

#define KINDS_MAX 256
#define KIND_TEXT 256
#define ANYTHING '\1' /* in a kind's text: any characters */

/* The arguments of a call of rd_log(), or a row of the page. */
struct kind {
	char text[KIND_TEXT];
	char said_as[96]; /* "RD_INFO, RD_NET, " */
	bool found;
};

static struct kind calls[KINDS_MAX], rows[KINDS_MAX];
static int call_count, row_count;

/* A string literal's characters, with what a conversion or an escape prints as ANYTHING; behind it.
 */
static const char *add_literal(struct kind *kind, const char *at)
{
	size_t length = strlen(kind->text);

	for (at++; *at && *at != '"'; at++) {
		char c = *at;

		cr_assert_lt(length, (size_t)KIND_TEXT - 1);
		if (c == '\\')
			c = *++at;
		if (c == '%') {
			at += 1 + strspn(at + 1, "-+ #0123456789.*lzh");
			c = ANYTHING;
		}
		kind->text[length++] = c;
	}
	kind->text[length] = '\0';
	return *at ? at + 1 : at;
}

static bool has_words(const char *text)
{
	int letters = 0;

	for (; *text; text++)
		letters += isalpha((unsigned char)*text) != 0;
	return letters > 2;
}

static void list_calls(const char *path)
{
	for (const char *at = file_text_at(path); (at = strstr(at, "rd_log(")); at++) {
		struct kind *kind = &calls[call_count];
		size_t length = strcspn(at, "\";");

		if (at[length] == ';')
			continue; /* its declaration */
		cr_assert_lt(call_count, KINDS_MAX - 1);
		*kind = (struct kind){ 0 };
		snprintf(kind->said_as, sizeof(kind->said_as), "%.*s", (int)length - 7, at + 7);
		for (at += length; *at == '"'; at += strspn(at, " \t\n"))
			at = add_literal(kind, at);
		call_count += has_words(kind->text);
	}
}

static void list_all_calls(void)
{
	static const char *const patterns[] = { "/lib/*/*.c", "/lib/device/*/*.c",
		"/transports/*.c", "/transports/*/*.c", "/ring/*.c", "/tree/*.c", "/mesh/*.c" };
	char pattern[512];

	for (size_t i = 0; i < sizeof(patterns) / sizeof(*patterns); i++) {
		glob_t found = { 0 };

		snprintf(pattern, sizeof(pattern), "%s%s", RONDO_SOURCE, patterns[i]);
		cr_assert_eq(glob(pattern, 0, NULL, &found), 0, "%s", pattern);
		for (size_t k = 0; k < found.gl_pathc; k++)
			list_calls(found.gl_pathv[k]);
		globfree(&found);
	}
}

/* "| NET | `line` | ...": what stands between backquotes, "..." being ANYTHING. */
static void list_row(const char *line, const char *level)
{
	struct kind *row = &rows[row_count];
	const char *at = strstr(line, "| `"), *end;
	size_t length = 0;

	cr_assert_not_null(at, "%.60s", line);
	cr_assert_lt(row_count, KINDS_MAX - 1);
	*row = (struct kind){ 0 };
	snprintf(row->said_as, sizeof(row->said_as), "%s RD_%.*s,", level,
		(int)strcspn(line + 2, " "), line + 2);
	at += 3;
	end = strchr(at, '`');
	cr_assert(end && end - at < KIND_TEXT);
	for (; at < end; at++) {
		bool dots = strncmp(at, "...", 3) == 0;

		row->text[length++] = dots ? ANYTHING : *at;
		at += dots ? 2 : 0;
	}
	row_count++;
}

static void list_rows(void)
{
	const char *level = "RD_INFO,";

	for (const char *line = file_text_at(RONDO_SOURCE "/docs/logs.md"); line;
		line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, "`RONDO_DEBUG=TRACE` adds", 24) == 0)
			level = "RD_TRACE,";
		else if (strncmp(line, "At WARN ", 8) == 0)
			level = "RD_WARN,";
		else if (strncmp(line, "| ", 2) == 0 && isupper((unsigned char)line[3]))
			list_row(line, level);
	}
}

/* Whether some text is one of both kinds. */
static bool agree(const char *a, const char *b)
{
	/* From here on: [a's character][b's]; the ends agree. */
	static bool from[KIND_TEXT + 1][KIND_TEXT + 1];
	int la = (int)strlen(a), lb = (int)strlen(b);

	for (int i = la; i >= 0; i--)
		for (int k = lb; k >= 0; k--) {
			bool ends = i == la && k == lb;

			from[i][k] =
				ends || (i < la && k < lb && a[i] == b[k] && from[i + 1][k + 1]);
			if (i < la && a[i] == ANYTHING)
				from[i][k] |= from[i + 1][k] || (k < lb && from[i][k + 1]);
			if (k < lb && b[k] == ANYTHING)
				from[i][k] |= from[i][k + 1] || (i < la && from[i + 1][k]);
		}
	return from[0][0];
}

/* A row is "RD_INFO, RD_NET,"; a call may have a choice of both. */
static bool said_alike(const struct kind *call, const struct kind *row)
{
	char level[16], subsystem[32];

	cr_assert_eq(sscanf(row->said_as, "%15[^,], %31[^,]", level, subsystem), 2);
	return strstr(call->said_as, level) && strstr(call->said_as, subsystem);
}

Test(logs, the_page_lists_what_the_sources_can_log)
{
	list_all_calls();
	list_rows();
	cr_assert(call_count > 40 && row_count > 40, "%d calls, %d rows", call_count, row_count);
	for (int i = 0; i < call_count; i++)
		for (int k = 0; k < row_count; k++)
			if (said_alike(&calls[i], &rows[k]) && agree(calls[i].text, rows[k].text))
				calls[i].found = rows[k].found = true;
	for (int i = 0; i < call_count; i++)
		cr_expect(calls[i].found, "docs/logs.md lacks: %s \"%s\"", calls[i].said_as,
			calls[i].text);
	for (int k = 0; k < row_count; k++)
		cr_expect(rows[k].found, "docs/logs.md has what no source logs: %s \"%s\"",
			rows[k].said_as, rows[k].text);
}
