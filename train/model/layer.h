/*
 * Layers: what a model is built of. A layer reads its input, writes its output, and in backward
 * turns the gradient of its output into those of its input and of its tensors.
 *
 * A sequence runs its layers one after the other. A residual layer adds its input to the output of
 * its layers. All else computes.
 *
 * Outputs, and values that backward needs, lie in the memory of a pass: model.h says which. Shapes
 * count elements of one sample.
 */
#ifndef TRAIN_MODEL_LAYER_H
#define TRAIN_MODEL_LAYER_H

#include <stddef.h>
#include <stdio.h>

#include "train/device/device.h"
#include "train/model/model.h"

struct layer;

/* How the ranks of the model's tensor group share a linear layer (Shoeybi et al.: "Megatron-LM",
   2019). A pair of COLUMNS and ROWS needs one sum over the ranks in each direction. */
enum sharing {
	WHOLE, /* each rank has all of it */
	COLUMNS, /* each rank computes a part of the outputs, from all inputs */
	ROWS, /* each rank has a part of the inputs; all outputs are summed */
};

struct linear {
	int rows; /* of a sample */
	int in, out; /* columns; in a layer those of this rank */
	struct start weight, bias;
	enum sharing sharing;
	int groups; /* of COLUMNS: equal blocks of outputs, each shared by all ranks */
};

struct layer_kind {
	/* Prints it in PyTorch's format, without a newline. NULL for a layer of layers. */
	void (*print)(const struct layer *layer, FILE *out);
	/* Writes layer_output(). Returns errors of communication. NULL, as backward then is: its
	   output is its input. */
	int (*forward)(const struct layer *layer, struct pass *pass, const void *in);
	/*
	 * Reads layer_grad(). Writes in_grad, unless that is NULL, and the gradients of its
	 * tensors, and calls layer_ready() once for each of these. Parameters' gradients come
	 * first: their all-reduce then overlaps the input's.
	 */
	int (*backward)(
		const struct layer *layer, struct pass *pass, const void *in, float *in_grad);
};

struct layer {
	const struct layer_kind *kind;
	struct model *model;
	const struct layer *parent; /* NULL: the model's root */
	char name[32]; /* in its parent; tensors' names are the path of such names, without "" */
	const char *title; /* of a layer of layers: its class in PyTorch */
	size_t in, out; /* elements of a sample */
	double work; /* multiplications of its forward, of a sample, where these take its time */
	int tensor, buffer; /* its first ones in the model's; -1: none */
	size_t output; /* where its output begins in a pass, in elements */
	size_t saved; /* likewise, values for backward */
	size_t grad; /* where the gradient of its output begins in model->grads */
	struct layer **layers; /* [layer_count], of a layer of layers */
	int layer_count;
	union {
		struct linear linear;
		struct conv conv; /* batch is set in a pass */
		struct norm norm; /* likewise */
		struct planes planes;
		struct layer_norm layer_norm; /* rows: of a sample */
		struct {
			struct embedding shape; /* likewise */
			int vocabulary; /* of the whole table; shape has this layer's rows */
			bool tied; /* the head adds to the gradient of the token table first */
		} embedding;
		struct {
			int rows, in, out;
			/* Outputs below `tied` have the embedding's weight, tensor
			   `tied_tensor`; the others that of the head. */
			int tied, tied_tensor;
		} head;
		struct {
			int rows, heads; /* of this rank */
			int width; /* of a head */
		} attention;
	} as;
};

/*
 * Adds a layer to a layer of layers. `saved`: floats a sample, `fixed`: floats beside them, for
 * backward. Returns NULL if an earlier addition failed, if memory is short, or if the layer belongs
 * to another stage (see model_config): then add nothing to it.
 */
struct layer *layer_add(struct layer *parent, const struct layer_kind *kind, const char *name,
	size_t in, size_t out, size_t saved, size_t fixed);
/* Adds a tensor to the layer, for training. Does nothing where layer is NULL. */
void layer_tensor(struct layer *layer, const char *name, struct start start, int dims,
	const int *shape /* [dims] */);
/* The same, with dimension `split` in `groups` blocks, each split over the model's tensor group. */
void layer_tensor_part(struct layer *layer, const char *name, struct start start, int dims,
	const int *shape /* [dims] */, int split, int groups);
/* The same, of whose first dimension this tensor has `count` elements from `first` on; another
   tensor of this model, of the same name, has the others. */
void layer_tensor_rows(struct layer *layer, const char *name, struct start start, int dims,
	const int *shape /* [dims], the whole's */, int first, int count);
