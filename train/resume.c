#include "train/resume.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "train/base/draft.h"
#include "train/base/fail.h"
#include "train/checkpoint/checkpoint.h"
#include "train/parallel/whole.h"
#include "train/replica.h"
#include "train/settings.h"

/* ---- Texts of a checkpoint, for all ranks ---- */

/* Keys and values, each with its end. */
static int pack(const struct stored *stored, char **bytes, uint64_t *size)
{
	*size = 0;
	for (int i = 0; i < stored->text_count; i++)
		*size += strlen(stored->texts[i].key) + strlen(stored->texts[i].value) + 2;
	char *next = *bytes = malloc(*size + 1);
	if (!next)
		return fail("out of memory for a checkpoint's settings");
	for (int i = 0; i < stored->text_count; i++) {
		next = stpcpy(next, stored->texts[i].key) + 1;
		next = stpcpy(next, stored->texts[i].value) + 1;
	}
	return 0;
}

static int unpack(struct stored *stored, const char *bytes, uint64_t size)
{
	int err = 0;
	for (const char *key = bytes; !err && key < bytes + size;) {
		const char *value = key + strlen(key) + 1;
		err = stored_set(stored, key, value);
		key = value + strlen(value) + 1;
	}
	return err;
}

/* Collective. The other ranks' *stored, initialised, gets rank 0's texts; tensors stay there. */
static int share_texts(const struct train_world *world, struct stored *stored)
{
	char *bytes = NULL;
	uint64_t size = 0;
	int err = 0;
	if (!world->comm)
		return 0;
	if (!world->rank)
		err = pack(stored, &bytes, &size);
	if (!err)
		err = world_broadcast(world, &size, sizeof(size));
	if (!err && world->rank) {
		bytes = malloc(size + 1);
		err = bytes ? 0 : fail("out of memory for a checkpoint's settings");
	}
	if (!err && size)
		err = world_broadcast(world, bytes, size);
	if (!err && world->rank)
		err = unpack(stored, bytes, size);
	free(bytes);
	return err;
}

#define EPOCHS_MAX INT32_MAX

/* ---- Loading ---- */

static int load(struct train *train)
{
	char damage[CHECKPOINT_REASON];
	const char *path = train->options.resume;
	int64_t number;
	int err = checkpoint_load(path, &train->resumed, damage);
	if (!err && *damage)
		report_line(train->report, "%s; going on from %s.previous", damage, path);
	/* Every rank will read it: one line is enough. */
	return err ? err
		   : checkpoint_number(
			     path, &train->resumed, CHECKPOINT_EPOCHS_KEY, 0, EPOCHS_MAX, &number);
}

/* Rank 0 reads it, and so decides for all. */
static int find_checkpoint(struct train *train)
{
	const char *path = train->options.checkpoint;
	char found = !train->world->rank && checkpoint_exists(path);
	int err = world_broadcast(train->world, &found, sizeof(found));
	if (!err && found)
		train->options.resume = path;
	return err;
}

int resume_load(struct train *train)
{
	int64_t epochs;
	int err = train->options.auto_resume ? find_checkpoint(train) : 0;
	const char *path = train->options.resume;
	if (err)
		return err;
	if (!path)
		return 0;
	if (!train->world->rank)
		err = load(train);
	if (!err)
		err = share_texts(train->world, &train->resumed);
	if (!err)
		err = settings_restore(&train->options, path, &train->resumed);
	if (!err)
		err = checkpoint_number(
			path, &train->resumed, CHECKPOINT_EPOCHS_KEY, 0, EPOCHS_MAX, &epochs);
	if (!err && stored_get(&train->resumed, CHECKPOINT_SAMPLES_KEY))
		err = checkpoint_number(path, &train->resumed, CHECKPOINT_SAMPLES_KEY, 0, INT64_MAX,
			&train->resumed_samples);
	if (!err)
		train->epochs = epochs;
	return err;
}

/* Every rank sees it. Rank 0 alone fails, which aborts the others. */
int resume_check(const struct train *train)
{
	int64_t samples = train->resumed_samples, batch = train->options.global_batch;
	size_t count = train->train_sampler->count;
	if (train->world->rank || (samples % batch == 0 && (uint64_t)samples < count) || !samples)
		return 0;
	return fail("%s: was saved at SIGTERM after %lld of %zu samples of an epoch, where no step "
		    "of %lld samples ends: resume it with its own --global-batch and --data",
		train->options.resume, (long long)samples, count, (long long)batch);
}

