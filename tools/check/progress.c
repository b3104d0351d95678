#include "check/progress.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"

static size_t size_of(int count)
{
	const struct progress *progress = NULL;

	return sizeof(*progress) + (size_t)count * sizeof(progress->sizes[0]);
}

struct progress *progress_create(int ranks, const int *larger, int count)
{
	struct progress *progress = mmap(NULL, size_of(ranks + count), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (progress == MAP_FAILED)
		return NULL;
	progress->count = ranks + count;
	for (int i = 0; i < progress->count; i++)
		progress->sizes[i].ranks = i < ranks ? i + 1 : larger[i - ranks];
	return progress;
}

void progress_destroy(struct progress *progress)
{
	munmap(progress, size_of(progress->count));
}

/* ---- Which function of the plug-in is being run ---------------------------------------------- */

static struct progress *noted;
static const struct rd_algorithm *watched;

static void begin(const char *function)
{
	noted->since_ms = rd_clock_ms();
	noted->running = function;
}

static bool may_run(const struct rd_problem *problem)
{
	noted->problem.rank = problem->rank;
	begin("may_run()");

	bool yes = watched->may_run(problem);

	noted->running = NULL;
	return yes;
}

static void write_plan(struct rd_plan *plan)
{
	const struct rd_problem *problem = rd_problem_of(plan);

	noted->problem.rank = problem->rank;
	begin("write[]");
	watched->write[problem->collective](plan);
	noted->running = NULL;
}

struct rd_algorithm progress_watch(struct progress *progress, const struct rd_algorithm *algorithm)
{
	struct rd_algorithm copy = *algorithm;

	noted = progress;
	watched = algorithm;
	if (copy.may_run)
		copy.may_run = may_run;
	for (int c = 0; c < RD_COLLECTIVE_COUNT; c++)
		if (copy.write[c])
			copy.write[c] = write_plan;
	return copy;
}

/* ---- Which sizes ----------------------------------------------------------------------------- */

int progress_count(const struct progress *progress, enum proof_state state)
{
	int count = 0;

	for (int i = 0; i < progress->count; i++)
		count += progress->sizes[i].state == state;
	return count;
}

/* Returns the last of the consecutive sizes from `first` on that are in one of these states. */
static int last_of(
	const struct progress *progress, int first, enum proof_state state, enum proof_state other)
{
	int last = first;

	while (last + 1 < progress->count &&
		progress->sizes[last + 1].ranks == progress->sizes[last].ranks + 1 &&
		(progress->sizes[last + 1].state == state ||
			progress->sizes[last + 1].state == other))
		last++;
	return last;
}

/* Appends ", 3..7" to the text; false if there is little room left. */
static bool add_range(char *text, size_t size, int from, int to)
{
	size_t used = strlen(text);
	const char *comma = used ? ", " : "";

	if (size - used < 40) {
		snprintf(text + used, size - used, "%s...", comma);
		return false;
	}
	if (from == to)
		snprintf(text + used, size - used, "%s%d", comma, from);
	else
		snprintf(text + used, size - used, "%s%d..%d", comma, from, to);
	return true;
}

int progress_print(const struct progress *progress, enum proof_state state, enum proof_state other,
	char *text, size_t size)
{
	bool room = true;
	int count = 0;

	*text = '\0';
	for (int i = 0; i < progress->count; i++) {
		if (progress->sizes[i].state != state && progress->sizes[i].state != other)
			continue;

		int last = last_of(progress, i, state, other);

		if (room)
			room = add_range(
				text, size, progress->sizes[i].ranks, progress->sizes[last].ranks);
		count += last - i + 1;
		i = last;
	}
	return count;
}