/* Adds a tensor that is not trained: running statistics. */
void layer_buffer(struct layer *layer, const char *name, float number, int dims,
	const int *shape /* [dims] */);

/* Right after layer_add() without `saved` and `fixed`: its output and that output's gradient take
   the place of its input's, which the layer before it does not read again. Does nothing if there is
   none before it in its parent, or where layer is NULL. */
void layer_overwrite(struct layer *layer);

/* The output in this pass, [batch][out], and its gradient. */
float *layer_output(const struct layer *layer, const struct pass *pass);
float *layer_grad(const struct layer *layer, const struct pass *pass);
/* Its values for backward: `fixed` floats, then batch_max times `saved`. */
float *layer_saved(const struct layer *layer, const struct pass *pass);
/* Its tensor or buffer of this number, from 0. */
struct tensor *layer_tensor_at(const struct layer *layer, int number);
struct tensor *layer_buffer_at(const struct layer *layer, int number);
/* Reports that the gradient of this tensor is final. */
int layer_ready(const struct layer *layer, struct pass *pass, int number);

/* ---- Layers of layers ---- */

/* The model's root, a sequence; NULL: out of memory. */
struct layer *layer_root(struct model *model, const char *title);
/* Drops sequences in which another stage has all layers. */
void layer_prune(struct layer *layer);
/* Whether its layers may be cut into stages: it and all above it are sequences. */
bool layer_is_cut(const struct layer *layer);
/* The innermost layers that read its input and write its output. */
const struct layer *layer_first(const struct layer *layer);
const struct layer *layer_last(const struct layer *layer);
/* Destroys its layers, too. Accepts NULL. */
void layer_destroy(struct layer *layer);
/* Its layers, one after the other. title: its class in PyTorch. */
struct layer *add_sequence(struct layer *parent, const char *name, const char *title);
/*
 * Its input plus the output of its layers, `count` elements a sample. They end with a linear one:
 * the sum lies where that one's output lay.
 */
struct layer *add_residual(struct layer *parent, const char *name, const char *title, size_t count);

/* ---- Layers that compute ---- */

/* rows x in to rows x out; PyTorch's Linear(in, out), its initialisation. */
void add_linear(struct layer *parent, const char *name, int rows, int in, int out);
/* The same, shared by the ranks of the tensor group; in and out are the whole's. */
void add_shared_linear(
	struct layer *parent, const char *name, int rows, int in, int out, enum sharing sharing);
/* The same with other first values. */
void add_linear_with(struct layer *parent, const char *name, const struct linear *linear);
/* Images of conv->rows x conv->columns; PyTorch's Conv2d, its initialisation. batch is ignored. */
void add_conv(struct layer *parent, const char *name, const struct conv *conv);
/* PyTorch's BatchNorm2d and ReLU, computed as one; SyncBatchNorm where model->norm_sum is set. */
void add_batch_norm_relu(struct layer *parent, const char *name, const char *relu_name,
	int channels, int rows, int columns);
/* 2 x 2, of inputs of rows x columns. */
void add_max_pool(struct layer *parent, const char *name, int channels, int rows, int columns);
void add_relu(struct layer *parent, const char *name, size_t count);
/* A view of its input: an image as a row. It is not the last layer. */
void add_flatten(struct layer *parent, const char *name, size_t count);

/* ---- Layers of text models; rows: tokens of a sample ---- */

/*
 * Tokens to rows x width: tensors wte.weight[vocabulary][width] and wpe.weight[rows][width]. Tokens
 * are below `used`. Where that is less than the vocabulary, and the head is in this model, the
 * other rows of wte.weight are a tensor of the head's: their gradient is final when backward
 * begins, and not when it ends. NULL if it belongs to another stage.
 */
struct layer *add_embedding(
	struct layer *parent, int rows, int width, int vocabulary, int used, struct start start);
/*
 * rows x width to rows x vocabulary, without a bias. Its weight is the embedding's wte.weight,
 * whose gradient is the sum of both layers', and after those rows the head's own. embedding NULL:
 * another stage has it, and this one a copy of that tensor; the stages add up their gradients. Both
 * layers have the same parent.
 */
void add_head(struct layer *parent, int rows, int width, int vocabulary, struct start start,
	struct layer *embedding);
void add_layer_norm(struct layer *parent, const char *name, int rows, int width);
void add_gelu(struct layer *parent, const char *name, size_t count);
/* Causal self-attention: rows of query, key and value, each of heads * width, to rows of heads *
   width. heads: of this rank. It is not the first layer. */
void add_attention(struct layer *parent, int rows, int heads, int width);

#endif
