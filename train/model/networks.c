#include "train/model/networks.h"

#include <string.h>

#include "train/base/fail.h"
#include "train/model/layer.h"

/* ---- mlp: the classifier of the PyTorch quickstart ---- */

void mlp_layers(struct model *model, const int *widths, int width_count)
{
	char name[16];
	struct layer *stack;
	add_flatten(model->root, "flatten", widths[0]);
	stack = add_sequence(model->root, "linear_relu_stack", "Sequential");
	for (int w = 1; w < width_count; w++) {
		snprintf(name, sizeof(name), "%d", 2 * w - 2);
		add_linear(stack, name, 1, widths[w - 1], widths[w]);
		snprintf(name, sizeof(name), "%d", 2 * w - 1);
		if (w < width_count - 1)
			add_relu(stack, name, widths[w]);
	}
}

static int mlp_build(struct model *model, const struct samples *samples)
{
	int pixels = samples->channels * samples->rows * samples->columns;
	int widths[] = { pixels, 512, 512, samples->classes };
	if (!pixels)
		return fail("--model mlp: needs images, and this set is a text");
	mlp_layers(model, widths, 4);
	return 0;
}

/* ---- All of them ---- */

const struct network networks[] = {
	{ .name = "mlp",
		.title = "NeuralNetwork",
		.batch = 64,
		.learning_rate = 0.05,
		.build = mlp_build },
	{ 0 },
};

const struct network *network_named(const char *name)
{
	for (const struct network *network = networks; network->name; network++)
		if (!strcmp(network->name, name))
			return network;
	return NULL;
}

int network_create(struct model **out, const struct network *network, struct device *device,
	const struct samples *samples, const struct model_config *config, uint64_t seed)
{
	struct model_config full = *config;
	full.rows = samples->tokens ? samples->tokens : 1;
	full.classes = samples->classes;
	int err = model_open(out, device, &full, network->title);
	if (err)
		return err;
	err = network->build(*out, samples);
	if (!err)
		err = model_finish(*out, seed);
	if (err) {
		model_destroy(*out);
		*out = NULL;
	}
	return err;
}
