/*
 * Tensor and pipeline parallelism, and both beside data parallelism, against the serial model: the
 * same losses, gradients and parameters, for one global batch.
 *
 * The bounds: sums of parts are the serial ones in another order. Both have roundings, of losses of
 * up to 5, and of parameters of up to 1, whose gradients add up all rows. A part that is missing,
 * or added twice, changes both by 1e-3 and more.
 */
#include <cblas.h>
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "train/base/fail.h"
#include "train/base/rng.h"
#include "train/model/cut.h"
#include "train/model/gpt.h"
#include "train/model/networks.h"
#include "train/optim/optimizer.h"
#include "train/parallel/groups.h"
#include "train/parallel/pipeline.h"
#include "train/rounding.h"

#define STEPS 3
#define GLOBAL_BATCH 16
#define TOKENS 6
#define PIXELS 28
#define ELEMENTS_MAX (1 << 17) /* of a model's parameters */
#define PARTS_MAX 16

#define LOSS_ERROR (2 * ROUNDING(16, 5))
#define ERROR (2 * LIKELY_ROUNDING(GLOBAL_BATCH * TOKENS, 1))

struct outcome {
	double losses[STEPS];
	float gradients[ELEMENTS_MAX]; /* of the first step: dense, in the serial model's order */
	float parameters[ELEMENTS_MAX]; /* after the last one */
	char written[ELEMENTS_MAX]; /* whether a rank of the first replica has it */
	size_t counts[8]; /* parameters of each rank */
	char reason[512];
};

static struct outcome *serial, *shared; /* shared with the ranks */

struct way {
	const struct network *network;
	int ranks, tensor, stages;
	int micro_batches; /* of a rank's share of a step */
	bool is_cut_badly; /* each stage but the last has one layer */
};

static struct way way; /* of the ranks */

/* ---- Small networks ---- */

static int build_gpt(struct model *model, const struct samples *samples)
{
	return gpt_layers(model, &(struct gpt){ .layers = 3,
					 .heads = 4,
					 .width = 16,
					 .tokens = samples->tokens,
					 .vocabulary = samples->classes });
}

static int build_mlp(struct model *model, const struct samples *samples)
{
	mlp_layers(model, (int[]){ samples->columns, 24, 16, 24, 12, samples->classes }, 6);
	return model->error;
}

static const struct network gpt = { .name = "gpt", .title = "GPT", .build = build_gpt };
static const struct network mlp = { .name = "mlp", .title = "Net", .build = build_mlp };

static struct samples samples_of(const struct network *network)
{
	if (network == &gpt)
		return (struct samples){ .classes = 32, .tokens = TOKENS };
	return (struct samples){ .channels = 1, .rows = 1, .columns = PIXELS, .classes = 10 };
}

/* The samples of a step from `first` on: inputs[count][..], labels[count][..]. */
static void take_samples(const struct network *network, int step, int first, int count,
	float *inputs, int32_t *labels)
{
	const struct samples samples = samples_of(network);
	int in = samples.tokens ? samples.tokens : samples.columns;
	int rows = samples.tokens ? samples.tokens : 1;
	int32_t *tokens = (int32_t *)inputs;
	for (int n = 0; n < count; n++) {
		struct rng rng = rng_make(step, first + n);
		for (int i = 0; i < in; i++) {
			if (samples.tokens)
				tokens[n * in + i] = rng_below(&rng, samples.classes);
			else
				inputs[n * in + i] = rng_between(&rng, -1, 1);
		}
		for (int i = 0; i < rows; i++)
			labels[n * rows + i] = rng_below(&rng, samples.classes);
	}
}

/* ---- One rank ---- */

struct rank {
	struct groups groups;
	struct model *model, *whole; /* `whole`: the serial model, for the places of tensors */
	struct ddp *ddp;
	struct pipeline *pipeline;
	struct optimizer *optimizer;
};

