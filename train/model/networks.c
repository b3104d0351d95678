#include "train/model/networks.h"

#include <string.h>

#include "train/base/fail.h"
#include "train/model/gpt.h"
#include "train/model/layer.h"

/* ---- mlp: the classifier of the PyTorch quickstart ---- */

void mlp_layers(struct model *model, const int *widths, int width_count)
{
	char name[16];
	struct layer *stack;
	int ranks = model->config.tensor_group->size;
	add_flatten(model->root, "flatten", widths[0]);
	stack = add_sequence(model->root, "linear_relu_stack", "Sequential");
	for (int w = 1; w < width_count; w++) {
		/* A tensor group shares pairs of layers; the last one is whole if it is alone. */
		bool is_last = w == width_count - 1;
		enum sharing sharing = w % 2 == 0 ? ROWS : is_last ? WHOLE : COLUMNS;
		snprintf(name, sizeof(name), "%d", 2 * w - 2);
		add_shared_linear(stack, name, 1, widths[w - 1], widths[w], sharing);
		snprintf(name, sizeof(name), "%d", 2 * w - 1);
		if (!is_last)
			add_relu(stack, name, sharing == COLUMNS ? widths[w] / ranks : widths[w]);
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

/* ---- gpt: nanoGPT's and minGPT's configurations ---- */

#define BYTES 256 /* tokens of a text */
#define GPT2_VOCABULARY 50257 /* of which bytes are the first */

static int gpt_build(struct model *model, const struct samples *samples, const char *name,
	struct gpt gpt /* tokens 0 */)
{
	gpt.tokens = samples->tokens;
	gpt.used = BYTES;
	if (!gpt.tokens)
		return fail("--model %s: needs a text, and this set holds images", name);
	model->config.classes = gpt.vocabulary;
	return gpt_layers(model, &gpt);
}

static int gpt_build_default(struct model *model, const struct samples *samples)
{
	return gpt_build(model, samples, "gpt",
		(struct gpt){ .layers = 4, .heads = 4, .width = 128, .vocabulary = BYTES });
}

static int gpt_build_nano(struct model *model, const struct samples *samples)
{
	return gpt_build(model, samples, "gpt-nano",
		(struct gpt){ .layers = 3, .heads = 3, .width = 48, .vocabulary = BYTES });
}

static int gpt_build_micro(struct model *model, const struct samples *samples)
{
	return gpt_build(model, samples, "gpt-micro",
		(struct gpt){ .layers = 4, .heads = 4, .width = 128, .vocabulary = BYTES });
}

static int gpt_build_mini(struct model *model, const struct samples *samples)
{
	return gpt_build(model, samples, "gpt-mini",
		(struct gpt){ .layers = 6, .heads = 6, .width = 192, .vocabulary = BYTES });
}

static int gpt_build_124m(struct model *model, const struct samples *samples)
{
	return gpt_build(model, samples, "gpt2",
		(struct gpt){
			.layers = 12, .heads = 12, .width = 768, .vocabulary = GPT2_VOCABULARY });
}

/* ---- All of them ---- */

#define GPT(its_name, its_tokens, its_batch, its_rate, its_build) \
	{ \
		.name = its_name, .title = "GPT", .data = &data_text, .tokens = its_tokens, \
		.shares_layers = true, .batch = its_batch, .optimizer = OPTIMIZER_ADAMW, \
		.learning_rate = its_rate, .weight_decay = 0.1, .build = its_build \
	}

const struct network networks[] = {
	{ .name = "mlp",
		.title = "NeuralNetwork",
		.data = &data_idx,
		.shares_layers = true,
		.batch = 64,
		.learning_rate = 0.05,
		.build = mlp_build },
	{ .name = "convnet",
		.title = "ConvNet",
		.data = &data_idx,
		.batch = 100,
		.learning_rate = 0.05,
		.build = convnet_build },
	{ .name = "lenet",
		.title = "LeNet",
		.data = &data_cifar,
		.epochs = 4,
		.batch = 256,
		.learning_rate = 0.05,
		.momentum = 0.9,
		.weight_decay = 1e-4,
		.build = lenet_build },
	GPT("gpt", 64, 16, 1e-3, gpt_build_default),
	GPT("gpt-nano", 128, 16, 1e-3, gpt_build_nano),
	GPT("gpt-micro", 128, 16, 1e-3, gpt_build_micro),
	GPT("gpt-mini", 256, 16, 1e-3, gpt_build_mini),
	GPT("gpt2", 1024, 4, 6e-4, gpt_build_124m),
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
