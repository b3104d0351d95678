#include "train/train.h"

#include <stdlib.h>

#include "train/base/draft.h"
#include "train/base/fail.h"
#include "train/checkpoint/checkpoint.h"
#include "train/model/networks.h"
#include "train/optim/optimizer.h"
#include "train/parallel/same.h"
#include "train/parallel/statistics.h"
#include "train/parts.h"
#include "train/replica.h"
#include "train/settings.h"
#include "train/resume.h"
#include "train/source.h"

#define DEFAULT_SEED 1
#define DEFAULT_EPOCHS 5
#define DEFAULT_BUCKET_MB 2

static int set_precision(const struct train *train)
{
	static const rondo_type types[] = { RONDO_F32, RONDO_BF16, RONDO_F16 };
	struct device *device = train->device;
	return world_agree(
		train->world, device->ops->precision(device, types[train->options.precision]));
}

static int load_data(struct train *train)
{
	struct data_source source;
	const struct network *network = train->options.network;
	int err = source_find(&source, &train->options, train->world, train->report, network->data,
		train->options.tokens);
	if (!err && source.kind != network->data)
		err = fail("%s: holds %s files, and --model %s reads %s files", source.path,
			source.kind->name, network->name, network->data->name);
	if (!err)
		err = data_open_both(&train->train_data, &train->test_data, &source);
	if (err)
		return err;
	const struct data *data = train->train_data, *test = train->test_data;
	if (data->channels) {
		report_line(train->report, "%s: %zu images to train on, %zu to test, %d x %d x %d",
			source.path, data->count, test->count, data->channels, data->rows,
			data->columns);
		return 0;
	}
	report_line(train->report, "%s: %zu samples to train on, %zu to test, of %zu tokens",
		source.path, data->count, test->count, data->input_count);
	train->report->unit = "tokens";
	train->report->units = data->label_count;
	return 0;
}

/* PyTorch has a default for Adam alone; SGD's is a usual one. */
static double own_rate(int optimizer)
{
	return optimizer == OPTIMIZER_SGD ? 0.05 : 1e-3;
}

/* The model has defaults for all that neither the arguments nor a checkpoint give. */
static int complete_options(struct train *train)
{
	struct options *options = &train->options;
	int size = train->groups->data.size;
	if (!options->network)
		options->network = network_named("mlp");
	const struct network *network = options->network;
	if (!options->tokens)
		options->tokens = network->tokens;
	if (options->epochs < 0)
		options->epochs = network->epochs ? network->epochs : DEFAULT_EPOCHS;
	if (options->seed < 0)
		options->seed = DEFAULT_SEED;
	if (options->optimizer < 0)
		options->optimizer = network->optimizer;
	bool usual = options->optimizer == network->optimizer;
	const struct optimizer_config own = optimizer_defaults(options->optimizer);
	if (options->learning_rate < 0)
		options->learning_rate =
			usual ? network->learning_rate : own_rate(options->optimizer);
	if (options->momentum < 0)
		options->momentum = usual ? network->momentum : own.momentum;
	if (options->weight_decay < 0)
		options->weight_decay = usual ? network->weight_decay : own.weight_decay;
	if (options->bucket_mb < 0)
		options->bucket_mb = DEFAULT_BUCKET_MB;
	if (options->global_batch < 0) {
		int64_t samples = (int64_t)size * options->accumulate *
				  (options->batch < 0 ? network->batch : options->batch);
		/* Every rank sees it. Rank 0 alone fails, which aborts the others. */
		if (samples > CHECKPOINT_BATCH_MAX && !train->world->rank)
			return fail("a global batch of %lld samples is above %d: give a smaller "
				    "--batch or --accumulate",
				(long long)samples, CHECKPOINT_BATCH_MAX);
		options->global_batch =
			(int)(samples < CHECKPOINT_BATCH_MAX ? samples : CHECKPOINT_BATCH_MAX);
	}
	/* Likewise. */
	if (options->global_batch % size && !options->shrink && !train->world->rank)
		return fail("a global batch of %d samples does not divide by %d %s",
			options->global_batch, size,
			size < train->world->size ? "replicas" : "ranks");
	int err = train->world->rank ? 0 : options_refuse_idle(options);
	if (!err)
		err = parts_options(train);
	return err ? err : replica_options(train);
}

static int compare_settings(const struct train *train)
{
	char text[4096];
	size_t size = settings_list(&train->options, text, sizeof(text));
	return same_settings(train->world, text, size);
}

