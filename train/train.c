#include "train/train.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "train/checkpoint/checkpoint.h"
#include "train/data/draw.h"
#include "train/base/fail.h"
#include "train/base/hash.h"
#include "train/model/networks.h"
#include "train/optim/optimizer.h"

#define REPORT_EVERY 100 /* steps */

#define DEFAULT_SEED 1
#define DEFAULT_BUCKET_MB 2

/* ---- Beginning ---- */

/* Finds the data, or draws it where that is allowed. */
static int find_data(struct train *train, char dir[PATH_MAX])
{
	const struct options *options = &train->options;
	const struct set *set = options->set, *drawn = set_named("drawn");
	int err = set_find(dir, PATH_MAX, options->data, set);
	if (err || dir[0])
		return err;
	if (set && set != drawn)
		return fail("%s: holds no %s (--fetch fetches it, --dataset drawn does without)",
			options->data, set->title);
	if (!set)
		err = set_may_draw(options->data);
	if (err)
		return err;
	report_line(train->report,
		"No data set in %s: drawing %d + %d digits (--fetch gets FashionMNIST)",
		options->data, SET_DRAWN_TRAIN, SET_DRAWN_TEST);
	err = set_draw(options->data);
	if (!err)
		err = set_find(dir, PATH_MAX, options->data, drawn);
	if (!err && !dir[0])
		err = fail("%s: the drawn set is gone again", options->data);
	return err;
}

static int load_data(struct train *train)
{
	char dir[PATH_MAX];
	int err = 0;
	/* Rank 0 first: one drawing is enough. Ranks of other hosts then find it, or draw their
	   own. */
	if (!train->world->rank)
		err = find_data(train, dir);
	if (!err)
		err = world_barrier(train->world);
	if (!err && train->world->rank)
		err = find_data(train, dir);
	if (!err)
		err = data_read(&train->train_data, dir, "train");
	if (!err)
		err = data_read(&train->test_data, dir, "t10k");
	if (err)
		return err;
	const struct data *data = train->train_data, *test = train->test_data;
	if (data->rows != test->rows || data->columns != test->columns)
		return fail(
			"%s: trains on %zu x %zu images, but tests on %zu x %zu (%s, at byte 8)",
			dir, data->rows, data->columns, test->rows, test->columns, data_files[2]);
	report_line(train->report, "%s: %zu images to train on, %zu to test, %zu x %zu", dir,
		data->count, test->count, data->rows, data->columns);
	return 0;
}

/* Rank 0 reads the checkpoint, and sends its options to all. */
static int load_checkpoint(struct train *train, struct checkpoint *checkpoint, float **parameters)
{
	int err = 0;
	memset(checkpoint, 0, sizeof(*checkpoint));
	*parameters = NULL;
	if (!train->options.resume)
		return 0;
	if (!train->world->rank)
		err = checkpoint_load(train->options.resume, checkpoint, parameters);
	return err ? err : world_broadcast(train->world, checkpoint, sizeof(*checkpoint));
}

/* PyTorch has a default for Adam alone; SGD's is a usual one. */
static double own_rate(int optimizer)
{
	return optimizer == OPTIMIZER_SGD ? 0.05 : 1e-3;
}

