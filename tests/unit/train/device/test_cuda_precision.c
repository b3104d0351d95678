/* Mixed precision on GPUs: products of halves, and training with them. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "train/base/fail.h"
#include "train/device/gpus.h"
#include "train/device/operations.h"
#include "train/job.h"
#include "train/scratch.h"
#include "train/steps.h"

TestSuite(cuda_precision, .init = make_data, .fini = scratch_remove, .timeout = 240);

/* ---- Products ---- */

#define OPS device->ops

/* The CPU multiplies rounded copies, and the GPU rounds the numbers itself. *factors are a and b of
   the product or convolution. */
static void begin(struct device *device, struct operands *o, rondo_type type, float *factors[2])
{
	for (int f = 0; f < 2; f++) {
		float *copy = o->values[5 + f];
		OPS->convert(device, ROOM, RONDO_F32, o->values[f], type, o->halves);
		OPS->convert(device, ROOM, type, o->halves, RONDO_F32, copy);
		factors[f] = device->number < 0 ? copy : o->values[f];
	}
	if (device->number >= 0)
		OPS->precision(device, type);
}

static void end(struct device *device)
{
	OPS->precision(device, RONDO_F32);
}

static void multiply(struct device *device, struct operands *o, rondo_type type)
{
	float *factors[2];
	begin(device, o, type, factors);
	for (int layouts = 0; layouts < 4; layouts++)
		device_multiply(device, 37, 45, 19, factors[0], layouts & 1 ? TRANSPOSED : AS_IS,
			factors[1], layouts & 2 ? TRANSPOSED : AS_IS, 0.5f,
			o->values[2] + layouts * 1700);
	device_multiply(device, 5, 3, 0, factors[0], AS_IS, factors[1], AS_IS, 0, o->values[3]);
	/* A batch, with one a for all; rows of 13, 9 and 12 are longer than needed. */
	const struct product product = {
		.batch = 5,
		.rows = 7,
		.columns = 11,
		.inner = 8,
		.a = { .data = factors[0], .pitch = 13 },
		.b = { .data = factors[1], .pitch = 9, .step = 101, .layout = TRANSPOSED },
		.c = { .data = o->values[4], .pitch = 12, .step = 90 },
		.alpha = 0.5f,
		.beta = 0.25f,
	};
	OPS->product(device, &product);
	end(device);
}

static void multiply_f16(struct device *device, struct operands *o)
{
	multiply(device, o, RONDO_F16);
}

static void multiply_bf16(struct device *device, struct operands *o)
{
	multiply(device, o, RONDO_BF16);
}

static void convolve(struct device *device, struct operands *o)
{
	const struct conv conv = { .batch = 3,
		.in_channels = 2,
		.out_channels = 5,
		.rows = 9,
		.columns = 7,
		.kernel = 3,
		.padding = 1 };
	float *factors[2];
	begin(device, o, RONDO_BF16, factors);
	OPS->conv(device, &conv, factors[0], factors[1], o->values[2], o->values[3]);
	OPS->conv_in_grad(device, &conv, factors[1], factors[0], o->values[4]);
	end(device);
}

/* Beyond f16: infinite, or not a number where infinities cancel; and in bf16 still finite. */
static void overflow(struct device *device, struct operands *o)
{
	float *factors[2];
	OPS->scale(device, ROOM / 64, 1e5f, o->values[0]);
	begin(device, o, RONDO_F16, factors);
	device_multiply(device, 40, 40, 40, factors[0], AS_IS, factors[1], AS_IS, 0, o->values[2]);
	OPS->square_sum(device, 1600, o->values[2], &o->sums[0]);
	OPS->clip_factor(device, &o->sums[0], 0, 1, o->values[3]);
	end(device);
}

/* Products of halves are exact; these many are added up, scaled, or added to c. */
static int compare_products(void)
{
	static const struct operation operations[] = {
		{ "f16", multiply_f16, .roundings = 19 + 2 },
		{ "bf16", multiply_bf16, .roundings = 19 + 2 },
		{ "conv", convolve, .roundings = 5 * 3 * 3 },
		{ "overflow", overflow, .roundings = 40 },
	};
	return compare_operations(operations, sizeof(operations) / sizeof(operations[0]));
}

Test(cuda_precision, products_are_the_cpus_of_rounded_factors)
{
	need_gpus(scratch_remove);
	expect_success(compare_products);
}

/* ---- Training ---- */

static struct job make_precise_job(int precision)
{
	struct job job = make_job();
	job.options.device = DEVICE_CUDA;
	job.options.precision = precision;
	return job;
}

/*
 * Factors are rounded by `unit` of them at most: 2^-9 in bf16, 2^-12 in f16. Three layers multiply,
 * and logits of such small models are 1 at most; the loss follows the logits (LIKELY_ROUNDING has
 * the 4 and the root).
 *
 * An update has the roundings of both factors of a product, in forward and backward. Moreover,
 * rounding changes which ReLUs of two layers are on, where their input is below its error: of
 * inputs of a deviation of 1, some 4 units of them all. Each takes its part of the gradient along.
 */
#define LOSS_BOUND(unit) (4 * sqrt(3) * (unit))
#define UPDATE_BOUND(unit) (4 * sqrt(2 * 3) * (unit) + sqrt(2 * (2 * 4 * (unit))))