static int create_model(struct train *train)
{
	const struct data *data = train->train_data;
	const struct samples samples = { .channels = data->channels,
		.rows = data->rows,
		.columns = data->columns,
		.classes = data->classes,
		.tokens = data->channels ? 0 : (int)data->input_count };
	struct model_config config = { .batch_max = train->options.batch };
	int err = parts_config(train, &samples, &config);
	if (!err)
		err = network_create(&train->model, train->options.network, train->device, &samples,
			&config, train->options.seed);
	/* All ranks refuse alike: one of them says so. */
	err = world_agree(train->world, err);
	if (!err)
		err = same_tensors(&train->groups->data, &train->model->parameters);
	if (!err)
		err = same_tensors(&train->groups->data, &train->model->buffers);
	return err ? err : resume_model(train);
}

/* A loader of a part of the data, with its sampler and the memory of its batches. */
static int create_loader(struct train *train, struct feed *feed, const struct data *data,
	struct sampler **sampler, bool shuffled)
{
	const struct options *options = &train->options;
	const struct train_world *world = &train->groups->data;
	int workers = options->workers;
	int err = sampler_create(
		sampler, data->count, options->global_batch, world->rank, world->size);
	if (!err)
		err = sampler_divide(*sampler, train->micro_batches, options->deterministic);
	if (err)
		return err;
	feed->batch_count = loader_batch_count(workers);
	err = batches_create(&feed->batches, feed->batch_count, train->device, data,
		sampler_batch_max(*sampler));
	return err ? err
		   : loader_create(&feed->loader, &(struct loader_options){ .data = data,
							  .sampler = *sampler,
							  .batches = feed->batches,
							  .workers = workers,
							  .shuffled = shuffled,
							  .seed = options->seed });
}

/* If the device is the host, batches are used where the loader puts them. */
static int place_batch(struct train *train)
{
	struct device *device = train->device;
	const struct data *data = train->train_data;
	size_t batch = sampler_batch_max(train->train_sampler);
	size_t inputs_size = batch * data->input_count * sizeof(float);
	size_t labels_size = batch * data->label_count * sizeof(*train->labels);
	if (device->number < 0)
		return 0;
	int err = device->ops->alloc(device, &train->inputs, inputs_size);
	if (!err)
		err = device->ops->alloc(device, (void **)&train->labels, labels_size);
	if (!err)
		err = device->ops->reserve(
			device, inputs_size > labels_size ? inputs_size : labels_size);
	return err;
}

static int create_optimizer(struct train *train)
{
	const struct options *options = &train->options;
	const struct optimizer_config config = {
		.kind = options->optimizer,
		.momentum = (float)options->momentum,
		.nesterov = options->nesterov,
		.weight_decay = (float)options->weight_decay,
		.beta1 = (float)options->beta1,
		.beta2 = (float)options->beta2,
		.epsilon = optimizer_defaults(options->optimizer).epsilon,
		.max_norm = (float)options->clip,
	};
	int64_t steps = sampler_steps(train->train_sampler);
	train->schedule = (struct schedule){
		.kind = options->schedule,
		.rate = options->learning_rate,
		.lowest = options->min_lr,
		.gamma = options->lr_gamma,
		.period = options->lr_period * steps,
		.warm_up = options->warm_up,
		.steps = options->epochs * steps,
	};
	loss_scale_init(&train->loss_scale, options->precision == PRECISION_F16);
	train->step = train->epochs * steps + train->resumed_samples / options->global_batch;
	train->last_step = options->steps ? train->step + options->steps : INT64_MAX;
	return optimizer_create(
		&train->optimizer, train->device, &config, replica_state_elements(train));
}

static int create_rest(struct train *train)
{
	int err = replica_create(train);
	if (!err)
		err = parts_create(train);
	if (!err)
		err = create_loader(train, &train->train_feed, train->train_data,
			&train->train_sampler, !train->options.no_shuffle);
	if (!err)
		err = create_loader(
			train, &train->test_feed, train->test_data, &train->test_sampler, false);
	if (!err)
		err = resume_check(train);
	if (!err)
		err = create_optimizer(train);
	if (!err)
		err = resume_optimizer(train);
	return err ? err : place_batch(train);
}

/* Rank 0 writes metrics; a resumed run continues its files. */
static int open_metrics(struct train *train)
{
	const struct sampler *sampler = train->train_sampler;
	const struct metrics_start start = { .resumed = train->options.resume != NULL,
		.sample_count = train->epochs * sampler->count + train->resumed_samples };
	if (train->world->rank)
		return 0;
	return metrics_create(&train->metrics, &train->options.metrics, &start);
}

