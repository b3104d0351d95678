/* ctest label: threads */
/* RONDO_TRACE: the ranks of a process write one file, which has the steps of their calls. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "comm/comm.h"
#include "world.h"

#define RANKS 3
#define CALLS 10
#define COUNT 1000
#define FILE_MOST (1 << 20)

static int make_calls(struct rank_env *env)
{
	static float values[COUNT], sums[RANKS][COUNT];
	float *sum = sums[env->rank];

	for (int i = 0; i < CALLS; i++)
		TRY(rondo_all_reduce(env->comm, values, sum, COUNT, RONDO_F32, RONDO_SUM, NULL));
	return 0;
}

/* The file's array, with the end that the file leaves out. */
static size_t read_array(const char *path, char *text)
{
	FILE *file = fopen(path, "r");
	size_t size;

	cr_assert_not_null(file);
	size = fread(text, 1, FILE_MOST - 1, file);
	fclose(file);
	cr_assert(size > 2 && strncmp(text + size - 2, ",\n", 2) == 0);
	text[size - 2] = ']';
	text[size - 1] = '\0';
	return size - 1;
}

/* The lines that begin so, up to the process's number. */
static int count_lines(const char *text, const char *kind, const char *collective, int process)
{
	char begin[160];
	int count = 0;

	snprintf(begin, sizeof(begin), "\n{\"name\":\"%s\",\"cat\":\"%s\",\"ph\":\"X\",\"pid\":%d,",
		kind, collective, process);
	for (const char *at = text; (at = strstr(at, begin)); at++)
		count++;
	return count;
}

/* Each rank's calls have this number of such steps each. */
static void check_file(const char *path, int ranks, const char *kind, int each)
{
	static char text[FILE_MOST];
	size_t size = read_array(path, text);
	struct rd_json json;

	cr_expect_eq(rd_json_parse(&json, path, text, size), 0, "%s", rondo_last_error());
	rd_json_finish(&json);
	for (int rank = 0; rank < ranks; rank++) {
		int steps = count_lines(text, kind, "all_reduce", rank);

		cr_expect_eq(steps, CALLS * each, "rank %d: %d of %s", rank, steps, kind);
	}
}

static void try_traces(struct world *world, const char *kind, int each)
{
	struct rank_outcome outcomes[WORLD_MAX];
	char path[] = "/tmp/rondo_trace_XXXXXX";

	world->threads = true;
	close(mkstemp(path));
	setenv("RONDO_TRACE", path, 1);
	cr_expect_eq(world_run(world, make_calls, NULL, outcomes), 0);
	check_file(path, world->size, kind, each);
	unlink(path);
}

Test(traces, have_the_steps_of_all_ranks, .timeout = 60)
{
	const char *const transports[] = { "shm", "tcp" };

	for (int i = 0; i < 2; i++)
		try_traces(
			&(struct world){
				.size = RANKS, .transport = transports[i], .algo = "one_round" },
			"send", RANKS - 1);
}

Test(traces, have_the_steps_of_a_rank_alone, .timeout = 60)
{
	try_traces(&(struct world){ .size = 1 }, "copy", 1);
}
