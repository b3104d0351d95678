#include "train/model/gpt.h"

#include <math.h>

#include "train/base/fail.h"
#include "train/model/layer.h"

#define DEVIATION 0.02f
#define EXPANSION 4 /* of the perceptron's inner rows */

static const struct start zero = { START_CONSTANT, 0 };

/* Layers that add to the residual stream begin smaller, so that its variance does not grow with
   their number. */
static struct start residual_start(const struct gpt *gpt)
{
	return (struct start){ START_NORMAL, DEVIATION / sqrtf(2.0f * gpt->layers) };
}

static void add_half(
	struct layer *parent, const char *name, const struct gpt *gpt, int in, int out, int groups)
{
	add_linear_with(parent, name,
		&(struct linear){ .rows = gpt->tokens,
			.in = in,
			.out = out,
			.weight = { START_NORMAL, DEVIATION },
			.bias = zero,
			.sharing = COLUMNS,
			.groups = groups });
}

static void add_projection(struct layer *parent, const struct gpt *gpt, int in)
{
	add_linear_with(parent, "c_proj",
		&(struct linear){ .rows = gpt->tokens,
			.in = in,
			.out = gpt->width,
			.weight = residual_start(gpt),
			.bias = zero,
			.sharing = ROWS });
}

static void add_block(struct layer *parent, const char *name, const struct gpt *gpt)
{
	int ranks = parent ? parent->model->config.tensor_group->size : 1;
	int width = gpt->width, inner = EXPANSION * width;
	size_t count = (size_t)gpt->tokens * width;
	struct layer *block = add_sequence(parent, name, "Block");
	struct layer *half = add_residual(block, "", NULL, count);
	add_layer_norm(half, "ln_1", gpt->tokens, width);
	struct layer *attention = add_sequence(half, "attn", "CausalSelfAttention");
	add_half(attention, "c_attn", gpt, width, 3 * width, 3);
	add_attention(attention, gpt->tokens, gpt->heads / ranks, width / gpt->heads);
	add_projection(attention, gpt, width);
	half = add_residual(block, "", NULL, count);
	add_layer_norm(half, "ln_2", gpt->tokens, width);
	struct layer *perceptron = add_sequence(half, "mlp", "MLP");
	add_half(perceptron, "c_fc", gpt, width, inner, 1);
	add_gelu(perceptron, "gelu", (size_t)gpt->tokens * inner / ranks);
	add_projection(perceptron, gpt, inner);
}

int gpt_layers(struct model *model, const struct gpt *gpt)
{
	char name[16];
	const struct start start = { START_NORMAL, DEVIATION };
	int ranks = model->config.tensor_group->size;
	if (gpt->heads % ranks)
		return fail("--tensor %d: does not divide the model's %d heads", ranks, gpt->heads);
	struct layer *body = add_sequence(model->root, "transformer", "ModuleDict");
	struct layer *embedding = add_embedding(body, gpt->tokens, gpt->width, gpt->vocabulary,
		gpt->used ? gpt->used : gpt->vocabulary, start);
	struct layer *blocks = add_sequence(body, "h", "ModuleList");
	for (int l = 0; l < gpt->layers; l++) {
		snprintf(name, sizeof(name), "%d", l);
		add_block(blocks, name, gpt);
	}
	add_layer_norm(body, "ln_f", gpt->tokens, gpt->width);
	add_head(body, gpt->tokens, gpt->width, gpt->vocabulary, start, embedding);
	return model->error;
}