static int ignore_ready(void *argument, int tensor)
{
	(void)argument, (void)tensor;
	return 0;
}

/*
 * CUDA may load a kernel at its first launch, and then waits until the device is idle. A bucket
 * under way keeps it busy until the peers' buckets come, and these may wait alike. So each
 * operation of a step, and of the smaller last step, runs once before the first bucket. Ranks that
 * are threads share the driver's locks: the first bucket waits for the warm-up of all.
 */
static int warm_up(struct train *train)
{
	struct sampler *sampler = train->train_sampler;
	struct model *model = train->model;
	size_t steps[] = { 0, sampler_steps(sampler) - 1 };
	/* Running statistics must not move. */
	float *buffers = malloc(model->buffers.elements * sizeof(float) + 1);
	int err = buffers ? model_read(model, &model->buffers, buffers) : fail("out of memory");
	for (int i = 0; !err && i < 2 * train->micro_batches && train->pipeline; i++) {
		step_cut(train, sampler, steps[i % 2]);
		err = pipeline_warm_up(train->pipeline, &train->parts[i / 2]);
	}
	for (int i = 0; !err && i < 2 * train->micro_batches && !train->pipeline; i++) {
		int batch = sampler_part_count(sampler, steps[i % 2], i / 2);
		struct pass *pass = model->passes;
		model_forward(model, pass, train->inputs, batch, true);
		model_loss_grad(model, pass, train->labels, 0);
		model_backward(model, pass, train->inputs, NULL, ignore_ready, NULL);
	}
	if (!err)
		model_write(model, &model->buffers, buffers);
	step_clear(train);
	free(buffers);
	return err ? err : train->device->ops->wait(train->device);
}

/* --sync-bn. */
static int share_norm(struct train *train)
{
	struct model *model = train->model;
	if (!train->options.sync_norm)
		return 0;
	/* Every rank sees it. Rank 0 alone fails, which aborts the others. */
	if (!model->buffers.count)
		return train->world->rank ? 0
					  : fail("--sync-bn: model %s has no batch norm",
						    train->options.network->name);
	model->norm_sum = statistics_sum;
	model->norm_argument = train->ddp;
	return 0;
}

int train_create(struct train **out, const struct options *options, const struct groups *groups,
	struct device *device, struct report *report)
{
	const struct train_world *world = groups->world;
	struct train *train = calloc(1, sizeof(*train));
	*out = NULL;
	if (!train)
		return fail("out of memory");
	train->options = *options;
	train->groups = groups;
	train->world = world;
	train->device = device;
	train->report = report;
	int err = trace_create(&train->trace, world, options->trace);
	if (!err && options->checkpoint && world->rank == 0)
		err = checkpoint_writable(options->checkpoint);
	if (!err && options->export && world->rank == 0)
		err = draft_check(options->export);
	if (!err)
		err = resume_load(train);
	if (!err)
		err = set_precision(train);
	if (!err)
		err = complete_options(train);
	if (!err)
		err = compare_settings(train);
	if (!err)
		err = load_data(train);
	if (!err)
		err = create_model(train);
	if (!err)
		err = create_rest(train);
	if (!err)
		err = open_metrics(train);
	if (!err && device->number >= 0)
		err = world_agree(world, warm_up(train));
	if (!err)
		err = share_norm(train);
	/* Options may point at the texts. */
	stored_finish_tensors(&train->resumed);
	if (err > 0)
		groups_abort(groups);
	if (err)
		train_destroy(train);
	else
		*out = train;
	return err;
}

static void destroy_loader(struct train *train, struct feed *feed)
{
	loader_destroy(feed->loader);
	batches_destroy(feed->batches, feed->batch_count, train->device);
}

void train_destroy(struct train *train)
{
	if (!train)
		return;
	pipeline_destroy(train->pipeline);
	replica_destroy(train);
	optimizer_destroy(train->optimizer);
	model_destroy(train->model);
	destroy_loader(train, &train->train_feed);
	destroy_loader(train, &train->test_feed);
	sampler_destroy(train->train_sampler);
	sampler_destroy(train->test_sampler);
	data_destroy(train->train_data);
	data_destroy(train->test_data);
	saver_destroy(train->saver);
	free(train->snapshot.parameters);
	free(train->snapshot.buffers);
	free(train->snapshot.state[0]);
	free(train->snapshot.state[1]);
	stored_finish(&train->resumed);
	if (train->device->number >= 0) {
		train->device->ops->free(train->device, train->inputs);
		train->device->ops->free(train->device, train->labels);
	}
	metrics_destroy(train->metrics);
	trace_destroy(train->trace);
	free(train);
}
