#include "train/train.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train/checkpoint/checkpoint.h"
#include "train/resume.h"
#include "train/base/fail.h"
#include "train/base/hash.h"
#include "train/model/networks.h"
#include "train/optim/optimizer.h"
#include "train/parallel/same.h"
#include "train/parallel/statistics.h"
#include "train/parts.h"
#include "train/replica.h"
#include "train/source.h"

#define REPORT_EVERY 100 /* steps */

#define DEFAULT_SEED 1
#define DEFAULT_EPOCHS 5
#define DEFAULT_BUCKET_MB 2

/* ---- Beginning ---- */

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
	if (options->global_batch < 0)
		options->global_batch = size * options->accumulate *
					(options->batch < 0 ? network->batch : options->batch);
	/* Every rank sees it. Rank 0 alone fails, which aborts the others. */
	if (options->global_batch % size && !train->world->rank)
		return fail("a global batch of %d samples does not divide by %d %s",
			options->global_batch, size,
			size < train->world->size ? "replicas" : "ranks");
	if (options->nesterov && options->momentum <= 0 && !train->world->rank)
		return fail("--nesterov: needs sgd with a --momentum above 0");
	int err = parts_options(train);
	return err ? err : replica_options(train);
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
	train->step = train->epochs * steps;
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
		err = create_loader(
			train, &train->train_feed, train->train_data, &train->train_sampler, true);
	if (!err)
		err = create_loader(
			train, &train->test_feed, train->test_data, &train->test_sampler, false);
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
		.step = train->epochs * sampler_steps(sampler),
		.sample_count = train->epochs * sampler->count };
	if (train->world->rank)
		return 0;
	return metrics_create(&train->metrics, &train->options.metrics, &start);
}

/* Cuts this rank's share of the step into its micro-batches. */
static void cut_share(struct train *train, const struct sampler *sampler, size_t step)
{
	const struct data *data = train->train_data;
	const char *inputs = train->inputs;
	const int32_t *labels = train->labels;
	for (int m = 0; m < train->micro_batches; m++) {
		int count = sampler_part_count(sampler, step, m);
		train->parts[m] =
			(struct micro_batch){ .total = (int)sampler_part_total(sampler, step, m),
				.inputs = inputs,
				.labels = labels,
				.count = count };
		inputs += count * data->input_count * sizeof(float);
		labels += count * data->label_count;
	}
}

static int ignore_ready(void *argument, int tensor)
{
	(void)argument, (void)tensor;
	return 0;
}

/*
 * CUDA may load a kernel at its first launch, and then waits until the device is idle. A bucket
 * under way keeps it busy until the peers' buckets come, and these may wait alike. So each
 * operation of a step, and of the smaller last step, runs once before the first bucket.
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
		cut_share(train, sampler, steps[i % 2]);
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
	int err = set_precision(train);
	if (!err)
		err = trace_create(&train->trace, world, options->trace);
	if (!err && options->checkpoint && world->rank == 0)
		err = checkpoint_writable(options->checkpoint);
	if (!err)
		err = resume_load(train);
	if (!err)
		err = complete_options(train);
	if (!err)
		err = load_data(train);
	if (!err)
		err = create_model(train);
	if (!err)
		err = create_rest(train);
	if (!err)
		err = open_metrics(train);
	if (!err && device->number >= 0)
		err = warm_up(train);
	if (!err)
		err = share_norm(train);
	stored_finish(&train->resumed);
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

/* ---- Training ---- */

/* Takes this rank's share of a step, and puts it on the device. */
static int take_batch(struct train *train, struct feed *feed, size_t step)
{
	const struct device_ops *ops = train->device->ops;
	const struct data *data = train->train_data;
	struct batch batch;
	trace_begin(train->trace, TRACE_DATA, "loader");
	int err = loader_take(feed->loader, train->epochs, step, &batch);
	trace_end(train->trace, TRACE_DATA);
	if (err)
		return err;
	if (train->device->number < 0) {
		train->inputs = batch.inputs;
		train->labels = batch.labels;
		return 0;
	}
	ops->put(train->device, train->inputs, batch.inputs,
		batch.count * data->input_count * sizeof(float));
	ops->put(train->device, train->labels, batch.labels,
		batch.count * data->label_count * sizeof(*train->labels));
	return 0;
}