static int create_models(struct rank *rank, struct device *device)
{
	const struct groups *groups = &rank->groups;
	const struct samples samples = samples_of(way.network);
	int stage = groups->pipeline.rank, first[PARTS_MAX + 1];
	struct model_config config = { .batch_max = GLOBAL_BATCH, .tensor_group = &groups->tensor };
	int err = network_cut(way.network, device, &samples, &config, way.stages, first);
	if (err)
		return err;
	config.passes = turns_passes(stage, way.stages, way.micro_batches);
	config.first_layer = way.is_cut_badly && stage ? stage + 1 : first[stage];
	config.last_layer =
		way.is_cut_badly && stage < way.stages - 1 ? stage + 2 : first[stage + 1];
	err = network_create(&rank->model, way.network, device, &samples, &config, 5);
	config = (struct model_config){ .batch_max = 1 };
	return err ? err : network_create(&rank->whole, way.network, device, &samples, &config, 5);
}

static int create(struct rank *rank, struct device *device)
{
	const struct ddp_config config = { .bucket_size = 4096,
		.micro_batches = way.micro_batches };
	struct optimizer_config sgd = optimizer_defaults(OPTIMIZER_SGD);
	sgd.momentum = 0.9f;
	int err = create_models(rank, device);
	if (!err)
		err = ddp_create(
			&rank->ddp, &rank->groups.data, device, &rank->model->parameters, &config);
	if (!err)
		err = pipeline_create(&rank->pipeline, &rank->groups.pipeline, &rank->groups.ends,
			rank->model, way.micro_batches);
	if (!err)
		err = optimizer_create(
			&rank->optimizer, device, &sgd, rank->model->parameters.elements);
	return err;
}

/* Cuts a rank's share of the batch into micro-batches. */
static int run_step(struct rank *rank, int step)
{
	static float inputs[GLOBAL_BATCH * PIXELS];
	static int32_t labels[GLOBAL_BATCH * TOKENS];
	struct micro_batch parts[PARTS_MAX];
	const struct samples samples = samples_of(way.network);
	int in = samples.tokens ? samples.tokens : samples.columns;
	int rows = samples.tokens ? samples.tokens : 1;
	int share = GLOBAL_BATCH / rank->groups.data.size;
	double sums[2] = { 0 }; /* on the CPU */
	take_samples(way.network, step, rank->groups.data.rank * share, share, inputs, labels);
	for (int m = 0; m < way.micro_batches; m++) {
		int first = m * share / way.micro_batches;
		parts[m] = (struct micro_batch){ .inputs = inputs + first * in,
			.labels = labels + first * rows,
			.sums = sums,
			.count = (m + 1) * share / way.micro_batches - first };
	}
	int err = pipeline_train(rank->pipeline, parts, 1.0f / (GLOBAL_BATCH * rows), rank->ddp);
	if (!err)
		err = ddp_wait(rank->ddp);
	if (!err)
		err = pipeline_sum_shared(rank->pipeline);
	if (rank->groups.tensor.rank)
		sums[0] = 0;
	if (!err)
		err = world_sum(rank->groups.world, sums, 1);
	if (!rank->groups.world->rank)
		shared->losses[step] = sums[0] / (GLOBAL_BATCH * rows);
	return err;
}

/* Where the whole of a tensor of this rank lies in a dense array. */
static size_t place_of(const struct rank *rank, const struct tensor *tensor)
{
	size_t place = 0;
	const struct tensors *all = &rank->whole->parameters;
	for (int t = 0; t < all->count; t++) {
		if (!strcmp(all->list[t].name, tensor->name))
			return tensor_whole_count(tensor) == all->list[t].count ? place : SIZE_MAX;
		place += all->list[t].count;
	}
	return SIZE_MAX;
}

/* Writes this rank's parts to their places, and marks them. */
static int write_parts(const struct rank *rank, bool gradients)
{
	static float marks[ELEMENTS_MAX];
	const struct tensors *mine = &rank->model->parameters;
	float *out = gradients ? shared->gradients : shared->parameters;
	for (int t = 0; t < mine->count; t++) {
		const struct tensor *tensor = &mine->list[t];
		size_t place = place_of(rank, tensor);
		if (place == SIZE_MAX)
			return fail("%s: is not the serial model's", tensor->name);
		tensor_to_whole(tensor, gradients ? tensor->grad : tensor->value, out + place);
		if (gradients)
			continue;
		for (size_t i = 0; i < tensor->count; i++)
			marks[i] = 1;
		static float whole[ELEMENTS_MAX];
		memset(whole, 0, tensor_whole_count(tensor) * sizeof(*whole));
		tensor_to_whole(tensor, marks, whole);
		for (size_t i = 0; i < tensor_whole_count(tensor); i++)
			if (whole[i])
				shared->written[place + i] = 1;
	}
	return 0;
}