/* Rank 0's tensors of that prefix, on every rank's device. */
static int restore(
	struct train *train, const char *prefix, const struct tensors *tensors, float *values)
{
	size_t size = tensors->elements * sizeof(float);
	int err = 0;
	if (!size)
		return 0;
	if (!train->world->rank) {
		float *host = malloc(size);
		err = host ? checkpoint_restore(
				     train->options.resume, &train->resumed, prefix, tensors, host)
			   : fail("out of memory for %zu bytes", size);
		if (!err)
			train->device->ops->put(train->device, values, host, size);
		free(host);
	}
	/* The rank's own values may be on their way still: they would replace rank 0's. */
	if (!err)
		err = train->device->ops->wait(train->device);
	return err ? err : world_broadcast(train->world, values, size);
}

int resume_model(struct train *train)
{
	const struct model *model = train->model;
	int err = 0;
	if (train->options.resume) {
		err = restore(train, "", &model->parameters, model->parameters.values);
		return err ? err : restore(train, "", &model->buffers, model->buffers.values);
	}
	/* All ranks have drawn the same values; a different library may round them differently. */
	err = train->device->ops->wait(train->device);
	if (!err)
		err = world_broadcast(&train->groups->data, model->parameters.values,
			model->parameters.elements * sizeof(float));
	return err;
}

/* The scale is a power of 2. */
static int resume_loss_scale(struct train *train)
{
	const char *path = train->options.resume;
	struct loss_scale *scale = &train->loss_scale;
	int64_t exponent, steps;
	if (!scale->on || !stored_get(&train->resumed, CHECKPOINT_SCALE_KEY))
		return 0;
	int err = checkpoint_number(
		path, &train->resumed, CHECKPOINT_SCALE_KEY, -149, 127, &exponent);
	if (!err)
		err = checkpoint_number(
			path, &train->resumed, CHECKPOINT_SCALE_STEPS_KEY, 0, INT32_MAX, &steps);
	if (err)
		return err;
	scale->value = ldexpf(1, (int)exponent);
	scale->good_steps = (int)steps;
	return 0;
}

int resume_optimizer(struct train *train)
{
	struct optimizer *optimizer = train->optimizer;
	char prefix[32];
	int err = 0;
	if (!train->options.resume)
		return 0;
	const char *kind = stored_get(&train->resumed, "option.optimizer");
	if (!kind || strcmp(kind, settings_optimizer(&train->options))) {
		report_line(train->report, "%s has the state of %s: %s starts without",
			train->options.resume, kind ? kind : "another optimizer",
			settings_optimizer(&train->options));
		return 0;
	}
	for (int s = 0; !err && s < optimizer->state_count; s++) {
		snprintf(prefix, sizeof(prefix), "optimizer.%d/", s);
		err = restore(train, prefix, &train->model->parameters, replica_state(train, s));
		if (!err)
			replica_take_state(train, s);
	}
	if (!err)
		err = checkpoint_number(train->options.resume, &train->resumed, CHECKPOINT_STEP_KEY,
			0, INT64_MAX, &optimizer->step);
	return err ? err : resume_loss_scale(train);
}

/* ---- Saving ---- */

/* Host copies of what is saved; the same memory each time. */
static int snapshot(struct train *train, float **copy, const float *values, size_t elements)
{
	size_t size = elements * sizeof(float);
	if (!elements)
		return 0;
	if (!*copy)
		*copy = malloc(size);
	return *copy ? train->device->ops->get(train->device, *copy, values, size)
		     : fail("out of memory for a checkpoint of %zu bytes", size);
}

static int add_tensors(
	struct stored *stored, const char *prefix, const struct tensors *tensors, float *values)
{
	int err = 0;
	for (int t = 0; !err && t < tensors->count; t++) {
		err = stored_add(stored, prefix, &tensors->list[t], values);
		values += tensor_span(&tensors->list[t]);
	}
	return err;
}

static int store_model(struct train *train, struct stored *stored)
{
	const struct model *model = train->model;
	struct snapshot *copies = &train->snapshot;
	int err = snapshot(
		train, &copies->parameters, model->parameters.values, model->parameters.elements);
	if (!err)
		err = snapshot(
			train, &copies->buffers, model->buffers.values, model->buffers.elements);
	if (!err)
		err = add_tensors(stored, "", &model->parameters, copies->parameters);
	return err ? err : add_tensors(stored, "", &model->buffers, copies->buffers);
}

/* stored: NULL on ranks that do not save. Collective. */
static int store_optimizer(struct train *train, struct stored *stored)
{
	const struct optimizer *optimizer = train->optimizer;
	char text[32];
	int err = 0;
	for (int s = 0; !err && s < optimizer->state_count; s++) {
		float **copy = &train->snapshot.state[s];
		snprintf(text, sizeof(text), "optimizer.%d/", s);
		err = replica_gather_state(train, s);
		if (err || !stored)
			continue;
		err = snapshot(
			train, copy, replica_state(train, s), train->model->parameters.elements);
		if (!err)
			err = add_tensors(stored, text, &train->model->parameters, *copy);
	}
	if (err || !stored)
		return err;
	snprintf(text, sizeof(text), "%" PRId64, optimizer->step);
	return stored_set(stored, CHECKPOINT_STEP_KEY, text);
}