/* Runs a micro-batch forward. */
static int forward(struct train *train, struct micro_batch *part, bool training, bool measures)
{
	struct pass *pass = train->model->passes;
	trace_begin(train->trace, TRACE_COMPUTATION, "forward");
	train->model->norm_batch = part->total;
	int err = model_forward(train->model, pass, part->inputs, part->count, training);
	if (!err && measures)
		err = model_loss(train->model, pass, part->labels, &part->loss, &part->correct);
	trace_end(train->trace, TRACE_COMPUTATION);
	return err;
}

/* scale: of the sum of losses. */
static int backward(struct train *train, const struct micro_batch *part, float scale)
{
	struct pass *pass = train->model->passes;
	trace_begin(train->trace, TRACE_COMPUTATION, "backward");
	model_loss_grad(train->model, pass, part->labels, scale);
	int err = model_backward(train->model, pass, part->inputs, NULL, ddp_ready, train->ddp);
	trace_end(train->trace, TRACE_COMPUTATION);
	return err;
}

/* Forward and backward of the micro-batches. */
static int run_share(struct train *train, float scale, bool measures)
{
	int err = 0;
	if (train->pipeline) {
		trace_begin(train->trace, TRACE_COMPUTATION, "pipeline");
		err = pipeline_train(train->pipeline, train->parts, scale, measures, train->ddp);
		trace_end(train->trace, TRACE_COMPUTATION);
		return err;
	}
	for (int m = 0; !err && m < train->micro_batches; m++) {
		running_restore(train->running, m);
		err = forward(train, &train->parts[m], true, measures);
		if (!err)
			err = running_add(train->running, m, train->parts[m].count);
		if (!err)
			err = ddp_begin(train->ddp, m, train->micro_batches);
		if (!err)
			err = backward(train, &train->parts[m], scale);
	}
	return err;
}

/* Forward alone, with losses. */
static int test_share(struct train *train)
{
	int err = 0;
	if (train->pipeline)
		return pipeline_test(train->pipeline, train->parts);
	for (int m = 0; !err && m < train->micro_batches; m++)
		err = forward(train, &train->parts[m], false, true);
	return err;
}

/* Adds the results of the micro-batches to the totals. */
static void add_totals(struct train *train)
{
	for (int m = 0; m < train->micro_batches && parts_measures(train); m++) {
		const struct micro_batch *part = &train->parts[m];
		train->micro_totals[m].loss += part->loss;
		train->micro_totals[m].correct += part->correct;
		train->micro_totals[m].count += part->count * train->train_data->label_count;
	}
}

static void clear_totals(struct train *train)
{
	memset(train->micro_totals, 0, train->micro_batches * sizeof(*train->micro_totals));
}

int train_step(struct train *train, size_t step, struct totals *totals)
{
	const struct sampler *sampler = train->train_sampler;
	/* The sum over ranks is then the mean over the labels of the step. */
	float scale =
		1 / (float)(sampler_global_count(sampler, step) * train->train_data->label_count);
	int err = take_batch(train, &train->train_feed, step);
	cut_share(train, sampler, step);
	if (!err)
		err = run_share(train, scale * train->loss_scale.value, totals != NULL);
	clear_totals(train);
	add_totals(train);
	trace_begin(train->trace, TRACE_COMPUTATION, "wait for buckets");
	if (!err)
		err = ddp_wait(train->ddp);
	if (!err)
		err = running_wait(train->running, sampler_global_count(sampler, step));
	trace_end(train->trace, TRACE_COMPUTATION);
	trace_begin(train->trace, TRACE_COMPUTATION, "optimizer");
	if (!err) {
		loss_scale_begin(&train->loss_scale, train->optimizer);
		err = replica_update(train, (float)schedule_rate(&train->schedule, train->step++));
	}
	if (!err)
		err = loss_scale_end(&train->loss_scale, train->optimizer);
	trace_end(train->trace, TRACE_COMPUTATION);
	if (totals)
		*totals = replica_sum(train->micro_totals, train->micro_batches);
	return err ? err : device_failure(train->device);
}

static int sum_totals(struct train *train, struct totals *totals)
{
	double sums[3] = { totals->loss, totals->correct, totals->count };
	int err = world_sum(train->world, sums, 3);
	*totals = (struct totals){ sums[0], sums[1], sums[2] };
	return err;
}

bool train_done(const struct train *train)
{
	return train->epochs >= (uint64_t)train->options.epochs || train->step >= train->last_step;
}