static int train(struct rank *rank)
{
	bool writes = rank->groups.data.rank == 0;
	int err = 0;
	for (int step = 0; !err && step < STEPS; step++) {
		err = run_step(rank, step);
		if (!err && writes && step == 0)
			err = write_parts(rank, true);
		if (!err)
			optimizer_step(rank->optimizer, &rank->model->parameters, 0.1f);
	}
	return err || !writes ? err : write_parts(rank, false);
}

static int run_rank(void *argument)
{
	struct train_world world;
	struct device *device;
	struct rank rank = { .model = NULL };
	(void)argument;
	openblas_set_num_threads(1);
	int err = device_create(&device, DEVICE_CPU, 0);
	if (!err)
		err = world_open(&world, -1);
	if (!err) {
		err = groups_open(&rank.groups, &world, way.tensor, way.stages);
		if (!err)
			err = create(&rank, device);
		if (!err)
			shared->counts[world.rank] = model_parameter_count(rank.model);
		if (!err)
			err = train(&rank);
		optimizer_destroy(rank.optimizer);
		pipeline_destroy(rank.pipeline);
		ddp_destroy(rank.ddp);
		model_destroy(rank.model);
		model_destroy(rank.whole);
		err = groups_close(&rank.groups, err);
		err = world_close(&world, err);
	}
	device_destroy(device);
	if (err > 0)
		snprintf(shared->reason, sizeof(shared->reason), "%s", failure());
	return err != 0;
}

/* ---- Comparisons ---- */

