/* The secret of a job: rondo-run hands it to its ranks, and agents with another one stay out. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "free_port.h"
#include "program.h"
#include "rondo.h"
#include "secure/tls.h"
#include "text.h"

#define LIMIT_MS 25000

static char endpoint[ENDPOINT_SIZE], path[2][64];

static void load(void)
{
	if (rd_tls_load())
		cr_skip("%s", rondo_last_error());
	for (int i = 0; i < 2; i++) {
		snprintf(path[i], sizeof(path[i]), "/tmp/rondo-test-%ld-%d", (long)getpid(), i);
		unlink(path[i]);
	}
}

static void clean(void)
{
	unlink(path[0]);
	unlink(path[1]);
}

TestSuite(run_secret, .init = load, .fini = clean, .timeout = 60);

static void start_agent(
	struct program *agent, const char *file, const char *limit, const char *script)
{
	*agent = program_files();
	if (file)
		setenv("RONDO_SECRET_FILE", file, 1);
	else
		unsetenv("RONDO_SECRET_FILE");
	program_start(agent, RONDO_TOOL, "--nnodes", "2", "--rdzv-endpoint", endpoint,
		"--rdzv-conf", limit, "sh", "-c", script, NULL);
}

static void ends_with(struct program *agent, int status, const char *words)
{
	char *text;

	program_finish(agent);
	text = file_text(agent->err);
	cr_expect_eq(agent->status, status, "status %d:\n%s", agent->status, text);
	cr_expect(strstr(text, words), "no '%s' in:\n%s", words, text);
}

/* ---- One node ------------------------------------------------------------------------------ */

/* The descriptor is open in each rank, and the same for all; its bytes are in no environment. */
#define SHOW \
	"read secret </dev/fd/$RONDO_SECRET_FD;" \
	"tr '\\0' '\\n' </proc/self/environ | grep -q $secret && exit 3;" \
	"echo $secret >"

static void run_one(const char *out, char secret[80])
{
	struct program run = program_files();
	char script[256];
	FILE *file;

	snprintf(script, sizeof(script), SHOW "%s.$RANK", out);
	program_start(&run, RONDO_TOOL, "--nproc-per-node", "2", "sh", "-c", script, NULL);
	program_finish(&run);
	cr_assert_eq(run.status, 0);
	for (int rank = 0; rank < 2; rank++) {
		char name[80], text[80] = "";

		snprintf(name, sizeof(name), "%s.%d", out, rank);
		file = fopen(name, "r");
		cr_assert(file && fgets(text, sizeof(text), file));
		fclose(file);
		unlink(name);
		cr_assert_eq(strlen(text), 65);
		cr_assert(rank == 0 || strcmp(secret, text) == 0, "ranks have different secrets");
		memcpy(secret, text, sizeof(text));
	}
}

Test(run_secret, of_each_job_is_its_own_and_its_ranks_have_it_in_common)
{
	char one[80], other[80];

	unsetenv("RONDO_SECRET_FILE");
	run_one(path[0], one);
	run_one(path[0], other);
	cr_expect_str_neq(one, other);
}

Test(run_secret, in_a_file_replaces_the_descriptor)
{
	struct program run = program_files();

	setenv("RONDO_SECRET_FILE", path[0], 1);
	setenv("RONDO_SECRET_FD", "99", 1);
	program_start(&run, RONDO_TOOL, "sh", "-c", "echo \"<$RONDO_SECRET_FD>\"", NULL);
	program_finish(&run);
	cr_assert_eq(run.status, 0);
	assert_contains(run.out, "<>\n");
	unsetenv("RONDO_SECRET_FD");
}

/* ---- Several nodes -------------------------------------------------------------------------- */

Test(run_secret, lets_agents_meet_which_write_it_where_there_is_none)
{
	struct program agents[2];
	struct stat status;

	endpoint_choose("127.0.0.1", endpoint);
	for (int i = 0; i < 2; i++)
		start_agent(&agents[i], path[0], "join_timeout=20", "echo rank $RANK");
	ends_with(&agents[0], 0, "");
	ends_with(&agents[1], 0, "");
	cr_assert_eq(stat(path[0], &status), 0);
	cr_expect_eq(status.st_mode & 0777, 0600);
}

Test(run_secret, keeps_out_an_agent_that_has_another_one)
{
	struct program host, other;

	endpoint_choose("127.0.0.1", endpoint);
	start_agent(&host, path[0], "join_timeout=20", "true");
	endpoint_await(endpoint, LIMIT_MS);
	start_agent(&other, path[1], "join_timeout=20", "true");
	ends_with(&other, 1, "a rondo-run that has another secret (RONDO_SECRET_FILE)");
	start_agent(&other, NULL, "join_timeout=1", "true");
	ends_with(&other, 1, "or has a secret (RONDO_SECRET_FILE)");
	start_agent(&other, path[0], "join_timeout=20", "true");
	ends_with(&other, 0, "");
	ends_with(&host, 0, "");
}

Test(run_secret, in_a_file_that_others_may_read_is_refused)
{
	struct program run = program_files();
	FILE *file = fopen(path[0], "w");

	cr_assert(file);
	fputs("sixteen bytes it has\n", file);
	fclose(file);
	cr_assert_eq(chmod(path[0], 0644), 0);
	endpoint_choose("127.0.0.1", endpoint);
	start_agent(&run, path[0], "join_timeout=20", "true");
	ends_with(&run, 1, "is open to other users: chmod 600 it");
}