/* From the arguments, else from the checkpoint, else the model's default. */
static int complete_options(struct train *train, const struct checkpoint *checkpoint)
{
	struct options *options = &train->options;
	int size = train->world->size;
	bool resumed = options->resume != NULL;
	if (!options->network)
		options->network = network_named("mlp");
	const struct network *network = options->network;
	if (options->seed < 0)
		options->seed = resumed ? (int64_t)checkpoint->seed : DEFAULT_SEED;
	if (options->optimizer < 0)
		options->optimizer = network->optimizer;
	bool usual = options->optimizer == network->optimizer;
	const struct optimizer_config own = optimizer_defaults(options->optimizer);
	if (options->learning_rate < 0)
		options->learning_rate = resumed ? checkpoint->learning_rate
					 : usual ? network->learning_rate
						 : own_rate(options->optimizer);
	if (options->momentum < 0)
		options->momentum = usual ? network->momentum : own.momentum;
	if (options->weight_decay < 0)
		options->weight_decay = usual ? network->weight_decay : own.weight_decay;
	if (options->bucket_mb < 0)
		options->bucket_mb = resumed ? checkpoint->bucket_mb : DEFAULT_BUCKET_MB;
	if (options->global_batch < 0 && options->batch < 0 && resumed)
		options->global_batch = checkpoint->global_batch;
	if (options->global_batch < 0)
		options->global_batch =
			size * (options->batch < 0 ? network->batch : options->batch);
	/* Every rank sees it. Rank 0 alone fails, which aborts the others. */
	if (options->global_batch % size && !train->world->rank)
		return fail("a global batch of %d images does not divide by %d ranks",
			options->global_batch, size);
	if (options->nesterov && options->momentum <= 0 && !train->world->rank)
		return fail("--nesterov: needs sgd with a --momentum above 0");
	options->batch = options->global_batch / size;
	train->epochs = checkpoint->epochs;
	return 0;
}

static int create_model(
	struct train *train, const struct checkpoint *checkpoint, const float *parameters)
{
	const struct data *data = train->train_data;
	const struct samples samples = {
		.channels = 1, .rows = data->rows, .columns = data->columns, .classes = DATA_CLASSES
	};
	const struct model_config config = { .batch_max = train->options.batch };
	int err = network_create(&train->model, train->options.network, train->device, &samples,
		&config, train->options.seed);
	if (!err && parameters)
		err = checkpoint_restore(
			train->options.resume, checkpoint, parameters, train->model);
	if (!err)
		err = train->device->ops->wait(train->device);
	if (err)
		return err;
	return world_broadcast(train->world, train->model->parameters.values,
		train->model->parameters.elements * sizeof(float));
}

/* If the device is the host, batches are gathered in the device's memory. */
static int place_batch(struct train *train)
{
	struct device *device = train->device;
	size_t batch = train->options.batch;
	size_t size = batch * train->model->in * sizeof(float);
	int err = device->ops->alloc(device, (void **)&train->images, size);
	if (!err)
		err = device->ops->alloc(
			device, (void **)&train->labels, batch * sizeof(*train->labels));
	if (!err)
		err = device->ops->reserve(device, size);
	if (err)
		return err;
	bool apart = device->number >= 0;
	train->host_images = apart ? malloc(size) : train->images;
	train->host_labels = apart ? malloc(batch * sizeof(*train->labels)) : train->labels;
	if (!train->host_images || !train->host_labels)
		return fail("out of memory for a batch of %zu", batch);
	return 0;
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
	train->step = train->epochs * steps;
	return optimizer_create(
		&train->optimizer, train->device, &config, train->model->parameters.elements);
}

static int create_rest(struct train *train, const struct checkpoint *checkpoint)
{
	const struct options *options = &train->options;
	const struct train_world *world = train->world;
	const struct data *data = train->train_data;
	int err = ddp_create(&train->ddp, world, train->device, train->model->parameters.list,
		train->model->parameters.count, (size_t)(options->bucket_mb * (1 << 20)),
		options->resume ? checkpoint->order : NULL);
	if (!err)
		err = sampler_create(&train->train_sampler, data->count, options->global_batch,
			world->rank, world->size);
	if (!err)
		err = sampler_create(&train->test_sampler, train->test_data->count,
			options->global_batch, world->rank, world->size);
	if (!err)
		err = create_optimizer(train);
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
	size_t steps[] = { 0, sampler_steps(sampler) - 1 };
	for (int i = 0; i < 2; i++) {
		int batch = sampler_pick(sampler, steps[i]);
		struct pass *pass = train->model->passes;
		model_forward(train->model, pass, train->images, batch, true);
		model_loss_grad(train->model, pass, train->labels, 0);
		model_backward(train->model, pass, train->images, NULL, ignore_ready, NULL);
	}
	return train->device->ops->wait(train->device);
}