static struct outcome *make_outcome(void)
{
	struct outcome *outcome = mmap(
		NULL, sizeof(*outcome), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	cr_assert_neq(outcome, MAP_FAILED);
	return outcome;
}

static void open_outcomes(void)
{
	serial = make_outcome();
	shared = make_outcome();
}

static void close_outcomes(void)
{
	munmap(serial, sizeof(*serial));
	munmap(shared, sizeof(*shared));
}

TestSuite(parts, .init = open_outcomes, .fini = close_outcomes, .timeout = 400);

static double furthest(const float *a, const float *b, size_t count)
{
	double most = 0;
	for (size_t i = 0; i < count; i++)
		most = fmax(most, fabs(a[i] - b[i]));
	return most;
}

/* The serial model, in a process of its own as well. */
static void run_serial(const struct network *network)
{
	way = (struct way){
		.network = network, .ranks = 1, .tensor = 1, .stages = 1, .micro_batches = 1
	};
	memset(shared, 0, sizeof(*shared));
	cr_assert_eq(rondo_spawn(1, run_rank, NULL), 0, "%s", shared->reason);
	memcpy(serial, shared, sizeof(*serial));
	cr_assert_gt(serial->losses[0], 1);
	cr_assert_neq(serial->losses[STEPS - 1], serial->losses[0]);
}

static void expect_serial(struct way tried)
{
	char name[128];
	snprintf(name, sizeof(name), "%s on %d ranks, tensor %d, %d stages, %d parts",
		tried.network->name, tried.ranks, tried.tensor, tried.stages, tried.micro_batches);
	way = tried;
	memset(shared, 0, sizeof(*shared));
	cr_assert_eq(rondo_spawn(way.ranks, run_rank, NULL), 0, "%s: %s", name, shared->reason);
	for (int step = 0; step < STEPS; step++)
		cr_assert_float_eq(shared->losses[step], serial->losses[step], LOSS_ERROR,
			"%s: loss %g, serial %g", name, shared->losses[step], serial->losses[step]);
	/* Embeddings, norms and a last layer are whole on all ranks of a tensor group. */
	size_t ranks = way.tensor * way.stages;
	for (int rank = 0; rank < way.ranks && ranks > 1; rank++)
		cr_assert_lt(shared->counts[rank], serial->counts[0] * (ranks == 2 ? 0.8 : 0.7),
			"%s: rank %d has %zu of %zu parameters", name, rank, shared->counts[rank],
			serial->counts[0]);
	cr_assert_arr_eq(
		shared->written, serial->written, ELEMENTS_MAX, "%s: a part is missing", name);
	double off = furthest(shared->gradients, serial->gradients, ELEMENTS_MAX);
	cr_assert_lt(off, ERROR, "%s: a gradient is off by %g", name, off);
	off = furthest(shared->parameters, serial->parameters, ELEMENTS_MAX);
	cr_assert_lt(off, ERROR, "%s: a parameter is off by %g", name, off);
}

Test(parts, tensor_parallel_models_equal_the_serial_one)
{
	run_serial(&gpt);
	for (int size = 2; size <= 4; size *= 2)
		expect_serial((struct way){ .network = &gpt,
			.ranks = size,
			.tensor = size,
			.stages = 1,
			.micro_batches = size / 2 });
	run_serial(&mlp);
	expect_serial((struct way){
		.network = &mlp, .ranks = 4, .tensor = 4, .stages = 1, .micro_batches = 1 });
}

static void expect_pipelines(const struct network *network)
{
	static const int micro_batches[] = { 1, 3, 8 };
	run_serial(network);
	for (int stages = 2; stages <= 4; stages *= 2)
		for (int i = 0; i < 3; i++)
			expect_serial((struct way){ .network = network,
				.ranks = stages,
				.tensor = 1,
				.stages = stages,
				.micro_batches = micro_batches[i] });
}

Test(parts, pipelines_of_gpt_equal_the_serial_model)
{
	expect_pipelines(&gpt);
}

Test(parts, pipelines_of_the_perceptron_equal_the_serial_model)
{
	expect_pipelines(&mlp);
}

Test(parts, a_pipeline_of_8_stages_equals_the_serial_model)
{
	run_serial(&gpt);
	expect_serial((struct way){
		.network = &gpt, .ranks = 8, .tensor = 1, .stages = 8, .micro_batches = 16 });
	expect_serial((struct way){ .network = &gpt,
		.ranks = 8,
		.tensor = 1,
		.stages = 8,
		.micro_batches = 5,
		.is_cut_badly = true });
}

/* More micro-batches than samples: some have none. */
Test(parts, empty_micro_batches_change_nothing)
{
	run_serial(&mlp);
	expect_serial((struct way){
		.network = &mlp, .ranks = 4, .tensor = 1, .stages = 2, .micro_batches = 11 });
}

Test(parts, data_tensor_and_pipeline_on_8_ranks_equal_the_serial_model)
{
	run_serial(&gpt);
	expect_serial((struct way){
		.network = &gpt, .ranks = 8, .tensor = 2, .stages = 2, .micro_batches = 4 });
	expect_serial((struct way){
		.network = &gpt, .ranks = 8, .tensor = 4, .stages = 2, .micro_batches = 4 });
	expect_serial((struct way){
		.network = &gpt, .ranks = 8, .tensor = 2, .stages = 1, .micro_batches = 2 });
	run_serial(&mlp);
	expect_serial((struct way){
		.network = &mlp, .ranks = 8, .tensor = 2, .stages = 2, .micro_batches = 2 });
}

static void expect_failure(struct way tried, const char *reason)
{
	way = tried;
	memset(shared, 0, sizeof(*shared));
	int status = rondo_spawn(way.ranks, run_rank, NULL);
	cr_assert_gt(status, 0, "%d instead of: %s", status, reason);
	cr_assert(strstr(shared->reason, reason), "'%s' is not in: %s", reason, shared->reason);
}

Test(parts, what_cannot_be_divided_is_refused_in_one_line)
{
	expect_failure(
		(struct way){
			.network = &gpt, .ranks = 3, .tensor = 3, .stages = 1, .micro_batches = 1 },
		"--tensor 3: does not divide the model's 4 heads");
	expect_failure(
		(struct way){
			.network = &mlp, .ranks = 5, .tensor = 5, .stages = 1, .micro_batches = 1 },
		"--tensor 5: does not divide the 24 outputs of a linear layer (0)");
	expect_failure(
		(struct way){
			.network = &mlp, .ranks = 4, .tensor = 3, .stages = 1, .micro_batches = 1 },
		"--tensor 3 --pipeline 1: needs a multiple of 3 ranks, not 4");
	expect_failure((struct way){ .network = &mlp,
			       .ranks = 10,
			       .tensor = 1,
			       .stages = 10,
			       .micro_batches = 1 },
		"--pipeline 10: the model has 9 layers to divide");
}