/* The reports and checks that are due after this step. */
static int watch(struct train *train)
{
	const struct options *options = &train->options;
	uint64_t hash;
	int err = 0;
	if (options->stragglers && train->step % options->stragglers == 0)
		err = replica_report_straggler(train);
	if (!err && options->check_every && train->step % options->check_every == 0)
		err = train_hash(train, &hash);
	return err;
}

/* Runs the steps of an epoch, and prints the loss of every hundredth. *samples: trained on. */
static int train_steps(struct train *train, size_t *samples)
{
	struct sampler *sampler = train->train_sampler;
	size_t done = 0;
	for (size_t step = 0; step < sampler_steps(sampler) && train->step < train->last_step;
		step++) {
		struct totals totals = { 0 };
		bool reports = step % REPORT_EVERY == 0;
		int err = train_step(train, step, reports ? &totals : NULL);
		if (!err && reports)
			err = sum_totals(train, &totals);
		if (err)
			return err;
		size_t before = done;
		done += sampler_global_count(sampler, step);
		err = watch(train);
		if (err)
			return err;
		if (reports) {
			report_loss(train->report, &totals, before, sampler->count);
			metrics_step(train->metrics, step, before, done, &totals);
		}
		report_progress(train->report, done, sampler->count);
		err = resume_saved(train, false);
		if (err)
			return err;
	}
	*samples = done;
	return 0;
}

int train_epoch(struct train *train)
{
	struct totals totals;
	double busy_s, wait_s;
	struct sampler *sampler = train->train_sampler;
	size_t steps = sampler_steps(sampler), samples;
	report_epoch(train->report, train->epochs + 1);
	metrics_epoch(train->metrics, train->epochs + 1, train->epochs * steps,
		train->epochs * sampler->count);
	int err = train_steps(train, &samples);
	if (!err)
		err = train->device->ops->wait(train->device);
	if (!err)
		err = ddp_times(train->ddp, &busy_s, &wait_s);
	if (err)
		return err;
	report_speed(train->report, samples, busy_s, wait_s);
	if (train->loss_scale.on)
		report_line(train->report, "Loss scale: %g; steps skipped so far: %lld",
			train->loss_scale.value, (long long)train->loss_scale.skipped);
	if (train->options.bucket_report && train->ddp->stream)
		replica_report_buckets(train);
	metrics_trained(train->metrics, samples);
	if (samples < sampler->count)
		return 0;
	err = train_test(train, &totals);
	if (err)
		return err;
	report_test(train->report, &totals);
	metrics_test(train->metrics, steps, sampler->count, &totals);
	train->epochs++;
	return resume_save(train);
}

int train_test(struct train *train, struct totals *totals)
{
	struct sampler *sampler = train->test_sampler;
	int err = statistics_broadcast(&train->groups->data, train->model);
	clear_totals(train);
	for (size_t step = 0; !err && step < sampler_steps(sampler); step++) {
		err = take_batch(train, &train->test_feed, step);
		cut_share(train, sampler, step);
		if (!err)
			err = test_share(train);
		add_totals(train);
	}
	*totals = replica_sum(train->micro_totals, train->micro_batches);
	return err ? err : sum_totals(train, totals);
}

int train_hash(struct train *train, uint64_t *hash)
{
	char what[64];
	const struct model *model = train->model;
	size_t size = model->parameters.elements * sizeof(float);
	float *parameters = malloc(size);
	int err = parameters ? model_read(model, &model->parameters, parameters)
			     : fail("out of memory");
	if (!err)
		*hash = hash_bytes(HASH_START, parameters, size);
	free(parameters);
	snprintf(what, sizeof(what), "parameters after step %lld", (long long)train->step);
	if (!err)
		err = world_compare(&train->groups->data, *hash, what);
	return err ? err : parts_hash(train, hash);
}

static int write_trace(struct train *train)
{
	struct trace_summary summary;
	char dropped[64] = "";
	if (!train->trace)
		return 0;
	int err = trace_write(train->trace, &summary);
	if (err || train->world->rank)
		return err;
	if (summary.dropped)
		snprintf(dropped, sizeof(dropped), "; %llu older events were dropped",
			(unsigned long long)summary.dropped);
	report_line(train->report, "Saved trace %s: %llu events, clocks within %.1f us%s",
		train->options.trace, (unsigned long long)summary.events, 1e6 * summary.error_s,
		dropped);
	return 0;
}

int train_finish(struct train *train)
{
	int err = resume_saved(train, true);
	if (!err)
		err = resume_export(train);
	return err ? err : write_trace(train);
}