int train_create(struct train **out, const struct options *options, const struct train_world *world,
	struct device *device, struct report *report)
{
	struct checkpoint checkpoint;
	float *parameters = NULL; /* of the checkpoint */
	struct train *train = calloc(1, sizeof(*train));
	*out = NULL;
	if (!train)
		return fail("out of memory");
	train->options = *options;
	train->world = world;
	train->device = device;
	train->report = report;
	int err = trace_create(&train->trace, world, options->trace);
	if (!err && options->checkpoint && world->rank == 0)
		err = checkpoint_writable(options->checkpoint);
	if (!err)
		err = load_checkpoint(train, &checkpoint, &parameters);
	if (!err)
		err = complete_options(train, &checkpoint);
	if (!err)
		err = load_data(train);
	if (!err)
		err = create_model(train, &checkpoint, parameters);
	if (!err)
		err = create_rest(train, &checkpoint);
	if (!err)
		err = open_metrics(train);
	if (!err && device->number >= 0)
		err = warm_up(train);
	free(parameters);
	if (err)
		train_destroy(train);
	else
		*out = train;
	return err;
}

void train_destroy(struct train *train)
{
	if (!train)
		return;
	ddp_destroy(train->ddp);
	optimizer_destroy(train->optimizer);
	model_destroy(train->model);
	sampler_destroy(train->train_sampler);
	sampler_destroy(train->test_sampler);
	data_destroy(train->train_data);
	data_destroy(train->test_data);
	if (train->host_images != train->images)
		free(train->host_images);
	if (train->host_labels != train->labels)
		free(train->host_labels);
	train->device->ops->free(train->device, train->images);
	train->device->ops->free(train->device, train->labels);
	metrics_destroy(train->metrics);
	trace_destroy(train->trace);
	free(train);
}

/* ---- Training ---- */

/* Runs this rank's share of a step forward; *batch: its number of images. */
static int forward(struct train *train, const struct data *data, struct sampler *sampler,
	size_t step, struct totals *totals, int *batch)
{
	const struct device_ops *ops = train->device->ops;
	double loss;
	int correct;
	trace_begin(train->trace, TRACE_DATA, "loader");
	size_t count = sampler_pick(sampler, step);
	data_gather(data, sampler->picks, count, train->host_images, train->host_labels);
	trace_end(train->trace, TRACE_DATA);
	trace_begin(train->trace, TRACE_COMPUTATION, "forward");
	ops->put(train->device, train->images, train->host_images,
		count * train->model->in * sizeof(float));
	ops->put(train->device, train->labels, train->host_labels, count * sizeof(*train->labels));
	int err = model_forward(train->model, train->model->passes, train->images, count,
		sampler == train->train_sampler);
	*batch = count;
	if (!err && totals)
		err = model_loss(
			train->model, train->model->passes, train->labels, &loss, &correct);
	trace_end(train->trace, TRACE_COMPUTATION);
	if (err || !totals)
		return err;
	totals->loss += loss;
	totals->correct += correct;
	totals->count += count;
	return 0;
}

int train_step(struct train *train, size_t step, struct totals *totals)
{
	int batch;
	int err = forward(train, train->train_data, train->train_sampler, step, totals, &batch);
	/*
	 * With this scale the mean over ranks is the mean over the images of the step. That holds
	 * in the last step, too, where some ranks have one image more.
	 */
	float scale =
		(float)train->world->size / (float)sampler_global_count(train->train_sampler, step);
	if (!err)
		err = ddp_begin(train->ddp);
	trace_begin(train->trace, TRACE_COMPUTATION, "backward");
	if (!err) {
		model_loss_grad(train->model, train->model->passes, train->labels, scale);
		err = model_backward(train->model, train->model->passes, train->images, NULL,
			ddp_ready, train->ddp);
	}
	trace_end(train->trace, TRACE_COMPUTATION);
	trace_begin(train->trace, TRACE_COMPUTATION, "wait for buckets");
	if (!err)
		err = ddp_wait(train->ddp);
	trace_end(train->trace, TRACE_COMPUTATION);
	trace_begin(train->trace, TRACE_COMPUTATION, "optimizer");
	if (!err)
		optimizer_step(train->optimizer, &train->model->parameters,
			(float)schedule_rate(&train->schedule, train->step++));
	trace_end(train->trace, TRACE_COMPUTATION);
	return err ? err : device_failure(train->device);
}

