/*
 * Files of named float tensors and named texts, in the format of safetensors
 * (https://huggingface.co/docs/safetensors, "Format"): the length of the header as a little-endian
 * u64, the header as JSON, then the tensors' bytes, dense and little-endian. PyTorch reads it.
 *
 * One text is ours: "checksum", FNV-1a of all bytes of the file, with zeros in its place.
 */
#ifndef TRAIN_CHECKPOINT_SAFETENSORS_H
#define TRAIN_CHECKPOINT_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "train/model/tensor.h"

/* Bytes of the longest name of a tensor, with its end. */
#define STORED_NAME (TENSOR_NAME + 40)
#define STORED_KEY 64
#define STORED_VALUE 65536

struct stored_tensor {
	char name[STORED_NAME];
	int dims;
	int shape[TENSOR_DIMS]; /* [dims] */
	size_t count;
	float *values; /* [count], dense, on the host */
};

struct stored_text {
	char key[STORED_KEY];
	char *value; /* fewer than STORED_VALUE bytes, without control characters, quotes and
			backslashes */
};

/* The contents of a file. It owns lists, texts, and in `memory` the values. */
struct stored {
	struct stored_tensor *tensors; /* [tensor_count] */
	int tensor_count;
	struct stored_text *texts; /* [text_count] */
	int text_count;
	float *memory; /* NULL: the tensors' values belong to the caller */
};

void stored_init(struct stored *stored);
void stored_finish(struct stored *stored);
/* The tensors alone; the texts stay. */
void stored_finish_tensors(struct stored *stored);
/* Adds a tensor, whose values stay the caller's; its name is prefix, then the tensor's. A part of
   rows 256 to 511 has "[256:512]" behind that. */
int stored_add(struct stored *stored, const char *prefix, const struct tensor *like, float *values);
/* Adds a text, which is copied. */
int stored_set(struct stored *stored, const char *key, const char *value);
/* NULL: there is none. */
const char *stored_get(const struct stored *stored, const char *key);
/* The tensor of that prefix and name; NULL: there is none. */
const struct stored_tensor *stored_find(
	const struct stored *stored, const char *prefix, const char *name);
/* The tensor that stored_add() would have added for it. */
const struct stored_tensor *stored_find_like(
	const struct stored *stored, const char *prefix, const struct tensor *like);

/* Writes all of it. path: for the reason of a failure. */
int safetensors_write(const char *path, FILE *file, const struct stored *stored);
/*
 * Reads a file of F32 tensors. On success, the caller finishes *stored. On failure it is empty, and
 * the reason names the file and the byte. A file without a checksum is accepted: others write none.
 */
int safetensors_read(const char *path, FILE *file, struct stored *stored);

#endif
