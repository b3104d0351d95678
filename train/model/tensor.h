/* Parameters and buffers of a model, by PyTorch's names. */
#ifndef TRAIN_MODEL_TENSOR_H
#define TRAIN_MODEL_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TENSOR_NAME 96
#define TENSOR_DIMS 4

/* The first values of a tensor. */
struct start {
	enum { START_CONSTANT, START_UNIFORM, START_NORMAL } kind;
	float number; /* the constant, the bound either side of zero, or the deviation */
};

/*
 * A tensor may be a part of a larger one, where ranks share a layer. The whole's dimension `split`
 * then has `groups` equal blocks, and this rank has an equal part of each block, from its element
 * `first` on. Its first values are those of that part of the whole.
 */
struct tensor {
	char name[TENSOR_NAME]; /* as in PyTorch's state_dict */
	int dims;
	int shape[TENSOR_DIMS]; /* [dims] */
	int split; /* -1: this is the whole */
	int whole; /* elements of dimension `split` over all ranks */
	int groups, first;
	struct start start;
	size_t count;
	float *value; /* [count], in the device's memory, a view into the model's */
	float *grad; /* [count], a view into the caller's gradients; NULL for a buffer */
	bool stepped; /* backward changed `value` instead of `grad`: see model.h */
};

/* Tensors in the order of the forward pass. */
struct tensors {
	struct tensor *list; /* [count] */
	int count, room;
	size_t elements; /* of all, each beginning at a multiple of 64 bytes */
	float *values; /* [elements], in the device's memory */
};

/* The distance from one tensor's first element to the next one's: count, up to 64 bytes. */
size_t tensor_span(const struct tensor *tensor);

/* Elements of the whole of which it is a part. */
size_t tensor_whole_count(const struct tensor *tensor);
/* Copies a part to its place in the whole; both on the host. */
void tensor_to_whole(const struct tensor *tensor, const float *part, float *whole);

/* Adds one, with name, dims, shape and start filled in; its number is in *number. */
int tensors_add(struct tensors *tensors, const struct tensor *tensor, int *number);

/* Draws the first values to values[elements], on the host: from the seed and each tensor's name, so
   that they depend on nothing else. */
void tensors_draw(const struct tensors *tensors, uint64_t seed, float *values);

#endif
