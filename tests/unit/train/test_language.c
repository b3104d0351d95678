/* gpt learns from text: after a short run on the drawn set it uses the bytes before. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "train/base/fail.h"
#include "train/data/sets.h"
#include "train/job.h"
#include "train/scratch.h"

static void make_text(void)
{
	scratch_make();
	const struct set *set = set_named("drawn-text");
	cr_assert_eq(set_draw(set, scratch_path(""), 60000, 6000), 0, "%s", failure());
}

TestSuite(language, .init = make_text, .fini = scratch_remove, .timeout = 600);

static struct job text_job(void)
{
	struct job job = make_job();
	job.options.network = network_named("gpt-nano");
	job.options.tokens = 32;
	job.options.optimizer = -1;
	job.options.learning_rate = 3e-3;
	job.options.momentum = job.options.weight_decay = -1;
	job.options.epochs = 2;
	job.options.global_batch = 32;
	return job;
}

static void expect_learnt(int ranks, int pipeline)
{
	struct job job = text_job();
	job.options.pipeline = job.options.accumulate = pipeline;
	job.reports = true;
	run_ranks(&job, ranks);
	double loss = job.outcome->test.loss / job.outcome->test.count;
	cr_assert_lt(loss, entropy_of_bytes(scratch_path("drawn-text/text.txt")), "%d ranks: %s",
		ranks, job.outcome->report);
}

Test(language, gpt_learns_the_drawn_text_alone_and_as_a_pipeline)
{
	expect_learnt(1, 1);
	expect_learnt(2, 2);
}

/* No value changes: both runs end with the first ones. */
static void export_of(const char *name, int ranks, int tensor, int pipeline)
{
	struct job job = text_job();
	job.options.network = network_named("gpt");
	job.options.tensor = tensor;
	job.options.pipeline = pipeline;
	job.options.steps = 1;
	job.options.optimizer = OPTIMIZER_SGD;
	job.options.learning_rate = 0;
	job.options.momentum = job.options.weight_decay = 0;
	job.options.export = scratch_path(name);
	job.reports = true;
	run_ranks(&job, ranks);
}

Test(language, the_parts_of_a_model_are_exported_whole)
{
	enum { ROOM = 4 << 20 };
	char *whole = malloc(ROOM), *parts = malloc(ROOM);
	cr_assert(whole && parts);
	export_of("whole", 1, 1, 1);
	export_of("parts", 8, 2, 2);
	size_t size = files_read("whole", whole, ROOM);
	cr_assert_gt(size, 830208 * sizeof(float)); /* gpt with a context of 32 */
	cr_assert_eq(files_read("parts", parts, ROOM), size);
	cr_assert_arr_eq(whole, parts, size);
	free(whole);
	free(parts);
}
