/* ctest label: threads */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "train/base/fail.h"
#include "train/base/hash.h"
#include "train/data/loader.h"
#include "train/data/sets.h"
#include "train/scratch.h"

TestSuite(loader, .init = scratch_make, .fini = scratch_remove, .timeout = 60);

#define COUNT 203
#define GLOBAL_BATCH 24
#define STEPS 9
#define BATCH_MAX 12 /* of two ranks */
#define EPOCHS 3

/* A loader of drawn digits, as rank 1 of 2. */
struct fixture {
	struct data *data;
	struct sampler *sampler;
	struct batch *batches;
	struct loader *loader;
};

static void open_loader(struct fixture *fixture, int workers, bool shuffled)
{
	int count = loader_batch_count(workers);
	struct data *data;
	cr_assert_eq(set_draw(set_named("drawn"), scratch_path(""), COUNT, 10), 0);
	data = fixture->data = files_open(&data_idx, "drawn", DATA_TRAIN);
	cr_assert_eq(sampler_create(&fixture->sampler, COUNT, GLOBAL_BATCH, 1, 2), 0);
	fixture->batches = calloc(count, sizeof(*fixture->batches));
	for (int i = 0; i < count; i++) {
		/* Exactly as large as a batch: a sanitizer finds any access beyond. */
		fixture->batches[i].inputs = malloc(BATCH_MAX * data->input_count * sizeof(float));
		fixture->batches[i].labels = malloc(BATCH_MAX * sizeof(int32_t));
	}
	cr_assert_eq(loader_create(&fixture->loader, &(struct loader_options){ .data = data,
							     .sampler = fixture->sampler,
							     .batches = fixture->batches,
							     .workers = workers,
							     .shuffled = shuffled,
							     .seed = 5 }),
		0, "%s", failure());
}

static void close_loader(struct fixture *fixture, int workers)
{
	loader_destroy(fixture->loader);
	for (int i = 0; i < loader_batch_count(workers); i++) {
		free(fixture->batches[i].inputs);
		free(fixture->batches[i].labels);
	}
	free(fixture->batches);
	sampler_destroy(fixture->sampler);
	data_destroy(fixture->data);
}

static uint64_t hash_batch(const struct fixture *fixture, const struct batch *batch)
{
	uint64_t hash = hash_bytes(HASH_START, batch->inputs,
		batch->count * fixture->data->input_count * sizeof(float));
	return hash_bytes(hash, batch->labels, batch->count * sizeof(int32_t));
}

/* The batch gathered without a loader. */
static uint64_t expected(struct fixture *fixture, bool shuffled, uint64_t epoch, size_t step)
{
	static float inputs[BATCH_MAX * 784];
	int32_t labels[BATCH_MAX];
	struct batch batch = { .inputs = inputs, .labels = labels };
	struct sampler *sampler;
	cr_assert_eq(sampler_create(&sampler, COUNT, GLOBAL_BATCH, 1, 2), 0);
	if (shuffled)
		sampler_shuffle(sampler, 5, epoch);
	batch.count = sampler_pick(sampler, step);
	data_gather(fixture->data, sampler->picks, batch.count, inputs, labels);
	sampler_destroy(sampler);
	return hash_batch(fixture, &batch);
}

static void expect_batch(struct fixture *fixture, bool shuffled, uint64_t epoch, size_t step)
{
	struct batch batch;
	cr_assert_eq(loader_take(fixture->loader, epoch, step, &batch), 0, "%s", failure());
	cr_assert_eq(batch.count, step == STEPS - 1 ? 5 : BATCH_MAX);
	cr_assert_eq(hash_batch(fixture, &batch), expected(fixture, shuffled, epoch, step),
		"epoch %d, step %zu", (int)epoch, step);
}

static const int worker_counts[] = { 0, 1, 2, 4, 7 };
#define WORKER_COUNTS (int)(sizeof(worker_counts) / sizeof(worker_counts[0]))

Test(loader, any_number_of_workers_gives_the_same_batches)
{
	for (int w = 0; w < WORKER_COUNTS; w++) {
		for (int shuffled = 0; shuffled < 2; shuffled++) {
			struct fixture fixture;
			open_loader(&fixture, worker_counts[w], shuffled);
			for (uint64_t epoch = 4; epoch < 4 + EPOCHS; epoch++)
				for (size_t step = 0; step < STEPS; step++)
					expect_batch(&fixture, shuffled, epoch, step);
			close_loader(&fixture, worker_counts[w]);
		}
	}
}

Test(loader, any_step_may_follow_any_other)
{
	static const uint64_t jumps[][2] = { { 0, 0 }, { 0, 1 }, { 0, 5 }, { 0, 5 }, { 2, 8 },
		{ 3, 0 }, { 0, 2 }, { 1, 8 }, { 1, 7 } };
	for (int w = 0; w < WORKER_COUNTS; w++) {
		struct fixture fixture;
		open_loader(&fixture, worker_counts[w], true);
		for (size_t i = 0; i < sizeof(jumps) / sizeof(jumps[0]); i++)
			expect_batch(&fixture, true, jumps[i][0], jumps[i][1]);
		close_loader(&fixture, worker_counts[w]);
	}
}

Test(loader, a_batch_stays_until_the_next_but_one_call)
{
	for (int w = 0; w < WORKER_COUNTS; w++) {
		struct fixture fixture;
		struct batch last, batch;
		open_loader(&fixture, worker_counts[w], true);
		cr_assert_eq(loader_take(fixture.loader, 0, 0, &last), 0);
		/* Every third step is a jump. */
		for (size_t step = 1; step < 40; step++) {
			size_t at = step % STEPS, before = (step - 1) % STEPS;
			uint64_t epoch = step / STEPS + step / 3,
				 epoch_before = (step - 1) / STEPS + (step - 1) / 3;
			cr_assert_eq(loader_take(fixture.loader, epoch, at, &batch), 0);
			cr_assert_eq(hash_batch(&fixture, &last),
				expected(&fixture, true, epoch_before, before));
			last = batch;
		}
		close_loader(&fixture, worker_counts[w]);
	}
}

Test(loader, it_stops_in_the_middle_of_an_epoch)
{
	for (int w = 0; w < WORKER_COUNTS; w++) {
		for (size_t taken = 0; taken < STEPS; taken++) {
			struct fixture fixture;
			open_loader(&fixture, worker_counts[w], true);
			for (size_t step = 0; step < taken; step++)
				expect_batch(&fixture, true, 0, step);
			close_loader(&fixture, worker_counts[w]);
		}
	}
}

Test(loader, a_file_that_is_cut_off_while_it_is_read_ends_the_run_with_its_name)
{
	for (int w = 0; w < WORKER_COUNTS; w++) {
		struct fixture fixture;
		struct batch batch;
		int err = 0;
		open_loader(&fixture, worker_counts[w], true);
		expect_batch(&fixture, true, 0, 0);
		cr_assert_eq(truncate(scratch_path("drawn/train-images-idx3-ubyte"), 8192), 0);
		/* Batches that workers gathered before may still be whole. */
		for (size_t step = 1; !err && step < 2 * STEPS; step++)
			err = loader_take(fixture.loader, step / STEPS, step % STEPS, &batch);
		cr_assert_neq(err, 0);
		cr_assert(
			strstr(failure(),
				"train-images-idx3-ubyte: was cut off while it was read, at byte "),
			"%s", failure());
		cr_assert_geq(atol(strstr(failure(), "at byte ") + 8), 8192);
		close_loader(&fixture, worker_counts[w]);
		scratch_remove();
		scratch_make();
	}
}
