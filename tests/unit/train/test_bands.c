/*
 * A short run of each model on a drawn set, with the model's own settings, ends within the band
 * that was recorded: alone, and on two ranks with the same global batch.
 *
 * Recorded with OpenBLAS's kernels for AVX-512, AVX2 and AVX, on one rank and on two. They round
 * differently, which max-pooling, momentum and Adam amplify; the bands are a few times as wide.
 */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "train/base/fail.h"
#include "train/data/sets.h"
#include "train/job.h"
#include "train/scratch.h"

TestSuite(bands, .init = scratch_make, .fini = scratch_remove, .timeout = 400);

struct band {
	const char *model, *set;
	size_t train_count, test_count; /* of the set: images, or bytes */
	int epochs;
	int tokens; /* of a sample; 0: an image */
	double loss_min, loss_max, accuracy_min, accuracy_max; /* of the test */
};

static void expect_within(const struct band *band, int ranks)
{
	struct job job = make_job();
	struct options *options = &job.options;
	options->network = network_named(band->model);
	options->tokens = band->tokens;
	options->epochs = band->epochs;
	options->global_batch = options->network->batch;
	options->optimizer = -1;
	options->learning_rate = options->momentum = options->weight_decay = -1;
	/* Two ranks normalise as one does. */
	options->sync_norm = network_named(band->model) == network_named("convnet");
	job.reports = true;
	run_ranks(&job, ranks);
	const struct totals *test = &job.outcome->test;
	double loss = test->loss / test->count, accuracy = test->correct / test->count;
	cr_assert(loss > band->loss_min && loss < band->loss_max, "%d ranks: the loss is %g", ranks,
		loss);
	cr_assert(accuracy > band->accuracy_min && accuracy < band->accuracy_max,
		"%d ranks: the accuracy is %g", ranks, accuracy);
	finish_job(&job);
}

static void expect_band(struct band band)
{
	cr_assert_eq(
		set_draw(set_named(band.set), scratch_path(""), band.train_count, band.test_count),
		0, "%s", failure());
	expect_within(&band, 1);
	expect_within(&band, 2);
}

/* Without training, a loss is ln(10) = 2.30. */

Test(bands, mlp_on_drawn_digits)
{
	/* 1.787, 0.438 */
	expect_band((struct band){ "mlp", "drawn", 6000, 1000, 3, 0, 1.76, 1.82, 0.41, 0.47 });
}

Test(bands, convnet_on_drawn_digits)
{
	/* 1.299 to 1.304, 0.584 to 0.587 */
	expect_band((struct band){ "convnet", "drawn", 4000, 1000, 1, 0, 1.26, 1.34, 0.55, 0.62 });
}

Test(bands, lenet_on_drawn_digits_in_colours)
{
	/* 1.070 to 1.105, 0.570 to 0.594 */
	expect_band(
		(struct band){ "lenet", "drawn-cifar", 10000, 1000, 3, 0, 1.02, 1.16, 0.53, 0.63 });
}

Test(bands, gpt_on_drawn_text)
{
	/* 2.310 to 2.391, 0.314 to 0.362; without training, ln(256) = 5.55 */
	expect_band((struct band){ "gpt", "drawn-text", 24000, 4000, 1, 32, 2.2, 2.5, 0.28, 0.40 });
}

/* ---- FashionMNIST, for whoever has it: FASHION_MNIST=DIR ---- */

/* The PyTorch quickstart's rate. Its own runs end at 64 to 66 %, and a loss of 1.05 to 1.12. */
static void expect_quickstart(const char *dir, int ranks)
{
	struct job job = make_job();
	struct options *options = &job.options;
	options->data = dir;
	options->set = set_named("fashion");
	options->network = network_named("mlp");
	options->epochs = 5;
	options->global_batch = 64;
	options->learning_rate = 1e-3;
	options->momentum = options->weight_decay = 0;
	job.reports = true;
	run_ranks(&job, ranks);
	const struct totals *test = &job.outcome->test;
	cr_expect_float_eq(test->loss / test->count, 1.085, 0.035, "%d ranks", ranks);
	cr_expect_float_eq(test->correct / test->count, 0.65, 0.01, "%d ranks", ranks);
	finish_job(&job);
}

Test(bands, mlp_on_fashion_mnist_as_in_the_quickstart)
{
	const char *dir = getenv("FASHION_MNIST");
	if (!dir) {
		scratch_remove();
		cr_skip_test("FASHION_MNIST names no directory with the set");
	}
	expect_quickstart(dir, 1);
	expect_quickstart(dir, 4);
}
