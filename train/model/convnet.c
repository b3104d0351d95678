/* The networks of convolutions: convnet and lenet. */
#include "train/base/fail.h"
#include "train/model/layer.h"
#include "train/model/networks.h"

static int need_images(const struct samples *samples, const char *name, int least)
{
	if (!samples->channels)
		return fail("--model %s: needs images, and this set is a text", name);
	if (samples->rows < least || samples->columns < least)
		return fail("--model %s: needs images of at least %d x %d, and these have %d x %d",
			name, least, least, samples->rows, samples->columns);
	return 0;
}

/* Convolution 5 x 5 that keeps the size, batch norm, ReLU, max-pooling. */
static void add_block(struct model *model, const char *name, const struct conv *conv)
{
	struct layer *block = add_sequence(model->root, name, "Sequential");
	add_conv(block, "0", conv);
	add_batch_norm_relu(block, "1", "2", conv->out_channels, conv->rows, conv->columns);
	add_max_pool(block, "3", conv->out_channels, conv->rows, conv->columns);
}

int convnet_build(struct model *model, const struct samples *samples)
{
	int rows = samples->rows, columns = samples->columns;
	const struct conv first = { .in_channels = samples->channels,
		.out_channels = 16,
		.rows = rows,
		.columns = columns,
		.kernel = 5,
		.padding = 2 };
	const struct conv second = { .in_channels = 16,
		.out_channels = 32,
		.rows = rows / 2,
		.columns = columns / 2,
		.kernel = 5,
		.padding = 2 };
	int err = need_images(samples, "convnet", 4);
	if (err)
		return err;
	add_block(model, "layer1", &first);
	add_block(model, "layer2", &second);
	add_linear(model->root, "fc", 1, 32 * (rows / 4) * (columns / 4), samples->classes);
	return 0;
}

/* Convolution 5 x 5 without padding, max-pooling, ReLU: the result is that of ReLU before the
   pooling, for a quarter of the elements. */
static void add_stage(struct model *model, const char *conv_name, const char *pool_name,
	const char *relu_name, const struct conv *conv)
{
	int rows = conv->rows - 4, columns = conv->columns - 4;
	add_conv(model->root, conv_name, conv);
	add_max_pool(model->root, pool_name, conv->out_channels, rows, columns);
	add_relu(model->root, relu_name, (size_t)conv->out_channels * (rows / 2) * (columns / 2));
}

int lenet_build(struct model *model, const struct samples *samples)
{
	const struct conv first = { .in_channels = samples->channels,
		.out_channels = 6,
		.rows = samples->rows,
		.columns = samples->columns,
		.kernel = 5 };
	const struct conv second = { .in_channels = 6,
		.out_channels = 16,
		.rows = (first.rows - 4) / 2,
		.columns = (first.columns - 4) / 2,
		.kernel = 5 };
	int err = need_images(samples, "lenet", 16);
	if (err)
		return err;
	int pixels = 16 * ((second.rows - 4) / 2) * ((second.columns - 4) / 2);
	add_stage(model, "conv1", "pool1", "relu1", &first);
	add_stage(model, "conv2", "pool2", "relu2", &second);
	add_linear(model->root, "fc1", 1, pixels, 120);
	add_relu(model->root, "relu3", 120);
	add_linear(model->root, "fc2", 1, 120, 84);
	add_relu(model->root, "relu4", 84);
	add_linear(model->root, "fc3", 1, 84, samples->classes);
	return 0;
}
