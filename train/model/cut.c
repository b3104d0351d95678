#include "train/model/cut.h"

#include <float.h>
#include <stdlib.h>

#include "train/base/fail.h"
#include "train/model/layer.h"

/* Parts that stay together. */
struct parts {
	double *work; /* [count] */
	int *end; /* [count]: the number of the layer behind it */
	int count;
};

/* All that its layers do; elements of outputs count, too, for layers without products. */
static double work_of(const struct layer *layer)
{
	double work = layer->work + layer->out;
	for (int l = 0; l < layer->layer_count; l++)
		work += work_of(layer->layers[l]);
	return work;
}

/* Numbers the layers as layer_add() does. A view of its input stays with the next layer. */
static void collect(const struct layer *layer, struct parts *parts, int *number)
{
	for (int l = 0; l < layer->layer_count; l++) {
		const struct layer *inner = layer->layers[l];
		if (layer_is_cut(inner)) {
			collect(inner, parts, number);
			continue;
		}
		++*number;
		if (!inner->kind->forward)
			continue;
		parts->work[parts->count] = work_of(inner);
		parts->end[parts->count++] = *number;
	}
}

/*
 * The least greatest work of a stage: most[s][i] is that of the first i parts in s + 1 stages, and
 * from[s][i] the parts before the last of these. Fewer than one part a stage: never.
 */
static void divide(const struct parts *parts, int stages, double *most, int *from)
{
	int width = parts->count + 1;
	for (int s = 0; s < stages; s++) {
		for (int i = 0; i <= parts->count; i++) {
			double last = 0;
			most[s * width + i] = DBL_MAX;
			for (int j = i - 1; j >= s; j--) {
				last += parts->work[j];
				double before = s ? most[(s - 1) * width + j] : j ? DBL_MAX : 0;
				double greatest = last > before ? last : before;
				if (greatest < most[s * width + i]) {
					most[s * width + i] = greatest;
					from[s * width + i] = j;
				}
			}
		}
	}
}

static int cut(const struct model *model, int stages, int *first)
{
	int number = 0, width = model->layer_count + 1;
	struct parts parts = { .work = calloc(width, sizeof(*parts.work)),
		.end = calloc(width, sizeof(*parts.end)) };
	double *most = calloc((size_t)width * stages, sizeof(*most));
	int *from = calloc((size_t)width * stages, sizeof(*from)), err = 0;
	if (!parts.work || !parts.end || !most || !from)
		err = fail("out of memory");
	if (!err) {
		collect(model->root, &parts, &number);
		if (parts.count < stages)
			err = fail("--pipeline %d: the model has %d layers to divide", stages,
				parts.count);
	}
	if (!err) {
		divide(&parts, stages, most, from);
		int count = parts.count;
		for (int s = stages - 1; s >= 0; s--) {
			first[s + 1] = parts.end[count - 1];
			count = from[s * (parts.count + 1) + count];
		}
		first[0] = 0;
	}
	free(parts.work);
	free(parts.end);
	free(most);
	free(from);
	return err;
}

int network_cut(const struct network *network, struct device *device, const struct samples *samples,
	const struct model_config *config, int stages, int *first)
{
	struct model *whole;
	struct model_config all = *config;
	all.first_layer = all.last_layer = 0;
	int err = model_open(&whole, device, &all, network->title);
	if (!err)
		err = network->build(whole, samples);
	if (!err)
		err = whole->error;
	if (!err)
		err = cut(whole, stages, first);
	model_destroy(whole);
	return err;
}