static void expect_training(int precision, int size, double unit)
{
	struct job plain = make_job(), rounded = make_precise_job(precision);
	struct step_errors errors = compare_steps(&plain, size, &rounded, size, STEPS);
	cr_expect_lt(errors.loss, LOSS_BOUND(unit), "a loss is off by %g", errors.loss);
	cr_expect_lt(errors.update, UPDATE_BOUND(unit), "an update is off by %g", errors.update);
	/* And they are rounded: f32 has 2^-24. */
	cr_expect_gt(errors.loss, 0x1p-24 * 4, "a loss is off by %g", errors.loss);
	cr_expect_gt(errors.update, unit, "an update is off by %g", errors.update);
}

Test(cuda_precision, ranks_train_with_halves_nearly_as_without)
{
	need_gpus(scratch_remove);
	expect_training(PRECISION_BF16, 2, 0x1p-9);
	expect_training(PRECISION_F16, 2, 0x1p-12);
}

/* Plain SGD of one rank may step in backward; but not by gradients that have a loss scale. */
Test(cuda_precision, a_rank_alone_trains_with_halves_nearly_as_without)
{
	need_gpus(scratch_remove);
	expect_training(PRECISION_BF16, 1, 0x1p-9);
	expect_training(PRECISION_F16, 1, 0x1p-12);
}

Test(cuda_precision, the_cpu_refuses_it_in_one_line)
{
	struct job job = make_precise_job(PRECISION_BF16);
	job.options.device = DEVICE_CPU;
	expect_failure(&job, 2, "--precision bf16: only GPUs have it");
}

/* ---- Loss scaling ---- */

/* By rank, in memory that ranks share with the test. */
static struct {
	uint64_t before, after;
	int64_t skipped, optimizer_step;
	float scale, scale_after;
} * seen;

/* The gradients of the last rank alone overflow in step 3 of the first epoch. */
static void overflow_on_last_rank(struct train *train, int step)
{
	int rank = train->world->rank;
	if (train->epochs > 0)
		return;
	if (step == 3) {
		train_hash(train, &seen[rank].before);
		if (rank == train->world->size - 1)
			train->loss_scale.value = 0x1p127f;
		seen[rank].scale = train->loss_scale.value;
	}
	if (step == 4) {
		train_hash(train, &seen[rank].after);
		seen[rank].scale_after = train->loss_scale.value;
		seen[rank].skipped = train->loss_scale.skipped;
		seen[rank].optimizer_step = train->optimizer->step;
		train->loss_scale.value = 32768;
	}
}

static void expect_skip(int size)
{
	struct job job = make_precise_job(PRECISION_F16);
	seen = mmap(NULL, size * sizeof(*seen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		-1, 0);
	cr_assert_neq(seen, MAP_FAILED);
	job.change = overflow_on_last_rank;
	run_ranks(&job, size);
	for (int rank = 0; rank < size; rank++) {
		cr_assert_eq(seen[rank].after, seen[rank].before);
		cr_assert_eq(seen[rank].skipped, 1);
		cr_assert_eq(seen[rank].optimizer_step, 3);
		cr_assert_eq(seen[rank].scale_after, seen[rank].scale / 2);
	}
	cr_assert_neq(job.outcome->hashes[0], seen[0].after);
	munmap(seen, size * sizeof(*seen));
}

Test(cuda_precision, an_overflow_on_one_rank_skips_the_step_on_all)
{
	need_gpus(scratch_remove);
	expect_skip(2);
}

Test(cuda_precision, an_overflow_on_a_rank_alone_skips_the_step)
{
	need_gpus(scratch_remove);
	expect_skip(1);
}

Test(cuda_precision, the_report_counts_skipped_steps)
{
	struct job job = make_precise_job(PRECISION_F16);
	need_gpus(scratch_remove);
	job.reports = true;
	run_ranks(&job, 2);
	cr_assert(strstr(job.outcome->report, "\nLoss scale: 65536; steps skipped so far: 0\n"),
		"%s", job.outcome->report);
}

/* The head of a checkpoint is text. */
static void expect_in_checkpoint(const char *name, const char *text)
{
	char head[8192] = "";
	FILE *file = fopen(scratch_path(name), "rb");
	cr_assert(file);
	size_t size = fread(head, 1, sizeof(head) - 1, file);
	fclose(file);
	cr_assert(memmem(head, size, text, strlen(text)), "%s is not in the checkpoint", text);
}

Test(cuda_precision, a_resumed_run_keeps_its_loss_scale)
{
	struct job half = make_precise_job(PRECISION_F16), rest = make_precise_job(PRECISION_F16);
	need_gpus(scratch_remove);
	half.options.epochs = 1;
	half.options.checkpoint = rest.options.checkpoint = scratch_path("half");
	run_ranks(&half, 2);
	expect_in_checkpoint("half", "\"rondo.loss_scale\":\"16\"");
	expect_in_checkpoint("half", "\"rondo.loss_scale_steps\":\"7\"");
	rest.options.resume = scratch_path("half");
	run_ranks(&rest, 2);
	expect_in_checkpoint("half", "\"rondo.loss_scale_steps\":\"14\"");
}