static int sum_totals(struct train *train, struct totals *totals)
{
	double sums[3] = { totals->loss, totals->correct, totals->count };
	int err = world_sum(train->world, sums, 3);
	*totals = (struct totals){ sums[0], sums[1], sums[2] };
	return err;
}

static int save(struct train *train)
{
	const struct options *options = &train->options;
	struct checkpoint checkpoint = { .epochs = train->epochs,
		.seed = options->seed,
		.global_batch = options->global_batch,
		.learning_rate = options->learning_rate,
		.bucket_mb = options->bucket_mb };
	if (!options->checkpoint || train->world->rank)
		return 0;
	for (int t = 0; t < train->model->parameters.count; t++)
		checkpoint.order[t] = train->ddp->order[t];
	trace_begin(train->trace, TRACE_DATA, "checkpoint");
	int err = checkpoint_save(options->checkpoint, &checkpoint, train->model);
	trace_end(train->trace, TRACE_DATA);
	if (!err)
		report_line(train->report, "Saved checkpoint %s after epoch %llu",
			options->checkpoint, (unsigned long long)train->epochs);
	return err;
}

/* Runs all steps of an epoch, and prints the loss of every hundredth. */
static int train_steps(struct train *train)
{
	struct sampler *sampler = train->train_sampler;
	size_t done = 0;
	for (size_t step = 0; step < sampler_steps(sampler); step++) {
		struct totals totals = { 0 };
		bool reports = step % REPORT_EVERY == 0;
		int err = train_step(train, step, reports ? &totals : NULL);
		if (!err && reports)
			err = sum_totals(train, &totals);
		if (err)
			return err;
		size_t before = done;
		done += sampler_global_count(sampler, step);
		if (reports) {
			report_loss(train->report, &totals, before, sampler->count);
			metrics_step(train->metrics, step, before, done, &totals);
		}
		report_progress(train->report, done, sampler->count);
	}
	return 0;
}

int train_epoch(struct train *train)
{
	struct totals totals;
	double busy_s, wait_s;
	struct sampler *sampler = train->train_sampler;
	size_t steps = sampler_steps(sampler);
	report_epoch(train->report, train->epochs + 1);
	metrics_epoch(train->metrics, train->epochs + 1, train->epochs * steps,
		train->epochs * sampler->count);
	sampler_shuffle(sampler, train->options.seed, train->epochs);
	int err = train_steps(train);
	if (!err)
		err = train->device->ops->wait(train->device);
	if (!err)
		err = ddp_times(train->ddp, &busy_s, &wait_s);
	if (err)
		return err;
	report_speed(train->report, sampler->count, busy_s, wait_s);
	err = train_test(train, &totals);
	if (err)
		return err;
	report_test(train->report, &totals);
	metrics_test(train->metrics, steps, sampler->count, &totals);
	train->epochs++;
	return save(train);
}

int train_test(struct train *train, struct totals *totals)
{
	struct sampler *sampler = train->test_sampler;
	int err = 0, batch;
	*totals = (struct totals){ 0 };
	for (size_t step = 0; !err && step < sampler_steps(sampler); step++)
		err = forward(train, train->test_data, sampler, step, totals, &batch);
	return err ? err : sum_totals(train, totals);
}

int train_hash(struct train *train, uint64_t *hash)
{
	const struct model *model = train->model;
	size_t size = model->parameters.elements * sizeof(float);
	float *parameters = malloc(size);
	int err = parameters ? model_read(model, &model->parameters, parameters)
			     : fail("out of memory");
	if (!err)
		*hash = hash_bytes(HASH_START, parameters, size);
	free(parameters);
	return err ? err : world_compare(train->world, *hash, "parameters");
}

int train_trace(struct train *train)
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