static int store_loss_scale(const struct train *train, struct stored *stored)
{
	char text[32];
	if (!train->loss_scale.on)
		return 0;
	snprintf(text, sizeof(text), "%d", ilogbf(train->loss_scale.value));
	int err = stored_set(stored, CHECKPOINT_SCALE_KEY, text);
	snprintf(text, sizeof(text), "%d", train->loss_scale.good_steps);
	return err ? err : stored_set(stored, CHECKPOINT_SCALE_STEPS_KEY, text);
}

static int store(struct train *train, struct stored *stored)
{
	const struct sampler *sampler = train->train_sampler;
	uint64_t steps = train->step - train->epochs * sampler_steps(sampler);
	char epochs[32], samples[32];
	snprintf(epochs, sizeof(epochs), "%" PRIu64, train->epochs);
	snprintf(samples, sizeof(samples), "%" PRIu64, steps * sampler->global_batch);
	int err = stored_set(stored, CHECKPOINT_VERSION_KEY, CHECKPOINT_VERSION);
	if (!err)
		err = stored_set(stored, CHECKPOINT_EPOCHS_KEY, epochs);
	if (!err && steps)
		err = stored_set(stored, CHECKPOINT_SAMPLES_KEY, samples);
	if (!err)
		err = settings_store(&train->options, stored);
	if (!err)
		err = store_model(train, stored);
	if (!err)
		err = store_optimizer(train, stored);
	return err ? err : store_loss_scale(train, stored);
}

int resume_save(struct train *train)
{
	struct stored stored;
	int err = 0;
	bool writes = !train->world->rank;
	if (!train->options.checkpoint)
		return 0;
	if (writes && !train->saver)
		err = saver_create(&train->saver, train->options.checkpoint);
	if (!err)
		err = resume_saved(train, true);
	if (err)
		return err;
	stored_init(&stored);
	trace_begin(train->trace, TRACE_DATA, "checkpoint");
	/* Ranks may hold parts of the state. */
	err = writes ? store(train, &stored) : store_optimizer(train, NULL);
	trace_end(train->trace, TRACE_DATA);
	if (!err && writes)
		err = saver_start(train->saver, &stored);
	stored_finish(&stored);
	train->saved_step = train->step;
	return err;
}

int resume_saved(struct train *train, bool wait)
{
	if (!train->saver || !saver_busy(train->saver) || !(wait || saver_ended(train->saver)))
		return 0;
	int err = saver_wait(train->saver);
	int64_t steps = sampler_steps(train->train_sampler);
	if (!err && train->saved_step % steps)
		report_line(train->report, "Saved checkpoint %s after step %lld, at SIGTERM",
			train->options.checkpoint, (long long)train->saved_step);
	else if (!err)
		report_line(train->report, "Saved checkpoint %s after epoch %lld",
			train->options.checkpoint, (long long)(train->saved_step / steps));
	return err;
}

/* Rank 0's *stored gets the whole tensors of a divided model; they lie in *whole. Collective over
   the first replica. */
static int store_whole(const struct train *train, const struct tensors *parts,
	struct stored *stored, struct tensors *whole)
{
	float *values = malloc(parts->elements * sizeof(*values) + 1);
	int err = values ? model_read(train->model, parts, values)
			 : fail("out of memory for %zu parameters", parts->elements);
	if (!err)
		err = whole_gather(&train->groups->replica, parts, values, whole);
	if (!err)
		err = add_tensors(stored, "", whole, whole->values);
	free(values);
	return err;
}

static int write_export(const struct train *train, const struct stored *stored)
{
	const char *path = train->options.export;
	struct draft draft;
	int err = draft_open(&draft, path);
	if (err)
		return err;
	err = safetensors_write(path, draft.file, stored);
	if (err)
		draft_discard(&draft);
	else
		err = draft_finish(&draft, NULL);
	if (!err)
		report_line(train->report, "Exported the model to %s", path);
	return err;
}

int resume_export(struct train *train)
{
	const struct model *model = train->model;
	struct stored stored;
	struct tensors parameters = { .count = 0 }, buffers = { .count = 0 };
	bool is_divided = whole_is_divided(&train->groups->replica, &model->parameters);
	int err = 0;
	/* Rank 0's replica has it. */
	if (!train->options.export || train->groups->data.rank)
		return 0;
	stored_init(&stored);
	if (is_divided) {
		err = store_whole(train, &model->parameters, &stored, &parameters);
		if (!err)
			err = store_whole(train, &model->buffers, &stored, &buffers);
	} else {
		err = store_model(train, &stored);
	}
	if (!err && !train->world->rank)
		err = write_export(train, &stored);
	stored_finish(&stored);
	whole_finish(&parameters);
	whole_finish(&buffers);
	return err;
}
